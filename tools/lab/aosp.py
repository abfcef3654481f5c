# SPDX-License-Identifier: GPL-2.0
"""`make aosp`: Android's own libbinder, service manager and tests, against a driver in a guest.

Nothing of them is in this tree. They come from Debian's source package, are compiled as they are
(tests/clients/aosp/ says with what around them) against libraries of the same suite, and stay in
the cache. A run of our driver is compared, test by test, with one of the C driver.
"""

import json
import os
import pathlib
import shlex

from . import cache, debian, gtest, guest, kernel, packages, proc, say, toolchain
from .versions import BUILD, PINNED, ROOT

AOSP = PINNED["aosp"]
ADAPTATIONS = ROOT / "tests/clients/aosp"
# What is taken from the source package.
_PARTS = ("./frameworks/native/libs/binder", "./frameworks/native/cmds/servicemanager",
          "./system/core/libutils", "./system/core/libprocessgroup/include")
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/android", "usr/lib/7zip")
_LOADER = "usr/lib64/ld-linux-x86-64.so.2"

# Each program with its options and the number of tests in it: fewer would be tests that went missing.
# The first one waits for the service manager; binderDriverInterfaceTest takes its place if it comes first.
PROGRAMS = {"binderClearBufTest": 1, "binderDriverInterfaceTest": 17, "binderLibTest": 56,
            "binderSafeInterfaceTest": 17, "binderUnitTest": 38, "binderThroughputTest -i 2000 -w 4": 1}
# Real-time priorities are inherited by Android's kernels, and by our driver, not by the incumbents.
_REAL_TIME = {"BinderLibTest.SchedPolicySet", "BinderLibTest.InheritRt"}
MAY_FAIL = {"c": _REAL_TIME, "upstream": _REAL_TIME, "rust": set()}


def run(name, driver, boot=("lsm=selinux",)):
    """Run the tests on `driver` in guest `name`, print how they went next to the C driver; a status."""
    built = build()
    ours = _run(built, name, driver, boot)
    others = {} if driver == "c" else _of_c_driver(built, name, boot)
    return _report(name, driver, ours, others)


def build():
    """A folder of the cache with the programs, and the libraries that they need in lib/."""
    packages.ensure("base", "kernel")
    source, root, aidl = _source(), _libraries(), _aidl()
    recipe = {str(p.relative_to(ADAPTATIONS)): p.read_text()
              for p in sorted(ADAPTATIONS.rglob("*")) if p.is_file() and p.name != "guest"}

    def make(part):
        loader = [aidl / _LOADER, "--library-path", _search(aidl), aidl / "usr/bin/aidl"]
        argv = ["make", "-C", ADAPTATIONS, f"-j{os.cpu_count() or 2}", f"SOURCE={source}", f"ROOT={root}",
                f"LLVM={PINNED['llvm']['bin']}", f"AIDL={shlex.join(map(str, loader))}", f"OUT={part}"]
        proc.logged("building AOSP's libbinder and its tests", "aosp-build", argv)
        proc.output("rm", "-rf", part / "objects")
        _gather_libraries(part, root)

    inputs = [source.name, root.name, aidl.name, recipe, toolchain.versions()[1]]
    return cache.entry(f"aosp/programs-{cache.key(*inputs)}", make)


def _source():
    def make(part):
        cache.need_space(1.0, "AOSP's sources and libraries")
        part.mkdir(parents=True)
        state = part / "apt"
        suite = _suite(state, AOSP["suite"], sources=True)
        suite.download_source("downloading AOSP's sources (19 MB)", "aosp-source", part, AOSP["source"])
        archive = next(part.glob("*.orig.tar.*"), None)
        if not archive:
            raise say.LabError(f"{AOSP['source']} of {AOSP['suite']} came without its original archive")
        proc.output("tar", "-xf", archive, "-C", part, *_PARTS)
        archive.unlink()
        proc.output("rm", "-rf", state)

    return cache.entry(f"aosp/source-{cache.key(AOSP['source'], AOSP['suite'], _PARTS)}", make)


def _libraries():
    def make(part):
        state = part / "apt"
        _install(part, _suite(state, AOSP["suite"]), AOSP["libraries"])

    return cache.entry(f"aosp/libraries-{cache.key(AOSP['libraries'], AOSP['suite'])}", make)


def _aidl():
    def make(part):
        for name in AOSP["aidl_suites"]:
            suite = _suite(part / "apt", name)
            version = suite.candidate("aidl") or ""
            # 1:14.0.0+r75-1: the number after the epoch is Android's.
            if version.split(":")[-1].split(".")[0].isdigit() and int(version.split(":")[-1].split(".")[0]) >= 14:
                _install(part, suite, ["aidl"])
                return
        raise say.LabError(f"no suite of {', '.join(AOSP['aidl_suites'])} has aidl 14: name one that has "
                           "in versions.toml, [aosp] aidl_suites")

    return cache.entry(f"aosp/aidl-{cache.key(AOSP['aidl_suites'])}", make)


def _suite(state, name, sources=False):
    suite = debian.Suite(state, name, sources=sources)
    if not suite.update():
        raise say.LabError(f"the package lists of {name} cannot be read from {debian.mirror()}: "
                           "check the network, then run this again")
    return suite


def _install(root, suite, wanted):
    """Unpack `wanted` and what they need into `root`, and leave nothing of the way there."""
    folder = root / "apt" / "packages"
    folder.mkdir(parents=True)
    names = suite.with_dependencies(*wanted)
    suite.download(f"downloading {len(names)} packages of {suite.name}", f"aosp-{suite.name}", folder, *names)
    debian.unpack(sorted(folder.glob("*.deb")), root)
    proc.output("rm", "-rf", root / "apt")


def _search(root):
    return ":".join(str(root / folder) for folder in _LIBRARIES)


def _gather_libraries(part, root):
    """Copy the loader and every library that a program needs: the loader itself says which."""
    found = {_LOADER: root / _LOADER}
    for program in [p for p in part.iterdir() if p.is_file()]:
        listed = proc.output(root / _LOADER, "--library-path", f"{part}:{_search(root)}", "--list", program)
        for path in (line.split("=>")[1].split()[0] for line in listed.splitlines() if "=>" in line):
            found[path] = pathlib.Path(path)
    (part / "lib").mkdir()
    for path in found.values():
        proc.output("cp", "-L", path, part / "lib" / path.name)


def _run(built, name, driver, boot):
    files = {f"/aosp/{p.name}": p for p in built.iterdir() if p.is_file()}
    files |= {f"/aosp/lib/{p.name}": p for p in (built / "lib").iterdir()}
    files["/lib64/ld-linux-x86-64.so.2"] = built / "lib/ld-linux-x86-64.so.2"
    files["/aosp/guest"] = ADAPTATIONS / "guest"
    job = guest.Job(argv=["/aosp/guest", *PROGRAMS], driver=driver, files=files, timeout=900, boot=boot)
    machine = kernel.build(name)
    with say.Step(f"AOSP's tests {name} {driver}") as step:
        result = guest.run(machine, job, lambda text: step.progress(_last_line(text)))
    log = BUILD / "log" / f"aosp-{name}-{driver}.log"
    log.write_text(result.output + "\n--- kernel\n" + "\n".join(result.kernel_log) + "\n")
    for problem in result.problems[:10]:
        print(f"    {problem}")
    say.note(f"what they said: {log}")
    outcome = {"programs": gtest.parse(result.output), "problems": result.problems, "key": built.name}
    if "@@ servicemanager alive" not in result.output:
        outcome["problems"] = [*result.problems, "the service manager died"]
    saved = _saved(name, driver)
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_text(json.dumps(outcome, indent=1))
    return outcome


def _last_line(text):
    return (text.strip().splitlines() or [""])[-1][:70]


def _saved(name, driver):
    return BUILD / "aosp" / f"{name}-{driver}.json"


def _of_c_driver(built, name, boot):
    """The C driver's outcome of these very programs in this guest: it is fetched once."""
    saved = _saved(name, "c")
    if saved.exists():
        outcome = json.loads(saved.read_text())
        if outcome["key"] == built.name and not outcome["problems"]:
            return outcome
    return _run(built, name, "c", boot)


def _report(name, driver, ours, others):
    """Counts for each program, then each test that did not pass or went otherwise than on C."""
    wrong = [f"guest: {problem}" for problem in ours["problems"]]
    print(f"\n  {'AOSP 14 on ' + name + ', ' + driver:<40} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for line, expected in PROGRAMS.items():
        tests = ours["programs"].get(line, {})
        counts = [sum(o in kind for o in tests.values()) for kind in
                  (("passed",), ("failed", "unfinished"), ("skipped",))]
        print(f"  {line:<40} {counts[0]:>7} {counts[1]:>7} {counts[2]:>8}")
        if len(tests) != expected:
            wrong.append(f"{line}: {len(tests)} tests have run, not {expected}")
        elsewhere = others.get("programs", {}).get(line, {})
        for test, outcome in tests.items():
            if outcome == "passed" and elsewhere.get(test, "passed") == "passed":
                continue
            there = f"; C driver: {elsewhere[test]}" if test in elsewhere else ""
            print(f"      {test}: {outcome}{there}")
            if outcome != "passed" and test not in MAY_FAIL[driver]:
                wrong.append(f"{test}: {outcome}")
    print()
    for line in wrong:
        print(f"  {line}")
    print(f"{'as it must be' if not wrong else f'{len(wrong)} things are not as they must be'}")
    return 1 if wrong else 0
