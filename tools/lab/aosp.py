# SPDX-License-Identifier: GPL-2.0
"""`make torture ONLY=aosp`: Android's own libbinder, service manager and tests, against a driver in a guest; and `make bench ONLY=aosp`: their
binderThroughputTest on three drivers.

Nothing of them is in this tree. They come from Debian's source package and stay in the cache. They are compiled without changes (with the
adaptations in tests/clients/aosp/) against libraries of the same suite. A run of our driver is compared, test by test, with one of the C
driver.
"""

import itertools
import os
import pathlib
import re
import shlex
import statistics

from . import bench, cache, debian, foreign, guest, kernel, packages, proc, reports, run as runner, say, toolchain
from .versions import PINNED, ROOT
from report import charts, data, page

AOSP = PINNED["aosp"]
ADAPTATIONS = ROOT / "tests/clients/aosp"
# The parts of the source package that are used.
_PARTS = ("./frameworks/native/libs/binder", "./frameworks/native/cmds/servicemanager",
          "./system/core/libutils", "./system/core/libprocessgroup/include")

# Each program with its options and the number of tests in it: fewer would be tests that went missing.
# The first one waits for the service manager; binderDriverInterfaceTest takes its place if it comes first.
PROGRAMS = {"binderClearBufTest": 1, "binderDriverInterfaceTest": 17, "binderLibTest": 56,
            "binderSafeInterfaceTest": 17, "binderUnitTest": 38, "binderThroughputTest -i 2000 -w 4": 1,
            "schd-dbg -i 100 -pair 2": 1}
# They lose against the clock on a busy machine, on any driver: the one waits 100 ms for a callback, the
# other 5 s, in which three programs are started. They are run again, alone, before they count.
_RACES = {"SafeInterfaceTest.TestCallMeBack": "binderSafeInterfaceTest",
          "BinderLibTest.DeathNotificationMultiple": "binderLibTest"}
_TRIES = 3
# binderThroughputTest: pairs of a client and a server, the calls of all of them, and the guests with their boots of each driver.
_PAIRS, _CALLS, _BOOTS = (1, 2, 4, 8), 40_000, {bench.TIMED: 7, bench.COUNTED: 3}
# Each iteration of a client counts for its server, too.
_RATE = re.compile(r"^iterations per sec: (\S+)$", re.M)
# The output of the programs and of tests/clients/aosp/run.
_END = re.compile(r"^@@ end (\d+)\s*$", re.M)
_TEST = re.compile(r"^\[ *(RUN|OK|FAILED|SKIPPED) *\] ([\w/.]+)(?: \(\d+ ms\)|,.*\(\d+ ms\))?[ \r]*$", re.M)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OUTCOMES = {"RUN": "unfinished", "OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}


def run(name, driver):
    """Run the tests on a driver in guest `name`, or on a kernel, and print the results next to those of the C driver, which is a module; returns the
    problems."""
    which = kernel.build(name).guest
    built = build(which.arch)
    return _report(which.name, _run(built, name, driver), _run(built, which.builtin or name, "c"))


def throughput(into_docs=False):
    """Calls per second of pairs of processes that run on any CPU, in boots of three drivers in turn, and a table."""
    found = {key: [] for key in itertools.product(_BOOTS, _PAIRS, bench.DRIVERS)}
    for name, boots in _BOOTS.items():
        built = build(kernel.GUESTS[name].arch)
        for boot, driver in itertools.product(range(1, boots + 1), bench.DRIVERS):
            lines = [f"binderThroughputTest -p -w {2 * pairs} -i {_CALLS // pairs}" for pairs in _PAIRS]
            result = guest.succeed(f"AOSP's binderThroughputTest {name} {driver}, boot {boot}", kernel.build(name), _job(built, driver, lines))
            for pairs, rate in zip(_PAIRS, _RATE.findall(result.output), strict=True):
                found[name, pairs, driver].append(float(rate) / 2)
    table = rates(found)
    print("\n" + "\n".join(page.plain(table)))
    if into_docs:
        reports.put("aosp", "AOSP's binderThroughputTest, processes on any CPU", " / ".join(map(bench.about, _BOOTS)), table)
    return 0


def rates(found):
    """A line for each guest and number of pairs: the middle one of all boots, and its ratio to the other drivers'."""
    lines = []
    for name, pairs in dict.fromkeys(key[:2] for key in found):
        boots = [found[name, pairs, driver] for driver in bench.DRIVERS]
        c, ours, upstream = map(statistics.median, boots)
        lines.append([name, str(pairs), *("{} [{}, {}]".format(*map(charts.number, (statistics.median(of), min(of), max(of)))) for of in boots),
                      f"{ours / c:.3f}", f"{ours / upstream:.3f}"])
    heads = ("guest", "pairs", *(f"{data.NAMES[driver]}, calls/s [boots]" for driver in bench.DRIVERS), "÷ C", "÷ upstream's")
    return page.Table(heads, lines, (0,))


def build(arch="um"):
    """A folder of the cache with the programs for guests of that architecture, and the libraries that they need in lib/."""
    packages.ensure("base", "kernel")
    target = foreign.target(arch)
    source, root, aidl = _source(), foreign.root(AOSP["libraries"], arch), foreign.root(AOSP["aidl"])
    recipe = {str(p.relative_to(ADAPTATIONS)): p.read_text()
              for p in sorted(ADAPTATIONS.rglob("*")) if p.is_file() and p.name != "run"}

    def make(part):
        # The compiler of interfaces runs here.
        loader = [aidl / "usr" / foreign.HERE.loader, "--library-path", ":".join(map(str, _folders(aidl, foreign.HERE))), aidl / "usr/bin/aidl"]
        argv = ["make", "-C", ADAPTATIONS, f"-j{os.cpu_count() or 2}", f"SOURCE={source}", f"ROOT={root}", f"TRIPLE={target.triple}",
                f"LLVM={PINNED['llvm']['bin']}", f"AIDL={shlex.join(map(str, loader))}", f"OUT={part}"]
        proc.logged("building AOSP's libbinder and its tests", "aosp-build", argv)
        proc.output("rm", "-rf", part / "objects")
        _gather_libraries(part, root, target)

    inputs = [source.name, root.name, aidl.name, recipe, target.triple, toolchain.versions()[1]]
    return cache.entry(f"aosp/programs-{cache.key(*inputs)}", make)


def _source():
    wanted = AOSP["source"]

    def make(part):
        cache.need_space(1.0, "AOSP's sources and libraries")
        debian.unpack_source(wanted, "downloading AOSP's sources (19 MB)", "aosp-source", part, *_PARTS)

    return cache.entry(f"aosp/source-{cache.key(wanted, _PARTS)}", make)


def _folders(root, target):
    return [root / folder for folder in (f"usr/lib/{target.triple}", f"usr/lib/{target.triple}/android", "usr/lib/7zip")]


def _gather_libraries(part, root, target):
    """Copy the loader and every library that a program needs."""
    found = foreign.needed([path for path in part.iterdir() if path.is_file()], [part, *_folders(root, target)])
    (part / "lib").mkdir()
    for path in [*found.values(), root / "usr" / target.loader]:
        proc.output("cp", "-L", path, part / "lib" / path.name)


def _run(built, name, driver):
    outcome = _boot(built, name, driver, list(PROGRAMS))
    for test, program in _RACES.items():
        tries = 1
        while tries < _TRIES and outcome["programs"].get(program, {}).get(test) == "failed":
            tries += 1
            again = _boot(built, name, driver, [f"{program} --gtest_filter={test}"])
            outcome["problems"] += again["problems"]
            if {test: "passed"} in again["programs"].values():
                say.note(f"{test}: passed at try {tries}")
                outcome["programs"][program][test] = "passed"
    return outcome


def _boot(built, name, driver, lines):
    """Run these command lines in one guest: how each test went, and what else was wrong."""
    title = f"AOSP's tests {kernel.build(name).guest.name} {driver}" if len(lines) > 1 else f"{lines[0].split('=')[-1]} again"
    result = runner.run(title, name, _job(built, driver, lines))
    problems = list(result.problems)
    if "@@ servicemanager alive" not in result.output:
        problems.append("the service manager died")
    return {"programs": parse(result.output), "problems": problems}


def _job(built, driver, lines):
    return guest.Job(argv=["/aosp/run", *lines], driver=driver, files=files(built), timeout=900, boot=("lsm=selinux",))


def files(built):
    """The files that a guest needs to run these programs: its paths and the host's."""
    found = {f"/aosp/{p.name}": p for p in built.iterdir() if p.is_file()}
    found |= {f"/aosp/lib/{p.name}": p for p in (built / "lib").iterdir()}
    for target in foreign.TARGETS.values():
        loader = built / "lib" / pathlib.Path(target.loader).name
        if loader.exists():
            found[f"/{target.loader}"] = loader
    found["/aosp/run"] = ADAPTATIONS / "run"
    return found


def parse(output):
    """{command line: {test: passed, failed, skipped or unfinished}} of all GoogleTest programs that began, so that a crash loses one test
    only. A program without tests of its own is one test, named like the program, that passes with status 0.
    """
    programs = {}
    for part in _COLOUR.sub("", output).split("@@ begin ")[1:]:
        command, _, said = part.partition("\n")
        tests, ended = programs.setdefault(command.rstrip(), {}), _END.search(said)
        for what, test in _TEST.findall(said[:ended.start()] if ended else said):
            # The summary names failures again: it changes nothing.
            if what == "RUN" or tests.get(test) == "unfinished":
                tests[test] = _OUTCOMES[what]
        has_failed = ended and ended[1] != "0"
        if ended and not tests:
            tests[command.split()[0]] = "failed" if has_failed else "passed"
        elif has_failed and all(outcome in ("passed", "skipped") for outcome in tests.values()):
            # Something failed outside of the tests, in the environment's tear-down for one.
            tests["(exit status)"] = "failed"
    return programs


def _report(name, ours, c):
    """Print counts for each program, each test that did not pass or differs from C, and unexpected results; returns their number."""
    wrong = [f"guest: {problem}" for problem in ours["problems"]]
    print(f"\n  {'AOSP 14 on ' + name:<40} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for program, expected in PROGRAMS.items():
        tests, on_c = ours["programs"].get(program, {}), c["programs"].get(program, {})
        passed, skipped = (sum(how == kind for how in tests.values()) for kind in ("passed", "skipped"))
        print(f"  {program:<40} {passed:>7} {len(tests) - passed - skipped:>7} {skipped:>8}")
        for test, how in tests.items():
            if {how, on_c.get(test)} != {"passed"}:
                print(f"      {test}: {how}; C driver: {on_c.get(test, 'not run')}")
        wrong += [f"{program}: {len(tests)} tests have run, not {expected}"] if len(tests) != expected else []
        wrong += [f"{test}: {how}" for test, how in tests.items() if how != "passed"]
    print("\n" + "".join(f"  {line}\n" for line in wrong) + (f"{len(wrong)} unexpected results" if wrong else "no unexpected results"))
    return len(wrong)
