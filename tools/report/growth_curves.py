# SPDX-License-Identifier: GPL-2.0
"""What one operation costs, over how many there are of something: a small panel for each kind of thing, all drivers in it."""

from matplotlib import ticker

from . import figures

COLUMNS = 4
_HEIGHT = 1.75
# The phases that are drawn, of each kind of thing that user space can have many of one or two: what is done to one, or by one who meets
# all of them, and what ours does at a greater cost than C (docs/growth.md). All phases are in the table.
SHOWN = (
    "depth of nesting: call a third process", "depth of nesting, undone: reply to all", "threads idle: call", "threads ended silently: kill",
    "calls: answer", "calls of who dies: kill the server", "oneway calls of a node: send", "oneway calls of a node: take",
    "messages kept: call", "objects of one call: send new nodes", "objects of one call: ask for one's own", "handles: take",
    "handles: close all", "references on a node: kill the holders", "death links on a node: watch", "death links on a node: kill the watchers",
    "freeze links on a node: freeze", "unread deaths: poll", "processes: open and close one", "processes: close",
    "devices: open and close", "devices: remove half of them", "pollers: call", "files of one call: send",
)
# The axis of costs spans this much at least, so that what hardly grows looks flat.
_LEAST_SPAN = 8.0
# Above this, numbers on that axis are powers of ten only.
_DENSE_SPAN = 100.0
# Where the slopes of drivers stand, as parts of a panel's width.
_PLACES = {"c": 0.0, "rust": 0.34, "upstream": 0.68}


def figure(rows):
    """Of {case: {who: row}}, the rows being those of `binder-bench report`; None if nothing of it was measured with enough numbers."""
    panels = [panel(case, rows[case]) for case in SHOWN if any(map(points, rows.get(case, {}).values()))]
    if not panels:
        return None
    return figures.Figure("growth-curves", "Instructions of one operation over how many there are, and the power of N with which it grows",
                          panels, COLUMNS)


def panel(case, drivers):
    quantity, phase = case.split(": ")
    return figures.Panel(quantity, _drawing(phase, {who: (points(row), slope(row)) for who, row in drivers.items() if points(row)}), _HEIGHT)


def points(row):
    """[(how many, instructions of one operation)]. What is done to each of them is not told apart from what is paid once where
    there is one, and may cost nothing, of which there is no logarithm."""
    least = 1 if row.get("operations") else 2
    found = [(count, cost) for count, cost in row["each"] if count >= least and cost > 0]
    return found if len(found) > 1 else []


def slope(row):
    """The power of N with which one operation becomes dearer. If there are N operations, that is one less than the power for all."""
    if row["exponent"] is None:
        return None
    return round(row["exponent"] - (0 if row.get("operations") else 1), 2) + 0.0


def _drawing(phase, lines):
    """A function that draws {who: (points, slope)}."""

    def draw(axes):
        for who, (found, _) in lines.items():
            axes.plot(*zip(*found), color=figures.colour(who), marker=figures.mark(who), markersize=3, linewidth=1.2,
                      clip_on=False, zorder=3 + (who == "rust"))
        _numbers(axes, sorted({count for found, _ in lines.values() for count, _ in found}))
        _costs(axes, [cost for found, _ in lines.values() for _, cost in found])
        _words(axes, phase, {who: power for who, (_, power) in lines.items()})

    return draw


def _numbers(axes, counts):
    """Of how many there are, every second one is written: they are close to each other."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.FixedLocator(counts[::-2]))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(_spaced))
    axes.set_xlim(counts[0] / 1.3, counts[-1] * 1.3)
    axes.set_xlabel("how many", fontsize=6.5, labelpad=1)


def _costs(axes, costs):
    low, high = min(costs) / 1.25, max(costs) * 1.25
    wider = max(_LEAST_SPAN / (high / low), 1) ** 0.5
    low, high = low / wider, high * wider
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1,) if high / low > _DENSE_SPAN else (1, 2, 5), numticks=12))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(_spaced))
    axes.tick_params(labelsize=6.5, pad=2)
    axes.grid(axis="y", linewidth=0.6)


def _words(axes, phase, powers):
    """What is done, and how it grows with each driver."""
    axes.set_title(axes.get_title("left"), pad=21, fontsize=8)
    above = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 7}
    axes.annotate(phase, (0, 1), xytext=(0, 13), color=figures.colour("muted"), **above)
    for who, power in powers.items():
        if power is not None:
            axes.annotate(f"N^{power:.2f}".replace("-", "−"), (_PLACES.get(who, 0), 1), xytext=(0, 4), color=figures.colour(who), **above)


def _spaced(value, _=None):
    """A number with a space between thousands."""
    return f"{value:,.0f}".replace(",", " ")
