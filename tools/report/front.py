# SPDX-License-Identifier: GPL-2.0
"""The figures on the first page of docs/performance.md, each drawn by the command that measures what is in it."""

from lab.versions import ROOT
from . import figures

_FOLDER = ROOT / "docs/figures"
_DRIVERS = ("c", "rust")
# What of the scenes of two drivers in one kernel, and as what.
_SCENES = {"one CPU": "one CPU", "free": "two CPUs"}
# Of fewer lines in a call of C's there is no ratio.
LEAST_MOVED = 0.5


def instructions(goals):
    """From the goals about instructions: how ours stands to C."""
    rows = [(goal.row, {"rust": (goal.figure,) * 3 + (True,)}) for goal in goals if goal.figure and " / " not in goal.key]
    _write("front-instructions", figures.Panel("Instructions ÷ C", figures.dots(
        rows, ("rust",), "÷ C, lower is better", figures.extent(rows)), 0.9 + 0.17 * len(rows)))


def time(found):
    """From {(where processes run, bytes): [(ratio to C, low, high)] of boots}: the middle boot, and from the least to the most that
    any of them says."""
    rows = []
    for (scene, size), boots in found.items():
        if boots and scene in _SCENES:
            points, lows, highs = zip(*sorted(boots))
            ratio = points[len(points) // 2], min(lows), max(highs)
            rows.append((f"{_SCENES[scene]}, {size} bytes", {"rust": (*ratio, ratio[2] < 1 or ratio[1] > 1)}))
    _write("front-time", figures.Panel("Time of a call ÷ C", figures.dots(
        rows, ("rust",), "÷ C in the same kernel, lower is better", _with_intervals(rows)), 0.9 + 0.3 * len(rows)))


def lines(found):
    """From {case: (lines that move in a call through C, through ours)}; where next to nothing moves through C, there is no ratio."""
    rows = [(case, {"rust": (ours / base,) * 3 + (True,)}) for case, (base, ours) in found.items() if base >= LEAST_MOVED]
    # Ours may move none at all, so the axis begins a bit before 0.
    most = max([ratio for _, ratios in rows for ratio, *_ in ratios.values()] + [1.0])
    _write("front-lines", figures.Panel("Lines that move ÷ C", figures.dots(
        rows, ("rust",), "÷ C, lower is better", (-0.04 * most, 1.06 * most)), 0.9 + 0.17 * len(rows)))


def _with_intervals(rows):
    """The part of the axis that holds all ends of intervals, and C."""
    ends = [end for _, ratios in rows for ratio in ratios.values() for end in ratio[:3]] + [1.0]
    return min(ends) - 0.02, max(ends) + 0.02


def _write(name, panel):
    (_FOLDER / f"{name}.svg").write_text(figures.svg([panel], alone=True, drivers=_DRIVERS))
