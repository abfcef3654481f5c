# SPDX-License-Identifier: GPL-2.0
"""`make -C block selftests` and `make -C block blktests`: others' tests of block devices, with C's drivers and with ours.

A guest runs them one after the other. If a test leaves a disk that cannot be removed, or ends the guest, another guest runs the rest.
"""

import collections
import itertools
import pathlib

import parts
from lab import guest, kernel, proc, say
from lab.versions import BUILD

# Seconds for one test. The kernel's own limit is 150, on machines that are not emulated.
_LIMIT = 300

# Pass, skip or fail; seconds in the guest; the reason for a skip or a failure.
Outcome = collections.namedtuple("Outcome", "result seconds reason")


def run():
    """Run all of ublk with C's module and with ours, and write the tables."""
    parts.install()
    for title, suite in SUITES.items():
        write(f"ublk/{title}", {"C": suite(parts.modules("ublk_drv")), "ours": suite(parts.ublk())})


def run_blktests(path):
    """The same for the tests of null_blk in blktests, which is in a folder."""
    parts.install()
    write("nullb/blktests", {"C": blktests(parts.modules("null_blk"), path), "ours": blktests(parts.modules("nullb_rust"), path)})


def blktests(driver, path):
    """{test: Outcome} of the tests for null_blk, other than those of zones and limits."""
    folder = pathlib.Path(path).absolute()
    if not path or not (folder / "check").exists():
        raise say.LabError("BLKTESTS= names the absolute path of a folder with blktests, which has the program `check`")
    tests = sorted((folder / "tests/block").glob("[0-9][0-9][0-9]"))
    return _run(driver, parts.blktests(folder), [], [f"block/{path.name}" for path in tests if "null_blk" in path.read_text()])


def selftests(driver, tests=()):
    """{test: Outcome} of the kernel's tests, or of some of them. `driver` is a module: its path in a guest, and the host's."""
    files = parts.selftests()
    texts = {name: files[f"/lab/ublk/test_{name}.sh"].read_text() for name in tests or shell_tests()}
    # bpftrace is four times as large as all other programs together.
    traced = [name for name, text in texts.items() if "bpftrace" in text]
    found = {}
    for names, more in ([name for name in texts if name not in traced], {}), (traced, parts.bpftrace() if traced else {}):
        found |= _run(driver, files | more, ["bash -x ./test_$name.sh"], names)
    return found


def shell_tests():
    """The names of the kernel's tests."""
    found = (path.removeprefix("/lab/ublk/test_").removesuffix(".sh") for path in parts.selftests() if path.startswith("/lab/ublk/test_"))
    return sorted(set(found) - {"common"})


def libublk(driver, tests=()):
    """The same of the tests of the crate libublk."""
    programs, files = parts.libublk(), parts.selftests()
    return _run(driver, files | programs, ['"./${name%%-*}" --exact --nocapture "${name#*-}"'], tests or rust_tests(programs))


def rust_tests(programs):
    """The names of the crate's tests: PROGRAM-TEST."""
    listed = {name: proc.output(programs[f"/lab/ublk/{name}"], "--list").splitlines() for name in ("libublk", "basic")}
    return [f"{name}-{line.removesuffix(': test')}" for name, lines in listed.items() for line in lines if line.endswith(": test")]


SUITES = {"selftests": selftests, "libublk": libublk}


def recorded(title):
    """{test: result with our module} of a table."""
    rows = [line.split("\t") for line in _table(title).read_text().splitlines()[2:]]
    return {test: ours for test, _, ours, _ in rows}


def write(title, found):
    """Write a table of {driver: {test: Outcome}}."""
    rows = []
    for test in dict.fromkeys(itertools.chain(*found.values())):
        outcomes = [of_driver.get(test, Outcome("", 0, "")) for of_driver in found.values()]
        rows.append([test, *(outcome.result for outcome in outcomes), next(filter(None, (outcome.reason for outcome in outcomes)), "")])
    lines = ["# SPDX-License-Identifier: GPL-2.0", *map("\t".join, [["test", "C", "ours", "reason"], *rows])]
    _table(title).write_text("\n".join(lines) + "\n")


def _table(title):
    return parts.HERE / f"{title}.tsv"


def _run(driver, files, words, tests):
    """{test: Outcome} of what the script /lab/suite does in a guest with these words, for each test. A complaint in the kernel's log is a failure of "kernel log"."""
    module = next(iter(driver))
    found, left, logs = {}, list(tests), BUILD / "log" / pathlib.Path(module).stem
    logs.mkdir(parents=True, exist_ok=True)
    for name in tests:
        (logs / name.replace("/", "-")).unlink(missing_ok=True)
    while left:
        job = guest.Job(argv=["/bin/sh", "/lab/suite", module, str(_LIMIT), *words, *left], driver="none", files=files | driver, memory=2048,
                        timeout=_LIMIT * len(left), silence=_LIMIT + 60)
        with say.Step(f"{len(left)} tests with {module}") as step:
            result = guest.run(kernel.build(parts.GUEST), job, step.hear)
        for name, content in result.files.items():
            (logs / name.replace("/", "-")).write_bytes(content)
        lines = [line.split("\t") for line in result.output.splitlines()]
        found |= {name: Outcome(came, int(seconds), reason) for name, came, seconds, reason in lines}
        left = left[len(lines):]
        if result.status is None and left:
            found[left.pop(0)] = Outcome("fail", 0, result.problems[-1])
        elif result.problems:
            found["kernel log"] = Outcome("fail", 0, result.problems[0])
        elif result.status and not lines:
            raise say.LabError(f"{module} runs no test: {result.files['suite'].decode()}")
    return found


if __name__ == "__main__":
    run()
