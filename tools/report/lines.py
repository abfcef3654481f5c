# SPDX-License-Identifier: GPL-2.0
"""The cache lines that move between CPUs in an operation, and the owners of the code that moves them, from the output of the plugin
lines.c."""

import collections
import dataclasses
import re

from lab import say
from . import symbols

READ, WRITE, LOCKED, PAUSE = WHATS = ("read", "write", "locked", "pause")
# A line moves when it is read, and when it is written.
MOVES = (READ, WRITE)
USER, DRIVER, KERNEL = "benchmark itself", "driver", "kernel"
# About how many instructions a CPU executes before another one has its turn, and by which numbers turns are drawn.
TURN, SEED = 100, 1
# Code that interrupts the caller: the tick, and threads of the kernel.
_BETWEEN = re.compile(r"^(asm_)?sysvec_apic_timer_interrupt$|^ret_from_fork_asm$")
# Functions whose work counts as their caller's: locks, trees, copies.
_HELPERS = re.compile(
    r"spin_(un|try)?lock|mutex|rcu|rwsem|^(up|down)_|read_(un)?lock|write_(un)?lock|preempt_count|^(__)?rb_"
    r"|check_(object|stack|heap)|rep_(movs|stos)|copy_(to|from|user)|memset|memcpy|memmove|strscpy|clear_user|get_user|put_user")
# A line that moves at least this often in a unit is listed as one of its owner's lines.
_OFTEN = 0.01
# Lines have 64 bytes.
_SHIFT = 6
# Accesses whose address QEMU does not report, for each event, are too many above this.
_UNKNOWN = 0.01
_SHOWN_LINES, _SHOWN_PLACES = 40, 6


@dataclasses.dataclass(frozen=True)
class Place:
    """The code that did something: its functions, innermost first, as far as that for which it was done, and whose that is."""

    owner: str
    functions: tuple
    offset: int

    def __str__(self):
        inner, *others = self.functions
        return " < ".join([f"{inner}+{self.offset:#x}", *others])


def summary(operation, functions):
    """The summary of one operation, as plain data: times a unit."""
    found = _difference(operation, symbols.Names(functions))
    owners, of_line = {}, collections.defaultdict(collections.Counter)
    for (what, at, place), times in found.items():
        owners.setdefault(place.owner, dict.fromkeys(WHATS, 0.0))[what] += times
        if what in MOVES:
            of_line[at >> _SHIFT][what, at, place] += times
    most = sorted(of_line, key=lambda line: -sum(of_line[line].values()))
    return {
        "workload": operation.cell["workload"], "case": operation.cell["case"],
        "unit": {what: sum(times for (w, _, _), times in found.items() if w == what) for what in WHATS},
        "owners": owners,
        "distinct": {owner: sum(_moved_by(of_line[line], owner) >= _OFTEN for line in most) for owner in owners},
        "lines": [[[what, at % (1 << _SHIFT), str(place), place.owner, times]
                   for (what, at, place), times in of_line[line].most_common(_SHOWN_PLACES)] for line in most[:_SHOWN_LINES]],
    }


def moved(data, owner=None):
    """Lines moved in a unit, by everyone or by an owner."""
    times = data["owners"].get(owner, {}) if owner else data["unit"]
    return sum(times.get(what, 0.0) for what in MOVES)


def _moved_by(places, owner):
    return sum(times for (_, _, place), times in places.items() if place.owner == owner)


def _difference(operation, names):
    """{(what, at, place): times a unit}, without code that interrupts the caller."""
    units = operation.calls * operation.cell["batch"]
    chains, places, found = {0: None}, {}, collections.Counter()
    events, unknown = 0, 0
    for kind, *words in operation.seen:
        if kind == "chain":
            chains[int(words[0])] = int(words[1]), int(words[2], 16)
        elif kind == "unknown":
            unknown = int(words[0])
    for kind, *words in operation.seen:
        if kind == "event":
            of, what, at, chain, address, times = words[0], words[1], int(words[2], 16), int(words[3]), int(words[4], 16), int(words[5])
            events += times
            if (chain, address) not in places:
                places[chain, address] = _place(_path(chain, chains, names), address, names)
            if place := places[chain, address]:
                found[what, at, place] += (times if of == "long" else -times) / units
    if unknown > _UNKNOWN * (events + 100):
        raise say.LabError(f"QEMU did not report the addresses of {unknown} accesses, beside {events} events")
    return {key: times for key, times in found.items() if abs(times) > 1e-9}


def _path(chain, chains, names):
    """The functions that a chain of calls leads through, innermost first."""
    path = []
    while chain:
        chain, address = chains[chain]
        path.append(names.function(address))
    return path


def _place(path, address, names):
    """The owner of an instruction that a path has led to; None if it interrupts the caller."""
    function = names.function(address)
    if function == symbols.USER:
        return Place(USER, (function.name,), address)
    if any(_BETWEEN.match(each.name) for each in (function, *path)):
        return None
    chosen = []
    for each in (function, *path):
        chosen.append(each.name)
        if symbols.is_driver(each) or not _HELPERS.search(each.name):
            break
    return Place(DRIVER if symbols.is_driver(each) else KERNEL, tuple(chosen), address - function.address)
