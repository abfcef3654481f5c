# SPDX-License-Identifier: GPL-2.0
"""The lines and branches of the driver that tests execute: `make torture ONLY=coverage`.

The kernel cannot instrument modules in Rust for gcov. A plugin of QEMU (tools/report/coverage.c) records the executed instructions of an
optimised driver, and the line table of its module assigns them to lines. All guests load the same module. A branch is a place in the driver's files
that conditional jumps are compiled from: one, or one in each function that it was inlined into.
"""

import bisect
import collections
import dataclasses
import functools
import itertools
import os
import re
import subprocess

from . import bench, contract, emulator, guest, kernel, module, proc, programs, reports, run, say, toolchain
from .versions import BUILD, ROOT
from report import page, plugins

GUEST = "x86_64-coverage"
# The share of lines below which the stage fails, in percent.
LEAST = 97.0
_LINE_TABLES = ("KCFLAGS=-gline-tables-only", "KRUSTFLAGS=-Cdebuginfo=line-tables-only")
_SECTION = re.compile(r"\] (\.\S*text) +PROGBITS +(\w+) (\w+) (\w+)")
_FRAME = re.compile(r"^(.+):(\d+):(\d+)$", re.M)
# An instruction: its address, operation and target; or the symbol in the one before.
_CODE = re.compile(r"^ *(\w+): +\t(\w+)(?:\t0x(\w+))?|^\t+\w{16}: +R_\w+\t(\S+)", re.M)
_ROW = re.compile(r"^0x(\w{16}) .*?(end_sequence)?$", re.M)
_llvm = lambda tool, *words: proc.output(f"{toolchain.LLVM['bin']}/{tool}", *words)
# Of KUnit's suites.
_TESTS = ("rust/kernel/page_range/tests.rs", "rust/kernel/expect.rs")
# The instructions in which code that panics calls the function for that.
_TO_PANIC = 12
# Bytes of a block that show its place in a module: shorter blocks are common. The alignment of sections.
_LONG, _ALIGNED = 12, 16


class Covered(kernel.Kernel):
    """The kernel of the guest, for which modules have line tables."""

    def module_command(self, sources, out, *arguments, target="modules"):
        return super().module_command(sources, out, *arguments, *_LINE_TABLES, target=target)


def measure(tally, into_docs=False):
    """Boot guests with tests, and print the share of executed lines."""
    like = kernel.build(GUEST)
    built = Covered(*(getattr(like, field.name) for field in dataclasses.fields(like)))
    loaded, executed = module.build_checked(built), collections.Counter()
    attempt = functools.partial(_attempt, loaded, executed)
    suite = functools.partial(contract.suite, tally, built, "rust", attempt=attempt, near_limits=True)
    suite("coverage: contract")
    suite("coverage: contract, secured", only=contract.SECURED, boot=contract.LSM)
    suite("coverage: contract with a policy", only=("policy::",), boot=contract.LSM, policy=True)
    suite("coverage: contract, 32-bit tasks", only=("sync::", "ioctl::", "binderfs::"), width=32)
    suite("coverage: contract, charged buffers", only=("charging::",), boot=("parameters=charge_buffers=1",))
    suite("coverage: contract without hand-over", only=("placement::",), boot=("parameters=handoff=0",))
    suite("coverage: KUnit", only=("ioctl::",), kunit=True)
    for name, job in _jobs(built).items():
        tally.one(f"coverage: {name}", attempt(f"coverage: {name}", built, job).good)
    located = _located(loaded)
    lines, branches = _lines(located, executed), _branches(located, executed)
    tally.one(f"coverage: at least {LEAST} %", _show(lines, branches, into_docs) >= LEAST)


def _jobs(built):
    """The boots beside the contract suite, by name."""
    program = {"/lab/contract": programs.build_for(GUEST, contract.CRATE)}
    made = lambda folder, name: {f"/lab/{name}": module.build(built, ROOT / "tests" / folder, folder, name)}
    job = functools.partial(guest.Job, files=program, timeout=900)
    suite = ["/lab/contract", "run", "--driver", "rust", "--near-limits"]
    return {
        "trace events": job(["/lab/traced", "-f", "/lab/contract", "trace", "--driver", "rust"]),
        "traced reports": job(["/lab/traced", "-e", "*", *suite, "--filter", "reports::", "--filter", "reclaim::"]),
        "logs": job(["/lab/contract", "example", "logs"]),
        "load": job(["/lab/contract", "load", "--driver", "rust", "--seconds", "30", "--kill", "--freeze", "--pressure", "--read-logs", "--tolerate"]),
        "unload": job([*suite, "--module", "/lab/binder_rust.ko", "--filter", "unload::"], load=False),
        "parameters": job(["/lab/devices", "binder_rust"], load=False),
        "beside C": job(["/bin/sh", "/lab/beside", "binder_linux"], load=False, files={
            "/lab/binder_linux.ko": built.module("c"), "/lab/binder-bench": programs.build_for(GUEST, bench.CRATE)}),
        "taken family": job(["/lab/taken"], load=False, files=made("netlink", "family_test.ko")),
        "taken names": job(["/lab/unnamed", "binder_rust"], load=False, files=made("logs", "names_test.ko")),
    }


def _attempt(loaded, executed, title, built, job):
    """The result of a job in a guest. Adds the addresses that it executed, of the module `loaded`, and the outcomes of the jumps among them."""
    folder = BUILD / "coverage" / re.sub(r"\W+", "-", title)
    folder.mkdir(parents=True, exist_ok=True)
    options, seen = plugins.compiled("coverage.c", folder)
    boot = job.boot if job.module else (*job.boot, "kunit.enable=0")
    result = run.run(title, built, dataclasses.replace(job, module=loaded, boot=boot, qemu=(*emulator.two_nodes(job.memory), *options)))
    for address, outcomes in addresses(seen.read_text(), sections(_located(loaded))):
        executed[address] |= outcomes
    return result


@functools.cache
def _located(loaded):
    """A module as a program, with addresses."""
    located = BUILD / "coverage/located"
    located.parent.mkdir(parents=True, exist_ok=True)
    _llvm("ld.lld", "--noinhibit-exec", "--emit-relocs", "--unresolved-symbols=ignore-all", "-e0", "-o", located, loaded)
    return located


def _lines(located, executed):
    """{file: {line: whether it was executed}}."""
    lines, addresses = collections.defaultdict(dict), sorted(executed)
    for first, after, places in table(located):
        is_hit = bisect.bisect_left(addresses, first) < bisect.bisect_left(addresses, after)
        for file, line in places:
            lines[file][line] = lines[file].get(line, False) or is_hit
    return lines


def _branches(located, executed):
    """{file: {line: {column: outcomes}}} of branches, 0 to 2: as many as one of its jumps had."""
    branches = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    jumps = _jumps(located)
    for address, frames in zip(jumps, _frames(located, jumps)):
        if frames and _is_ours(frames[0]):
            file, line, column = frames[0]
            branches[file][line][column] = max(branches[file][line][column], executed[address].bit_count())
    return branches


def _jumps(located):
    """The addresses of conditional jumps, but not of the compiler's checks: those can lead to a panic."""
    code = []
    for address, operation, target, symbol in _CODE.findall(_llvm("llvm-objdump", "-dr", "--no-show-raw-insn", located)):
        if symbol:
            code[-1][-1] = symbol
        else:
            code.append([int(address, 16), operation, int(target or "0", 16), ""])
    places = {address: place for place, (address, *_) in enumerate(code)}

    def panics(place):
        steps = code[place:place + _TO_PANIC]
        ends = (symbol for _, operation, _, symbol in steps if operation.startswith(("call", "j", "ret")))
        return "panick" in next(ends, "")

    return [address for place, (address, operation, target, _) in enumerate(code) if operation.startswith("j") and operation != "jmp"
            and not panics(place + 1) and not panics(places.get(target, len(code)))]


def sections(located):
    """[(address, content)] of a linked module's code."""
    listed, content = _llvm("llvm-readelf", "-SW", located), located.read_bytes()
    found = [[int(number, 16) for number in numbers] for _, *numbers in _SECTION.findall(listed)]
    return [(address, content[offset:offset + size]) for address, offset, size in found]


def addresses(seen, code):
    """The addresses in a linked module that were executed, and the outcomes of a jump at each: 1 if it fell through, 2 if it jumped, 3 for both. The
    kernel changes a few bytes of a module that it loads, and puts its sections anywhere."""
    blocks = [(int(start, 16), int(outcomes), words, bytes.fromhex("".join(words).replace("+", "")))
              for start, outcomes, *words in map(str.split, seen.splitlines())]
    # The places of sections: a block that stands once in a section shows where the section begins.
    places = {(start - at, section) for start, _, _, content in blocks if len(content) >= _LONG for section in code
              if (at := section[1].find(content)) >= 0 > section[1].find(content, at + 1) and (start - at) % _ALIGNED == 0}
    for start, outcomes, words, content in blocks:
        offsets = [0, *itertools.accumulate(len(word) // 2 for word in words)]
        equal = lambda place: sum(place[1][1][start - place[0] + at:][:1] == content[at:at + 1] for at in offsets[:-1])
        best = max((place for place in places if place[0] <= start < place[0] + len(place[1][1])), key=equal, default=None)
        # Another module had this address before or afterwards if most operations are others.
        if best and equal(best) * 2 >= len(words):
            for word, at in zip(words, offsets):
                if word.startswith("+"):
                    yield start - best[0] + best[1][0] + at, outcomes if at == offsets[-2] else 0


def table(located):
    """(first address, address after the last, {(file, line)}) of each row of a module's line table; lines into which it was inlined are among them."""
    rows = _ROW.findall(_llvm("llvm-dwarfdump", "--debug-line", located))
    places = [(int(first, 16), int(after, 16)) for (first, ends), (after, _) in itertools.pairwise(rows) if not ends and first != after]
    for (first, after), frames in zip(places, _frames(located, [first for first, _ in places])):
        yield first, after, {frame[:2] for frame in frames if _is_ours(frame)}


def _frames(located, addresses):
    """Of each address the (file, line, column) of its instruction and of the places that it was inlined into, innermost first."""
    argv = [f"{toolchain.LLVM['bin']}/llvm-symbolizer", "--functions=none", "--inlines", f"--obj={located}"]
    asked = subprocess.run(argv, input="".join(f"{address:#x}\n" for address in addresses), text=True, capture_output=True, check=True)
    for frames in asked.stdout.split("\n\n"):
        yield [(os.path.relpath(file, ROOT), int(line), int(column)) for file, line, column in _FRAME.findall(frames) if line != "0"]


def _is_ours(frame):
    return frame[0].startswith(("drivers/", "rust/")) and frame[0] not in _TESTS


def ranges(lines):
    """The uncovered lines of {line: bool}, as text; lines without code do not interrupt a range."""
    found = [[line for line, _ in group] for is_hit, group in itertools.groupby(sorted(lines.items()), lambda item: item[1]) if not is_hit]
    return ", ".join(str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}" for group in found)


def _show(lines, branches, into_docs):
    """Print the covered lines and branches of each file and of all; the share of lines in percent."""
    rows = []
    for file, found in sorted(lines.items()):
        outcomes = [count for columns in branches[file].values() for count in columns.values()]
        one_way = sorted(line for line, columns in branches[file].items() if min(columns.values()) < 2)
        rows.append([file, sum(found.values()), len(found), outcomes.count(2), len(outcomes), ranges(found), ", ".join(map(str, one_way))])
    rows.append(["all", *(sum(row[at] for row in rows) for at in range(1, 5)), "", ""])
    for file, covered, total, both, all_branches, *_ in rows:
        say.lines(f"  {covered:>5} of {total:<5} lines {both:>5} of {all_branches:<5} branches  {file}")
    if into_docs:
        heads = ("file", "covered", "lines", "both ways", "branches", "uncovered lines", "lines with branches that go one way")
        reports.put("coverage", "Lines of the driver that tests execute", bench.about(GUEST), page.Table(heads, [[str(cell) for cell in row] for row in rows]))
    return 100 * rows[-1][1] / rows[-1][2]
