# SPDX-License-Identifier: GPL-2.0
"""What docs/performance.md has of lines that move between CPUs and of locks that are held, from results of `make bench ONLY=lines`."""

from lab import marked
from lab.versions import ROOT
from . import front, lines, page, profile, sections

DOCUMENT = ROOT / "docs/performance.md"
DRIVERS = ("c", "rust", "upstream")
_MOVED = ("of a call", "C", "ours", "upstream", "ours ÷ C", "driver's own: C", "ours", "upstream", "locked elsewhere last: C", "ours",
          "turns of spinning: C", "ours", "upstream")
_HELD = ("of a call", "spin locks taken: C", "ours", "upstream", "instructions until given back, on average: C", "ours", "upstream",
         "longest in all: C", "ours")
_NOTE = ("How many spin locks the driver's code takes, and how many instructions its CPU executes on average until it gives one back; "
         "*longest in all*: the function that has locks for the most instructions, how often it takes one, and for how long on average. "
         "Mutexes are left out.")


def write(by_driver, when):
    """Put tables and figure of {driver: {case: figures}} in place of the last ones."""
    marked.put(DOCUMENT, "lines", made(by_driver, when))
    front.lines({case: tuple(lines.moved(by_driver[who][case]) for who in ("c", "rust")) for case in _cases(by_driver)})


def made(by_driver, when):
    """What is between the marks."""
    found = [(case, [by_driver[who][case] for who in DRIVERS]) for case in _cases(by_driver)]
    moved = page.markdown(sections.Table(_MOVED, [_moved_row(*one) for one in found]))
    holds = page.markdown(sections.Table(_HELD, [_held_row(*one) for one in found], (0, len(_HELD) - 2, len(_HELD) - 1)))
    return f"{when}.\n\n{moved}\n{_NOTE}\n\n{holds}"


def held(data):
    """How many spin locks the driver takes in a unit, for how many instructions it has one on average, and of its functions the one
    that has them longest in all (None if it takes no lock)."""
    rows = data["holds"]
    times = sum(row["times"] for row in rows)
    mean = sum(row["times"] * row["mean"] for row in rows) / times if times else 0.0
    return times, mean, max(rows, key=lambda row: row["times"] * row["mean"], default=None)


def _cases(by_driver):
    """What was measured on all drivers."""
    return [case for case in by_driver["c"] if all(case in by_driver[who] for who in DRIVERS)]


def _moved_row(case, data):
    moved, own = ([lines.moved(one, owner) for one in data] for owner in (None, profile.DRIVER))
    locked, turns = ([one["unit"][what] for one in data] for what in (lines.LOCKED, lines.PAUSE))
    ratio = f"**{moved[1] / moved[0]:.2f}**" if moved[0] >= front.LEAST_MOVED else "–"
    return [case, *map(_number, moved), ratio, *map(_number, [*own, *locked[:2], *turns])]


def _held_row(case, data):
    times, means, most = zip(*map(held, data))
    return [case, *map(_number, times), *(f"{mean:.0f}" if mean else "–" for mean in means),
            *(f"`{one['by']}` {one['times']:.1f} × {one['mean']:.0f}" if one else "–" for one in most[:2])]


def _number(value):
    return f"{value:.1f}"
