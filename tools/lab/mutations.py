# SPDX-License-Identifier: GPL-2.0
"""`make mutations`: the driver broken on purpose, one way at a time, and whether the tests notice.

What is broken, and which test has to notice, is in `tests/mutations/mutations.toml`.
"""

import shutil
import subprocess
import tomllib

from . import frames, guest, kernel, module, programs, say, unload
from .versions import BUILD, ROOT

TABLE = ROOT / "tests/mutations/mutations.toml"
_SOURCES = ("drivers/android", "rust/kernel", "include")
_TIMEOUT = 90
# Instead of a test of the contract suite.
FRAMES = "stack frames"


def table():
    """All mutations, as they stand in the table."""
    return tomllib.loads(TABLE.read_text())["mutation"]


def misplaced():
    """What does not stand in the sources as the table has it, so that it could not be broken."""
    return [f"{mutation['lesson']}, {mutation['name']}: {edit['file']} has {count} times {edit['old'][:60]!r}"
            for mutation in table() for edit in mutation["edits"]
            if (count := (ROOT / edit["file"]).read_text().count(edit["old"])) != 1]


def run(wanted=""):
    """Try the mutations whose lesson or name contains `wanted`, print a table; how many survived."""
    rows = []
    program = programs.build("tests/contract")
    for mutation in table():
        title = f"{mutation['lesson']}: {mutation['name']}"
        if wanted not in title:
            continue
        try:
            end = _try(mutation, program, title)
        except say.LabError as error:
            end = f"NOT TRIED: {error}"
        say.note(f"  {title}: {end}")
        rows.append((mutation, end))
    print()
    print("| lesson | the driver is broken so that | test | ends with |\n|---|---|---|---|")
    for mutation, end in rows:
        print(f"| {mutation['lesson']} | {mutation['name']} | `{mutation['test']}…` | {end} |")
    alive = [row for row in rows if not row[1].startswith("killed")]
    print(f"\n{len(rows) - len(alive)} of {len(rows)} mutations killed")
    return len(alive)


def _try(mutation, program, title):
    """Build and run one; how it ended."""
    if mutation.get("guest") == "host":
        return _try_on_host(mutation)
    if mutation["test"] == FRAMES:
        with say.Step(title):
            broken = module.build(kernel.build("um"), _mutate(mutation) / "drivers/android", "mutation")
            complaints = frames.too_large(broken)
        return f"killed: {complaints[0]}" if complaints else "SURVIVED"
    names = subprocess.run([program, "list", "--filter", mutation["test"]], text=True,
                           capture_output=True, check=True).stdout.splitlines()
    if not names:
        raise say.LabError(f"no test is called {mutation['test']}")
    name = mutation.get("guest", "um")
    built = kernel.build(name)
    with say.Step(title):
        near_limits = mutation.get("near_limits", False)
        switches = (module.NEAR_LIMITS,) if near_limits else ()
        broken = module.build(built, _mutate(mutation) / "drivers/android", "mutation", arguments=switches)
        # A mutant may hang; what a test waits for, it waits for a few seconds.
        argv = ["/lab/contract", "run", "--driver", "rust", "--filter", mutation["test"], "--timeout", "30"]
        argv += ["--near-limits"] if near_limits else []
        options = {"module": broken, "timeout": mutation.get("timeout", _TIMEOUT), "boot": mutation.get("boot", ())}
        if all(name.startswith(unload.GROUP) for name in names):
            job = unload.job(mutation["test"], **options)
        else:
            job = guest.Job(argv=argv, files={"/lab/contract": program}, **options)
        result = guest.run(built, job)
    if result.good:
        return "SURVIVED"
    failed = [line for line in result.output.splitlines() if " FAILED " in line]
    why = (failed or result.problems or ["a bad exit status"])[0]
    return "killed: " + why.replace("|", "/").split(" FAILED ")[-1][:110]


def _try_on_host(mutation):
    """Build and run one with the tests that need no kernel; how it ended."""
    copy = _mutate(mutation)
    tests = copy / "tests/host"
    shutil.copytree(ROOT / "tests/host", tests, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
    argv = ["cargo", "test", "--quiet", "--manifest-path", tests / "Cargo.toml", mutation["test"]]
    ran = subprocess.run(argv, text=True, capture_output=True, check=False)
    if ran.returncode == 0:
        return "SURVIVED"
    failed = [line for line in ran.stdout.splitlines() if line.startswith("assertion") or "panicked at" in line]
    if not failed:
        raise say.LabError("the tests could not be run: " + ran.stderr[-300:])
    return "killed: " + failed[0].replace("|", "/")[:110]


def _mutate(mutation):
    """A copy of the driver with the edits of the mutation."""
    copy = BUILD / "mutation"
    for folder in _SOURCES:
        shutil.copytree(ROOT / folder, copy / folder, dirs_exist_ok=True)
    for edit in mutation["edits"]:
        path = copy / edit["file"]
        text = path.read_text()
        if text.count(edit["old"]) != 1:
            raise say.LabError(f"{edit['file']} has {text.count(edit['old'])} times: {edit['old'][:60]!r}")
        path.write_text(text.replace(edit["old"], edit["new"]))
    return copy
