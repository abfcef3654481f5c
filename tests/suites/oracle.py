# SPDX-License-Identifier: GPL-2.0
"""The answers of the C driver: records in tests/oracle/ for a kernel whose tree lacks it, and runs of the contract suite that are not repeated.

A record begins with a line about its origin. Where the C driver is there, each stage compares it with its record, and writes the record with
DOCS=1.
"""

import base64
import dataclasses
import difflib
import hashlib
import json
import os
import re
import time

from lab import bench, cache, contract, emulator, guest, kernel, proc, programs, say, source
from lab.run import counts_of, run
from lab.versions import ROOT

FOLDER = ROOT / "tests/oracle"
GUEST = "um"
CONTRACT = "contract.tsv"
COMMAND = "make contract DRIVER=c DOCS=1"
_TWO_CPUS = ROOT / "tests/contract/src/tests/mod.rs"
# The words of the suite for the end of a test, and those of the record.
_ENDS = {"ok": "passed", "expected difference on c": "differs", "skipped": "skipped", "FAILED": "failed"}
_WORDS = {result: word for word, result in _ENDS.items()}
_END = re.compile(rf"^(\w+::\w+) ({'|'.join(_ENDS)})\b", re.M)


def read(name):
    """The lines of a record; none if it is missing."""
    return (FOLDER / name).read_text().splitlines()[1:] if (FOLDER / name).exists() else []


def write(name, what, lines):
    # Later commits leave the tests as they are.
    tested = proc.output("git", "-C", ROOT, "log", "-1", "--format=%h", "--", contract.CRATE).strip()
    about = f"{bench.now()[:10]}, tests {tested}, Linux {kernel.build(GUEST).release} ({GUEST}), C driver of {source.c_package().stem}"
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text("\n".join([f"# {what}: {about}", *lines]) + "\n")


def scene(tally, name, title, job, comparable):
    """The lines of the output of a job on the C driver, compared with their record; the record if the kernel lacks the driver. None if the
    run was bad."""
    if not kernel.build(GUEST).has_c:
        return read(name)
    result = run(f"{title} {GUEST} c", GUEST, job)
    if not result.good:
        return None
    lines = comparable(result.output)
    if os.environ.get("LAB_DOCS"):
        write(name, f"{title} on the C driver", lines)
    agree(tally, f"{title} {GUEST} c", name, list(difflib.unified_diff(read(name), lines, "recorded", "now", lineterm="", n=0)))
    return lines


def agree(tally, title, name, wrong):
    """Add a test of the record `name`, which failed if lines are `wrong`."""
    advice = f"tests/oracle/{name} differs from the C driver. If the new answers are right: {COMMAND}, and commit it with the reason"
    tally.nothing_wrong(f"{title}: as recorded", wrong and [*wrong[:20], advice])


def suite(tally, part):
    """A part of the contract suite on the C driver, compared with its record test by test; the record alone if the kernel lacks the driver."""
    title, names = f"contract {GUEST} c, {part}", tests()
    wanted = selected(names, **contract.PARTS[part])
    if not kernel.build(GUEST).has_c:
        tally.add(f"{title}, from the record", *counts_of(recorded(contracted(), wanted)))
        return
    result = contract.suite(tally, GUEST, "c", title, attempt=recalled, **contract.PARTS[part])
    if not result.good:
        return
    # Parts run at once.
    with cache.lock("tests-oracle"):
        kept, found = contracted(), results(result.output)
        if os.environ.get("LAB_DOCS"):
            kept = {test: (kept | found)[test] for test in names if test in kept | found}
            write(CONTRACT, "The contract suite on the C driver", map("\t".join, kept.items()))
    agree(tally, title, CONTRACT, [*different({test: kept.get(test) for test in wanted}, found),
                                   *(f"{test}: recorded, and not in the suite" for test in sorted(kept.keys() - set(names)))])


def tests():
    """The names of the suite's tests in its order."""
    return [line.split(" ")[0] for line in proc.output(programs.build(contract.CRATE), "list").splitlines()]


def selected(names, part=None, half=None):
    """The tests of these that the suite selects by its options."""
    two_cpus = tuple(re.findall(r'^    "(\w+::\w*)",$', _TWO_CPUS.read_text(), re.M))
    names = [test for test in names if part in (None, 1 + test.startswith(two_cpus))]
    return names[half - 1::2] if half else names


def contracted():
    """{test: result} of the record."""
    return dict(line.split("\t") for line in read(CONTRACT))


def results(output):
    """{test: result} of the output of the suite."""
    return {test: _ENDS[end] for test, end in _END.findall(output.replace("\r", ""))}


def recorded(kept, names):
    """The record as a run of these tests; a test that is not on record fails."""
    found = {test: kept.get(test, "failed") for test in names}
    failed, skipped = (list(found.values()).count(which) for which in ("failed", "skipped"))
    output = "".join(f"{test} {_WORDS[result]}\n" for test, result in found.items()) + f"{len(found) - failed - skipped} passed, {failed} failed\n"
    return guest.Result(status=int(failed > 0), output=output)


def different(kept, found):
    """A line for each test with another result than on record."""
    return [f"{test}: {found.get(test, 'not run')}, recorded: {kept.get(test) or 'nothing'}" for test in sorted(kept.keys() | found.keys())
            if kept.get(test) != found.get(test)]


def without_c(built):
    """This kernel as one whose C driver is missing, so that it is built apart."""
    kind = type("WithoutC", (type(built),), {"has_c": False})
    return kind(*(getattr(built, field.name) for field in dataclasses.fields(built)))


def recalled(title, name, job):
    """The result of a job in a guest. On the C driver it is that of an earlier run that was good with this kernel, this first filesystem and
    these command lines: a change of ours to the driver changes none of these, and one to the suite does."""
    if job.driver != "c":
        return run(title, name, job)
    path = cache.root() / f"contract/c-{_key(kernel.build(name), job)}.json"
    if not path.exists():
        result = run(title, name, job)
        if result.good:
            files = {file: base64.b64encode(data).decode() for file, data in result.files.items()}
            cache.entry(f"contract/{path.name}", lambda part: part.write_text(json.dumps({"output": result.output, "files": files})))
        return result
    kept = json.loads(path.read_text())
    say.note(f"the same guest passed this on {time.strftime('%Y-%m-%d', time.localtime(path.stat().st_mtime))}")
    files = {file: base64.b64decode(data) for file, data in kept["files"].items()}
    return guest.Result(status=0, output=kept["output"], files=files)


def _key(built, job):
    """A number that changes with whatever the guest is made of."""
    content = hashlib.sha256(guest.first_filesystem(built, job, token="token")).hexdigest()
    machine = "" if built.guest.arch == "um" else f"{emulator.version(built.guest.arch)} {emulator.words(built, job)}"
    return cache.key(str(built.folder), content, machine, job.boot, job.qemu, job.icount, job.cpus, job.memory)
