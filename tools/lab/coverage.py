# SPDX-License-Identifier: GPL-2.0
"""The lines of the driver that tests execute: `make torture ONLY=coverage`.

The kernel cannot instrument modules in Rust for gcov. A plugin of QEMU (tools/report/coverage.c) records the executed instructions of an
ordinary driver, and the line table of its module assigns them to lines.
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
_FRAME = re.compile(r"^(.+):(\d+):\d+$", re.M)
_ROW = re.compile(r"^0x(\w{16}) .*?(end_sequence)?$", re.M)
_llvm = lambda tool, *words: proc.output(f"{toolchain.LLVM['bin']}/{tool}", *words)
# Of KUnit's suites.
_TESTS = ("rust/kernel/page_range/tests.rs", "rust/kernel/expect.rs")
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
    lines = collections.defaultdict(dict)
    attempt = functools.partial(_attempt, lines)
    suite = functools.partial(contract.suite, tally, built, "rust", attempt=attempt)
    suite("coverage: contract", near_limits=True)
    suite("coverage: contract, secured", only=contract.SECURED, boot=contract.LSM)
    suite("coverage: contract with a policy", only=("policy::",), boot=contract.LSM, policy=True)
    suite("coverage: contract, 32-bit tasks", only=("sync::", "ioctl::", "binderfs::"), width=32)
    suite("coverage: contract, charged buffers", only=("charging::",), boot=("parameters=charge_buffers=1",))
    suite("coverage: contract without hand-over", only=("placement::",), boot=("parameters=handoff=0",))
    suite("coverage: KUnit", only=("ioctl::",), kunit=True)
    for name, job in _jobs(built).items():
        tally.one(f"coverage: {name}", attempt(f"coverage: {name}", built, job).good)
    tally.one(f"coverage: at least {LEAST} %", _show(lines, into_docs) >= LEAST)


def _jobs(built):
    """The boots beside the contract suite, by name."""
    program = {"/lab/contract": programs.build_for(GUEST, contract.CRATE)}
    made = lambda folder, name: {f"/lab/{name}": module.build(built, ROOT / "tests" / folder, folder, name)}
    job = functools.partial(guest.Job, files=program, timeout=900)
    suite = ["/lab/contract", "run", "--driver", "rust", *contract.PATIENCE]
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


def _attempt(lines, title, built, job):
    """The result of a job in a guest. Adds to `lines` those of its driver and whether they were executed: {file: {line: bool}}."""
    folder, loaded = BUILD / "coverage" / re.sub(r"\W+", "-", title), job.module or module.build(built)
    folder.mkdir(parents=True, exist_ok=True)
    options, seen = plugins.compiled("coverage.c", folder)
    result = run.run(title, built, dataclasses.replace(job, module=loaded, qemu=(*emulator.two_nodes(job.memory), *options)))
    located = folder / "located"
    _llvm("ld.lld", "--noinhibit-exec", "--unresolved-symbols=ignore-all", "-e0", "-o", located, loaded)
    executed = sorted(addresses(seen.read_text(), sections(located)))
    for first, after, places in table(located):
        is_hit = bisect.bisect_left(executed, first) < bisect.bisect_left(executed, after)
        for file, line in places:
            lines[file][line] = lines[file].get(line, False) or is_hit
    return result


def sections(located):
    """[(address, content)] of a linked module's code."""
    listed, content = _llvm("llvm-readelf", "-SW", located), located.read_bytes()
    found = [[int(number, 16) for number in numbers] for _, *numbers in _SECTION.findall(listed)]
    return [(address, content[offset:offset + size]) for address, offset, size in found]


def addresses(seen, code):
    """The addresses in a linked module that were executed. The kernel changes a few bytes of a module that it loads, and puts its sections anywhere."""
    blocks = [(int(start, 16), words, bytes.fromhex("".join(words).replace("+", ""))) for start, *words in map(str.split, seen.splitlines())]
    # The places of sections: a block that stands once in a section shows where the section begins.
    places = {(start - at, section) for start, _, content in blocks if len(content) >= _LONG for section in code
              if (at := section[1].find(content)) >= 0 > section[1].find(content, at + 1) and (start - at) % _ALIGNED == 0}
    for start, words, content in blocks:
        offsets = [0, *itertools.accumulate(len(word) // 2 for word in words)]
        equal = lambda place: sum(place[1][1][start - place[0] + at:][:1] == content[at:at + 1] for at in offsets[:-1])
        best = max((place for place in places if place[0] <= start < place[0] + len(place[1][1])), key=equal, default=None)
        # Another module had this address before or afterwards if most operations are others.
        if best and equal(best) * 2 >= len(words):
            yield from (start - best[0] + best[1][0] + at for word, at in zip(words, offsets) if word.startswith("+"))


def table(located):
    """(first address, address after the last, {(file, line)}) of each row of a module's line table; lines into which it was inlined are among them."""
    rows = _ROW.findall(_llvm("llvm-dwarfdump", "--debug-line", located))
    places = [(int(first, 16), int(after, 16)) for (first, ends), (after, _) in itertools.pairwise(rows) if not ends and first != after]
    argv = [f"{toolchain.LLVM['bin']}/llvm-symbolizer", "--functions=none", "--inlines", f"--obj={located}"]
    asked = subprocess.run(argv, input="".join(f"{first:#x}\n" for first, _ in places), text=True, capture_output=True, check=True)
    for (first, after), frames in zip(places, asked.stdout.split("\n\n")):
        lines = {(os.path.relpath(file, ROOT), int(line)) for file, line in _FRAME.findall(frames) if line != "0"}
        yield first, after, {place for place in lines if place[0].startswith(("drivers/", "rust/")) and place[0] not in _TESTS}


def ranges(lines):
    """The uncovered lines of {line: bool}, as text; lines without code do not interrupt a range."""
    found = [[line for line, _ in group] for is_hit, group in itertools.groupby(sorted(lines.items()), lambda item: item[1]) if not is_hit]
    return ", ".join(str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}" for group in found)


def _show(lines, into_docs):
    """Print the covered lines of each file and of all; their share in percent."""
    rows = [[file, str(sum(found.values())), str(len(found)), ranges(found)] for file, found in sorted(lines.items())]
    covered, total = (sum(int(row[at]) for row in rows) for at in (1, 2))
    say.lines(*(f"  {covered:>5} of {total:<5} {file}" for file, covered, total, _ in rows))
    share = 100 * covered / total
    say.lines(f"  {covered} of {total} lines, {share:.1f} %")
    if into_docs:
        rows.append(["all", str(covered), str(total), f"{share:.1f} %"])
        reports.put("coverage", "Lines of the driver that tests execute", bench.about(GUEST), page.Table(("file", "covered", "lines", "uncovered"), rows))
    return share
