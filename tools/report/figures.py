# SPDX-License-Identifier: GPL-2.0
"""Figures: small panels, each legible alone at the width of a phone, and rows of them for the docs.

A panel is a function that draws on axes. Colours have roles, so that one drawing serves a light and a dark page: within
our page they are CSS variables. In a file each shape has its light colour as an attribute, which everything that shows
pictures understands, and a style sheet replaces these on a dark page, where there are style sheets.
"""

import collections
import io
import re

import matplotlib
from matplotlib import patches, pyplot, ticker

matplotlib.use("agg")

# Role: (light, dark). No colour stands for two roles.
PALETTE = {
    "ink": ("#24292f", "#e6edf3"), "muted": ("#67707a", "#9198a1"), "grid": ("#dde1e6", "#353b43"),
    "paper": ("#fefefe", "#15181c"),
    "c": ("#59636e", "#b4bec9"), "rust": ("#c2410c", "#ff8f52"), "upstream": ("#1f63c6", "#71b3ff"),
    "yardstick": ("#9aa3ad", "#707983"),
}
NAMES = {"c": "C", "rust": "Rust Binder", "upstream": "upstream Rust"}
_MARKS = {"c": "o", "rust": "s", "upstream": "^"}
_WIDTH, _SMALL_WIDTH = 3.9, 2.45
# What is in a `style`, and of that the colours.
_STYLE = re.compile(r'style="([^"]*)"')
_COLOUR = re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})(?=;|$)")

# title and caption are text; draw takes axes; height in inches. Of many small panels so many `columns` are in a row.
Panel = collections.namedtuple("Panel", "title draw height", defaults=(2.7,))
Figure = collections.namedtuple("Figure", "name caption panels columns", defaults=(None,))

matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "binder", "font.family": "sans-serif", "font.size": 8,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
    "axes.titlesize": 9, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.titlepad": 9,
    "axes.labelsize": 8, "xtick.labelsize": 8, "ytick.labelsize": 8, "axes.axisbelow": True, "axes.facecolor": "none",
    "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "lines.linewidth": 1.6, "lines.markersize": 4, "savefig.facecolor": PALETTE["paper"][0],
})
for name in ("text.color", "axes.titlecolor"):
    matplotlib.rcParams[name] = PALETTE["ink"][0]
for name in ("xtick.color", "ytick.color", "axes.labelcolor"):
    matplotlib.rcParams[name] = PALETTE["muted"][0]
matplotlib.rcParams["axes.edgecolor"] = matplotlib.rcParams["grid.color"] = PALETTE["grid"][0]


def colour(who):
    return PALETTE.get(who, PALETTE["yardstick"])[0]


def mark(who):
    return _MARKS.get(who, "")


def svg(panels, alone=False, drivers=tuple(NAMES), columns=None):
    """The panels in a row, or in rows of so many small ones. With `alone` it brings its colours for light and dark along, and says which of the drivers is which."""
    out = io.BytesIO()
    drawn = _drawn(panels, drivers if alone else (), columns)
    drawn.savefig(out, format="svg", transparent=not alone, metadata={"Date": None, "Creator": None})
    pyplot.close(drawn)
    text = out.getvalue().decode()
    text = text[text.index("<svg"):]
    text = re.sub(r"font: ([^;\"]*?)(\d+(?:\.\d+)?px) [^;\"]*", r"font: \1\2 system-ui, sans-serif", text)
    if alone:
        return _STYLE.sub(_plain, text).replace("<defs>", f"<style>{_dark()}</style><defs>", 1)
    for role, (light, _) in PALETTE.items():
        text = re.sub(rf"\b(fill|stroke): {light}", rf"\1: var(--{role})", text, flags=re.I)
    return text


def _plain(style):
    """A shape's style with its colours as attributes, which any style sheet can replace."""
    colours = "".join(f'{what}="{colour}" ' for what, colour in _COLOUR.findall(style[1]))
    rest = "; ".join(part for part in style[1].split("; ") if not _COLOUR.fullmatch(part))
    return (colours + (f'style="{rest}"' if rest else "")).rstrip()


def _dark():
    """The style sheet of a file: what is drawn in a colour of the light page, on a dark one."""
    rules = "".join(f'[{what}="{light}"]{{{what}:{dark}}}' for light, dark in PALETTE.values() for what in ("fill", "stroke"))
    return f"@media (prefers-color-scheme:dark){{{rules}}}"


def png(panels, columns=None):
    """The same in the light colours."""
    out = io.BytesIO()
    drawn = _drawn(panels, tuple(NAMES), columns)
    drawn.savefig(out, format="png", dpi=160)
    pyplot.close(drawn)
    return out.getvalue()


def theme(selector):
    """The palette as CSS."""
    light, dark = ("".join(f"--{role}:{pair[i]};" for role, pair in PALETTE.items()) for i in (0, 1))
    return f"{selector}{{{light}}}@media(prefers-color-scheme:dark){{{selector}{{{dark}}}}}"


def _drawn(panels, named, columns=None):
    """A picture of the panels, with the names of these drivers."""
    picture = _in_rows(panels, columns) if columns else _in_a_row(panels)
    if named:
        picture.suptitle(" ")  # the layout leaves room for it, and not for a legend
        key = picture.legend(handles=[patches.Patch(color=colour(who), label=NAMES[who]) for who in named],
                             loc="upper right", ncols=len(named), frameon=False, fontsize=7.5, handlelength=0.9)
        for who, text in zip(named, key.get_texts()):
            text.set_color(colour(who))
    return picture


def _in_a_row(panels):
    """Each as high as it wants to be, their tops aligned."""
    height = max(panel.height for panel in panels)
    picture = pyplot.figure(figsize=(_WIDTH * len(panels), height), constrained_layout=True)
    for place, panel in zip(picture.add_gridspec(1, len(panels)), panels):
        if panel.height < height:
            place = place.subgridspec(2, 1, height_ratios=(panel.height, height - panel.height))[0]
        _put(panel, picture.add_subplot(place))
    return picture


def _in_rows(panels, columns):
    """All as high as the highest."""
    rows = -(-len(panels) // columns)
    picture = pyplot.figure(figsize=(_SMALL_WIDTH * columns, max(panel.height for panel in panels) * rows), constrained_layout=True)
    for place, panel in zip(picture.add_gridspec(rows, columns), panels):
        _put(panel, picture.add_subplot(place))
    return picture


def _put(panel, axes):
    axes.set_title(panel.title)
    panel.draw(axes)


def curves(lines, xlabel, xs, xnames, log=False):
    """A function that draws `lines`, (who, {x: (middle, low, high)}), over the places `xs`, labelled at
    their ends. The band between low and high is drawn where there is one."""

    def draw(axes):
        ends = []
        place = {x: index for index, x in enumerate(xs)}
        for who, points in lines:
            there = [x for x in xs if x in points]
            if not there:
                continue
            across = [place[x] for x in there]
            middle, low, high = zip(*(points[x] for x in there))
            yardstick = who not in NAMES
            axes.plot(across, middle, color=colour(who), marker=mark(who), clip_on=False,
                      linewidth=1.0 if yardstick else 1.6, linestyle=(0, (4, 2)) if yardstick else "-",
                      zorder=2 if yardstick else 3 + (who == "rust"))
            if any(l < h for l, h in zip(low, high)):
                axes.fill_between(across, low, high, color=colour(who), alpha=0.13, linewidth=0)
            ends.append((middle[-1], across[-1], NAMES.get(who, who), colour(who)))
        if log:
            axes.set_yscale("log")
            plain_ticks(axes.yaxis)
        else:
            axes.set_ylim(bottom=0)
        axes.set_xticks(range(len(xs)), xnames)
        axes.set_xlim(-0.15, len(xs) - 0.85)
        axes.set_xlabel(xlabel)
        axes.grid(axis="y", linewidth=0.6)
        _label_ends(axes, ends)

    return draw


def plain_ticks(axis):
    """Numbers as people write them on a logarithmic axis."""
    axis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5), numticks=12))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(ticker.NullLocator())


def _label_ends(axes, ends, gap=9.5):
    """Write each line's name behind its last point, moved up or down until none overlaps another."""
    axes.figure.canvas.draw()
    points = axes.get_window_extent().height / axes.figure.dpi * 72
    to_axes = axes.transData + axes.transAxes.inverted()
    placed = sorted((to_axes.transform((x, y))[1] * points, x, y, name, shade) for y, x, name, shade in ends)
    heights = [item[0] for item in placed]
    for _ in range(50):
        for index in range(1, len(heights)):
            lack = gap - (heights[index] - heights[index - 1])
            if lack > 0.01:
                heights[index - 1] -= lack / 2
                heights[index] += lack / 2
    for index, height in enumerate(heights):
        lowest = 2.0 if index == 0 else heights[index - 1] + gap
        heights[index] = max(height, lowest)
    for height, (_, x, y, name, shade) in zip(heights, placed):
        wanted = height - to_axes.transform((x, y))[1] * points
        axes.annotate(name, (x, y), xytext=(7, wanted), textcoords="offset points", va="center",
                      color=shade, fontsize=8, annotation_clip=False)


def dots(rows, drivers, xlabel, extent):
    """A function that draws ratios to C: `rows` are (label, {who: (ratio, low, high, sure)}), C is the line
    at 1. An interval that was not sure is drawn pale; one that leaves the extent of the axis is cut there. An extent that holds 0,
    of which there is no logarithm, is drawn as it is."""

    def draw(axes):
        for index, (_, ratios) in enumerate(rows):
            height = len(rows) - 1 - index
            axes.axhline(height, color=PALETTE["grid"][0], linewidth=0.6, zorder=1)
            for who in drivers:
                if who not in ratios:
                    continue
                ratio, low, high, sure = ratios[who]
                lift = {"rust": 0.13, "upstream": -0.13}.get(who, 0) if high > low else 0
                if high > low:
                    axes.plot([low, high], [height + lift] * 2, color=colour(who), linewidth=2.2,
                              alpha=0.55 if sure else 0.16, solid_capstyle="butt", zorder=3)
                axes.plot([ratio], [height + lift], marker=_MARKS[who], color=colour(who), markersize=5,
                          markerfacecolor=colour(who) if sure else PALETTE["paper"][0], zorder=4)
        axes.axvline(1, color=colour("c"), linewidth=1.4, zorder=2)
        axes.annotate("C", (1, 1), xycoords=("data", "axes fraction"), xytext=(0, 2), textcoords="offset points",
                      color=colour("c"), ha="center", fontweight="bold")
        axes.set_title(axes.get_title("left"), pad=18)
        axes.set_yticks(range(len(rows)), [label for label, _ in reversed(rows)])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        if 0 < 2 * extent[0] < extent[1]:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(ticker.FixedLocator([0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10]))
            axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.set_xlim(extent)
        axes.tick_params(axis="y", labelcolor=PALETTE["ink"][0])
        axes.set_xlabel(xlabel)
        axes.spines["bottom"].set_visible(False)
        axes.grid(axis="x", linewidth=0.6)

    return draw


def extent(rows):
    """The part of the axis that all ratios of `rows` need, C included."""
    points = [ratio[0] for _, ratios in rows for ratio in ratios.values()] + [1.0]
    margin = 1.02 * (max(points) / min(points)) ** 0.05
    return min(points) / margin, max(points) * margin


def bars(rows, xlabel, limit=None, every=100):
    """A function that draws `rows`, (label, [(who, value)]), as groups of bars with their values behind."""

    def draw(axes):
        height, ticks = 0.0, []
        for label, values in reversed(rows):
            start = height
            for who, value in reversed(values):
                axes.barh(height, value, color=colour(who), height=0.82)
                axes.annotate(f"{value:,.0f}".replace(",", " "), (max(value, 0), height), xytext=(3, 0),
                              textcoords="offset points", va="center", fontsize=6.5, color=colour(who))
                height += 1
            ticks.append(((start + height - 1) / 2, label))
            height += 0.7 if len(values) > 1 else 0.0
        axes.set_yticks([t for t, _ in ticks], [l for _, l in ticks])
        axes.tick_params(axis="y", labelcolor=PALETTE["ink"][0])
        axes.set_ylim(-0.7, height)
        axes.set_xlim(0, limit or axes.get_xlim()[1] * 1.12)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(4))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:,.0f}".replace(",", " ")))
        axes.set_xlabel(xlabel)
        axes.spines["bottom"].set_visible(False)
        axes.grid(axis="x", linewidth=0.6)

    return draw


def percentiles(lines):
    """A function that draws `lines`, (who, [(fraction of calls, µs)]), with the tail spread out: each step to
    the right is ten times fewer calls."""

    def draw(axes):
        least = 1e-1
        for who, points in lines:
            rest = [1 - fraction for fraction, _ in points]
            axes.plot(rest, [value for _, value in points], color=colour(who), drawstyle="steps-post",
                      linewidth=1.0 if who not in NAMES else 1.5,
                      linestyle=(0, (4, 2)) if who not in NAMES else "-", zorder=3 + (who == "rust"),
                      label=NAMES.get(who, who))
            least = min(least, min(rest))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(1, least)
        shown = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]
        shown = [s for s in shown if 1 - s >= least * 0.99]
        axes.xaxis.set_major_locator(ticker.FixedLocator([1 - s for s in shown]))
        axes.xaxis.set_major_formatter(ticker.FixedFormatter([f"p{s * 100:g}" for s in shown]))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        plain_ticks(axes.yaxis)
        axes.grid(linewidth=0.6)
        legend(axes)

    return draw


def legend(axes):
    """Names in their own colours, no box."""
    box = axes.legend(frameon=False, fontsize=7.5, loc="upper left", handlelength=1.2, labelspacing=0.25,
                      borderaxespad=0.2)
    for line, text in zip(box.get_lines(), box.get_texts()):
        text.set_color(line.get_color())
