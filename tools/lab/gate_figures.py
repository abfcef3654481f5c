# SPDX-License-Identifier: GPL-2.0
"""What the gate holds: exact instructions, locked operations, kernel memory, and lines that move between CPUs.

All of it is counted, so runs of the same are the same to the byte; a tolerance is what a harmless change may move. Boots of ours are kept
by the driver, kernel and binder-bench that they are of, the C driver's in the cache.
"""

import dataclasses
import functools
import json
import pathlib
import tempfile
import typing

from . import bench, bench_lines, bench_series, cache, kernel, operations, programs
from .versions import ROOT

# Where it is counted, and what is recorded of that. `make test` counts on the first.
GUESTS = ("x86_64", "arm64")
GUEST = GUESTS[0]
# How much a ratio of instructions may exceed the recorded one.
TOLERANCE = 0.01
# The same where nodes are found among many: the shape of their tree is made by where the allocator puts them, which is elsewhere with
# each build of kernel or driver. Seven builds of 2026-11-23 to 25 were 0.6885 to 0.7150 of C with 1 000 refs.
AMONG_MANY = 0.04
# The same where a slab is full in every fifth batch of calls: whether that falls into a quarter or a half of the windows depends on how
# memory was filled before. Builds of one driver in two folders (2026-11-25) were 0.6257 and 0.6337 of C.
SELDOM = {"oneway size=4096 reply=0": 0.02}
# Locked operations are whole ones, but for those of a tick, and of ways that some of an operation's calls take: boots whose memory was
# filled otherwise differed by 0.25 at most, in 40 operations (2026-11-25). One more in each call is too many.
MORE_LOCKED = 0.5
# Bytes depend on where an object's pages begin and end. Six boots of each driver whose memory was filled otherwise (2026-11-25) differed by
# 1.1 % for a process, 1.8 and 4.2 % (C) for a node, 2 % (C) for a call, and nothing for the rest. One more allocation of 32 bytes
# for each is beyond these, of 64 for a mapped process.
MORE_BYTES = {"process": 0.025, "process, 1 MiB mapped": 0.01, "node": 0.08}
MORE_BYTES_OTHERWISE = 0.05
# A line that moves once more in each call on two CPUs is 1.06 % of ours; boots whose memory was filled otherwise, and another order of
# what is measured, made 0.07 % (2026-11-25). With 8 clients on 8 CPUs it is 1.7 %, and 4 % for spins, for 38 s of CPU: not held here.
MORE_LINES = 0.01
# A figure that is exactly at its tolerance is within.
_ROUNDED = 1e-9
# The objects that goals.toml has.
_OBJECTS = ("--objects", "process,mapped-process,thread,node,reference,death-request,call")


@dataclasses.dataclass(frozen=True)
class Kind:
    """Figures of one kind. `table`: its name in the record. `what` they are, and of what in `unit`. `measure(guest)` gives {row: figure}.
    `slack(row, recorded)`: how much more one may be. `scatters(row)`: whether it moves with nobody's doing, so that its record stays while
    it is within that. `worse`: what is said of one that is too much."""

    table: str
    what: str
    unit: str
    measure: typing.Callable
    slack: typing.Callable
    worse: str
    scatters: typing.Callable = lambda row: True
    digits: int = 4

    @property
    def title(self):
        """What it is called among the rows of `make test`."""
        return f"{self.what} " + ("of ours" if self is LOCKED else "next to C's")

    def shown(self, figure):
        return "–" if figure is None else f"{figure:.{self.digits}f}"

    def judged(self, row, was, now):
        """1 if a figure is worse than its record, -1 if it is better, and 0 if it is within its tolerance."""
        slack = self.slack(row, was)
        return (now > was + slack + _ROUNDED) - (now < was - slack - _ROUNDED)

    def recorded(self, row, was, now):
        """What an update records of a figure that was recorded before."""
        return was if self.scatters(row) and not self.judged(row, was, now) else now


def instructions(name=GUEST):
    """{operation: our instructions ÷ the C driver's}"""
    from report import data

    return ratios_of(data.load(programs.build(bench.CRATE), [_base(_program(name), name), _counted(name).path]))


def locked(name=GUEST):
    """{operation: locked operations of ours}, from the same boot."""
    return operations.locked_by_name(json.loads(_counted(name).path.read_text())["locked"])


def memory(name=GUEST):
    """{object: our bytes of kernel memory ÷ the C driver's}"""
    from report import data

    program = _program(name)
    measure = functools.partial(bench.measure, name=name, program=program, stage="memory", extra=_OBJECTS)
    inputs = [bench.identity(name, "rust", program, timed=False), _OBJECTS]
    step = bench_series.Step("gate: weighing, rust", bench.HOME / "gate" / "memory-rust.json", inputs,
                             lambda: measure("gate: weighing, rust", driver="rust"), 10, bench.conditions)
    _make(step)
    key = cache.key(str(kernel.build(name).folder), cache.content(program), _OBJECTS)
    base = cache.entry(f"bench/c-memory-{key}.json", lambda part: part.write_bytes(measure("gate: weighing, c", driver="c")))
    return weighed(data.load(programs.build(bench.CRATE), [base, step.path]))


def lines(_name=GUEST):
    """{what moves: ours next to the C driver's}"""
    return bench_lines.held()


def ratios_of(results):
    return {cell.name: row["ratio"] for (cell, who), row in sorted(results.counts.items())
            if who == "rust" and row["ratio"]}


def weighed(results):
    """The same of memory, by object."""
    return {cell.case: row["ratio"] for (cell, who), row in results.memory.items() if who == "rust" and row["ratio"]}


def step(program, name=GUEST):
    """The boot in which ours is counted. Counts are exact, so those of the same driver, kernel and binder-bench are kept."""
    title = f"gate: counting instructions, {name}, rust"
    inputs = [bench.identity(name, "rust", program, timed=False), bench.arguments("count"), _plugin_of(name)]
    return bench_series.Step(title, bench.HOME / "gate" / f"{name}-rust.json", inputs,
                             functools.partial(_count, title, name, program), 30, bench.conditions)


def _plugin_of(name):
    """What names the plugin that counts locked operations in guest `name`; it knows x86-64."""
    from report import locked

    return cache.content(*(ROOT / "tools/report" / source for source in locked.SOURCES)) if name == GUEST else ""


def _count(title, name, program):
    """What binder-bench has counted; where the plugin is, `locked` has what that saw, which binder-bench passes over."""
    from report import locked

    if not _plugin_of(name):
        return bench.measure(title, name, "rust", program, "count")
    with tempfile.TemporaryDirectory() as folder:
        words, seen = locked.plugin(pathlib.Path(folder))
        result = json.loads(bench.measure(title, name, "rust", program, "count", qemu=words))
        result["locked"] = locked.of(result, seen.read_text().splitlines())
    return json.dumps(result).encode()


def _counted(name):
    made = step(_program(name), name)
    _make(made)
    return made


def _base(program, name):
    """The C driver's counts, which change with the kernel and with binder-bench only."""
    key = cache.key(str(kernel.build(name).folder), cache.content(program))

    def make(part):
        part.write_bytes(bench.measure(f"gate: counting instructions, {name}, c", name, "c", program, "count"))

    return cache.entry(f"bench/c-{key}.json", make)


def _program(name):
    return programs.build_for(name, bench.CRATE)


def _make(step):
    if not step.kept():
        bench_series.keep(step)


def _of_instructions(row):
    among_many = row.startswith("handles ") and not row.endswith(" refs=0")
    return AMONG_MANY if among_many else SELDOM.get(row, TOLERANCE)


INSTRUCTIONS = Kind(
    "ratios", "instructions", "÷ C", instructions, lambda row, was: was * _of_instructions(row),
    "takes {now} times the C driver's instructions, recorded is {was}: make it cheaper (`make profile` shows where it goes), or record it "
    "with the reason", lambda row: _of_instructions(row) > TOLERANCE)
LOCKED = Kind(
    "locked", "locked operations", "of ours", locked, lambda row, was: MORE_LOCKED,
    "takes {now} locked operations, recorded are {was}: do with fewer (`make profile` shows where they are), or record it with the reason",
    digits=2)
MEMORY = Kind(
    "memory", "bytes of kernel memory", "÷ C", memory, lambda row, was: was * MORE_BYTES.get(row, MORE_BYTES_OTHERWISE),
    "takes {now} times the C driver's kernel memory, recorded is {was}: make it smaller (docs/memory.md says what each consists of; `make "
    "bench ONLY=memory` weighs), or record it with the reason")
LINES = Kind(
    "lines", "lines that move between CPUs", "", lines, lambda row, was: was * MORE_LINES,
    "is {now}, recorded is {was}: `PYTHONPATH=tools python3 -m report.lines` shows which lines move; keep apart what two CPUs write, or "
    "record it with the reason")
# What is recorded of each guest, in the order of the file.
KINDS = {GUEST: (INSTRUCTIONS, LOCKED, MEMORY, LINES), "arm64": (INSTRUCTIONS,)}
# What `make test` judges with a boot of its own, by stage; lines come out of that of their known cases.
STAGES = {"instructions next to C's": (INSTRUCTIONS, LOCKED), "memory next to C's": (MEMORY,)}
