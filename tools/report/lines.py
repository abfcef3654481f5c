# SPDX-License-Identifier: GPL-2.0
"""Which cache lines move between CPUs in an operation, and whose code moves them: what lines.c has counted, in words.

    PYTHONPATH=tools python3 -m report.lines --driver rust --cpus 2 --workload 'throughput --sizes 0 --pairs 1 --placement other'
"""

import argparse
import bisect
import collections
import dataclasses
import pathlib
import re

from lab import guest, kernel, programs, say
from . import counted, profile, symbols, told

READ, WRITE, LOCKED, PAUSE = WHATS = ("read", "write", "locked", "pause")
# A line moves when it is read, and when it is written.
MOVES = (READ, WRITE)
# About how many instructions a CPU executes before another one has its turn, and by which numbers turns are drawn.
TURN, SEED = 100, 1
# What comes in between: the tick, and threads of the kernel.
_BETWEEN = re.compile(r"^(asm_)?sysvec_apic_timer_interrupt$|^ret_from_fork_asm$")
# Functions of these classes do what their caller wants: it is whose code it is.
_HELPERS = ("locks", "trees", "copies")
# What an owner moves as often in a unit is one of its lines that move.
_OFTEN = 0.01
# Lines have 64 bytes.
LINE_SHIFT = 6
# Accesses whose address QEMU does not tell, for each line that moved, are too many above this.
_UNKNOWN = 0.01
_SHOWN_LINES, _SHOWN_PLACES = 80, 8

# What the plugin saw of one thing: {chain: (caller, place)}, {kind: {(what, at, chain, address): times}}, {kind: {chain: (times,
# instructions, longest)}}, {at: virtual address}.
Events = collections.namedtuple("Events", "chains times holds mapped")


def read_events(lines):
    """The plugin's file."""
    return counted.read_parts(lines, _Fresh)


class _Fresh:
    """Events of one thing, while they are read."""

    def __init__(self):
        self._chains, self._mapped, self._unknown = {0: None}, {}, 0
        self._times = {kind: collections.Counter() for kind in counted.KINDS}
        self._holds = {kind: {} for kind in counted.KINDS}

    def add(self, what, words):
        if what == "chain":
            self._chains[int(words[0])] = int(words[1]), int(words[2], 16)
        elif what == "event":
            self._times[words[0]][words[1], int(words[2], 16), int(words[3]), int(words[4], 16)] += int(words[5])
        elif what == "mapped":
            self._mapped[int(words[0], 16)] = int(words[1], 16)
        elif what == "hold":
            self._holds[words[0]][int(words[1])] = tuple(map(int, words[2:]))
        elif what == "unknown":
            self._unknown = int(words[0])

    def windows(self):
        events = sum(sum(times.values()) for times in self._times.values())
        if self._unknown > _UNKNOWN * (events + 100):
            raise say.LabError(f"QEMU did not tell the addresses of {self._unknown} accesses, beside {events} events")
        return Events(self._chains, self._times, self._holds, self._mapped)


def plugin(built):
    """The plugin, for a kernel of ours."""
    found = {name: address for address, name in _image(built)}
    locks = f"locks={found['__lock_text_start']:x}-{found['__lock_text_end']:x}"
    return counted.Plugin("lines.c", read_events, (locks, f"turn={TURN}", f"seed={SEED}"))


def _image(built):
    """(address, name) of everything that the kernel's own image has, in their order; its physical addresses are left out."""
    rows = (line.split() for line in (built.folder / "System.map").read_text().splitlines())
    return sorted((int(address, 16), name) for address, _, name in rows if address.startswith("ffffffff"))


def measure(built, driver, program, workloads, cpus, on_operation=None):
    """What each thing that is measured with `cpus` CPUs came to."""
    boot = counted.boot_with(plugin(built), built, driver, program, [f"{words} --together" for words in workloads], "binder",
                             on_operation, cpus)
    names = Names(symbols.of(boot), _image(built))
    return [summary(operation, names, cpus) for operation in boot.operations]


@dataclasses.dataclass
class Names:
    """What addresses are called: `functions` are the kernel's and its modules', `image` is all that the kernel's image has."""

    functions: list
    image: list

    def __post_init__(self):
        self.naming = profile.Naming(self.functions)
        self._starts = [address for address, _ in self.image]

    def place(self, address):
        """The function that an instruction is in, and where in it."""
        if not address >> 63:
            return profile.USER_FUNCTION, address
        function = self.naming.function(self.naming.place(address))
        return function, address - function.address

    def line(self, address):
        """What lies at the line of an address, if the kernel's image says it."""
        place = bisect.bisect_right(self._starts, (address | 63)) - 1
        inside = self._starts and self._starts[0] <= address <= self._starts[-1] and place >= 0
        return self.image[place][1] if inside else ""


@dataclasses.dataclass(frozen=True)
class Place:
    """The code that did something: its functions, innermost first, as far as that for which it was done, and whose that is."""

    owner: str
    functions: tuple
    offset: int

    def __str__(self):
        inner, *others = self.functions
        return " < ".join([f"{inner}+{self.offset:#x}", *others])


def summary(operation, names, cpus):
    """What one thing came to, as plain data: times a unit."""
    found = difference(operation, names)
    cell = operation.cell
    owners = {}
    for (what, _, place), times in found.items():
        owners.setdefault(place.owner, dict.fromkeys(WHATS, 0.0))[what] += times
    of_line = collections.defaultdict(collections.Counter)
    for (what, at, place), times in found.items():
        if what in MOVES:
            of_line[at >> LINE_SHIFT][what, place, at] += times
    most = sorted(of_line, key=lambda line: -sum(of_line[line].values()))
    return {
        **{name: cell[name] for name in ("workload", "case", "size", "pairs", "batch", "parameters")}, "cpus": cpus,
        "ran": cell["ran"],
        "unit": {what: sum(times for (w, _, _), times in found.items() if w == what) for what in WHATS},
        "owners": owners,
        "lines": [_of_line(line, of_line[line], operation.windows.mapped, names) for line in most[:_SHOWN_LINES]],
        "distinct": {owner: sum(_moved_by(of_line[line], owner) >= _OFTEN for line in most) for owner in owners},
        "pauses": _pauses(found),
        "holds": holds(operation, names),
    }


def _of_line(line, places, mapped, names):
    """A line, and what moves it: how, at which of its bytes, which code, whose it is, how often."""
    address = min(mapped.get(at, 0) for _, _, at in places) >> LINE_SHIFT << LINE_SHIFT
    by = [[what, at % (1 << LINE_SHIFT), str(place), place.owner, times]
          for (what, place, at), times in places.most_common(_SHOWN_PLACES)]
    return {"line": f"{line:x}", "address": f"{address:x}", "name": names.line(address), "moved": sum(places.values()), "by": by}


def _moved_by(places, owner):
    return sum(times for (_, place, _), times in places.items() if place.owner == owner)


def _pauses(found):
    turns = collections.Counter()
    for (what, _, place), times in found.items():
        if what == PAUSE:
            turns[" < ".join(place.functions)] += times
    return dict(turns.most_common(_SHOWN_PLACES))


def difference(operation, names):
    """{(what, at, place): times a unit}, without what comes in between."""
    events, units = operation.windows, operation.calls * operation.cell["batch"]
    paths = names.naming.paths(events.chains)
    places, found = {}, collections.Counter()
    for kind, sign in (("short", -1), ("long", 1)):
        for (what, at, chain, address), times in events.times[kind].items():
            key = paths[chain], address
            if key not in places:
                places[key] = place_of(names.naming.spell(paths[chain]), *names.place(address))
            if places[key]:
                found[what, at, places[key]] += sign * times / units
    return {key: times for key, times in found.items() if abs(times) > 1e-9}


def place_of(path, function, offset):
    """Whose code a function is when it was called by a path, outermost first; None if it comes in between."""
    if function.name == profile.USER_FUNCTION.name:
        return Place(profile.USER, (function.name,), offset)
    if any(_BETWEEN.match(caller.name) for caller in (*path, function)):
        return None
    chosen = []
    for each in (function, *reversed(path)):
        chosen.append(each.name)
        owner = profile.classify(each)
        if owner not in _HELPERS:
            break
    return Place(owner, tuple(chosen), offset)


def holds(operation, names):
    """How long spin locks are held that the driver's code takes: [(by whom, times a unit, mean, longest)] in instructions of the CPU."""
    events, units = operation.windows, operation.calls * operation.cell["batch"]
    paths = names.naming.paths(events.chains)
    sums = collections.defaultdict(lambda: [0.0, 0.0, 0])
    for kind, sign in (("short", -1), ("long", 1)):
        for chain, (times, instructions, longest) in events.holds[kind].items():
            *outer, last = names.naming.spell(paths[chain]) or (symbols.Function(0, "?", ""),)
            place = place_of(tuple(outer), last, 0)
            if place and place.owner == profile.DRIVER:
                of_place = sums[place.functions[-1]]
                of_place[0] += sign * times / units
                of_place[1] += sign * instructions / units
                of_place[2] = max(of_place[2], longest)
    rows = [{"by": name, "times": times, "mean": instructions / times, "longest": longest}
            for name, (times, instructions, longest) in sums.items() if times > 0.01]
    return sorted(rows, key=lambda row: -row["times"] * row["mean"])


def moved(data, owner=None):
    """Lines moved in a unit, by everyone or by an owner."""
    times = data["owners"].get(owner, {}) if owner else data["unit"]
    return sum(times.get(what, 0.0) for what in MOVES)


def show(data, top):
    unit = ", ".join(f"{data['unit'][what]:.2f} {what}" for what in WHATS)
    print(f"{data['workload']} {data['case']}, {data['pairs']} at once on {data['cpus']} CPUs: {moved(data):.2f} lines moved in a unit ({unit})\n")
    print(f"{'moved':>8} {'locked':>7} {'lines':>6}")
    for owner, times in sorted(data["owners"].items(), key=lambda item: -moved(data, item[0])):
        print(f"{moved(data, owner):8.2f} {times[LOCKED]:7.2f} {data['distinct'][owner]:6}  {owner}")
    print()
    for line in data["lines"][:top]:
        print(f"{line['moved']:8.2f}  {line['address']} {line['name']}")
        for what, byte, place, owner, times in line["by"]:
            if times >= 0.005:
                print(f"          {times:6.2f} {what:<5} {byte:#04x} {place} [{owner}]")
    for name, times in data["pauses"].items():
        print(f"{times:8.2f} turns of {name}")
    print()
    for row in data["holds"][:top]:
        print(f"{row['times']:8.2f} times held for {row['mean']:.0f} instructions (longest {row['longest']}) by {row['by']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--driver", default="rust", choices=sorted(guest.MODULES))
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--workload", default="throughput --sizes 0 --pairs 1 --placement other", help="words for binder-bench")
    parser.add_argument("--top", type=int, default=40, help="lines to print")
    parser.add_argument("--json", type=pathlib.Path, help="where to write it, too")
    args = parser.parse_args()
    told.tell(lambda: measure(kernel.build("x86_64"), args.driver, programs.build("tools/binder-bench"), [args.workload], args.cpus),
              show, args.top, args.json)


if __name__ == "__main__":
    main()
