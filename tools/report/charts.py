# SPDX-License-Identifier: GPL-2.0
"""Charts as SVG: rows of bars, and rows of ratios to C with their intervals. Each brings its colours for light and dark pages along."""

import html

from .data import NAMES

# Role: (light, dark).
PALETTE = {"ink": ("#24292f", "#e6edf3"), "muted": ("#67707a", "#9198a1"), "grid": ("#dde1e6", "#353b43"), "paper": ("#fefefe", "#15181c"),
           "c": ("#59636e", "#b4bec9"), "rust": ("#c2410c", "#ff8f52"), "upstream": ("#1f63c6", "#71b3ff")}
_WIDTH, _LABEL, _VALUE = 560, 200, 60
_BAR, _ROW, _TOP = 9, 17, 46
_LEAST_TICKS = 4


def bars(title, rows, note=""):
    """A chart of `rows`, (label, {driver: value}); bars begin at 0, and each has its value behind it. `note`: a line below."""
    most = max(value for _, values in rows for value in values.values()) or 1
    x = lambda value: _LABEL + value / most * (_WIDTH - _LABEL - _VALUE)
    drawn, y = [], _TOP
    for label, values in rows:
        drawn.append(_text(_LABEL - 8, y + len(values) * (_BAR + 1) / 2 + 3, label, "ink", "end"))
        for who, value in values.items():
            drawn.append(f'<rect class="{who}" x="{_LABEL}" y="{y}" width="{max(x(value) - _LABEL, 0.5):.1f}" height="{_BAR}"/>')
            drawn.append(_text(x(value) + 4, y + _BAR - 1, number(value), "muted"))
            y += _BAR + 1
        y += 7
    return _svg(title, [who for who in NAMES if any(who in values for _, values in rows)], y, drawn, note)


def ratios(title, rows, note=""):
    """A chart of `rows`, (label, {driver: (ratio to C, low, high)}), around a line at 1."""
    values = [value for _, of_row in rows for interval in of_row.values() for value in interval] + [1.0]
    low, high = min(values), max(values)
    low, high = low - 0.04 * (high - low), high + 0.04 * (high - low)
    x = lambda value: _LABEL + (value - low) / (high - low) * (_WIDTH - _LABEL - 20)
    bottom = _TOP + _ROW * len(rows)
    drawn = []
    step = next(step for step in (2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0) if not step or (high - low) / step >= _LEAST_TICKS)
    for tick in (index * step for index in range(int(low / step) if step else 0, int(high / step) + 1 if step else 0)):
        if low <= tick <= high:
            drawn += [_line(x(tick), _TOP - 6, x(tick), bottom, "grid"), _text(x(tick), bottom + 12, f"{tick:g}", "muted", "middle")]
    drawn.append(_line(x(1), _TOP - 6, x(1), bottom, "c"))
    for index, (label, of_row) in enumerate(rows):
        y = _TOP + _ROW * index + 6
        drawn.append(_text(_LABEL - 8, y + 4, label, "ink", "end"))
        for who, (ratio, least, most) in of_row.items():
            drawn.append(_line(x(least), y, x(most), y, who))
            drawn.append(f'<circle class="{who}" cx="{x(ratio):.1f}" cy="{y}" r="3.5"/>')
    return _svg(title, [who for who in NAMES if who == "c" or any(who in of_row for _, of_row in rows)], bottom + 20, drawn, note)


def _svg(title, drivers, height, drawn, note):
    drawn, height = [*drawn, _text(8, height + 10, note, "muted")], height + 18
    theme = lambda shade: "".join(f".{role}{{fill:{pair[shade]};stroke:{pair[shade]}}}" for role, pair in PALETTE.items())
    style = f"text{{font:11px system-ui,sans-serif;stroke:none!important}}{theme(0)}@media(prefers-color-scheme:dark){{{theme(1)}}}"
    key = [_text(_WIDTH - 100 * (len(drivers) - index), 30, f"■ {NAMES[who]}", who) for index, who in enumerate(drivers)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"><style>{style}</style>'
            f'<rect class="paper" width="{_WIDTH}" height="{height}"/>{_text(8, 14, title, "ink")}{"".join([*key, *drawn])}</svg>\n')


def _text(x, y, text, role, anchor="start"):
    return f'<text class="{role}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _line(x1, y1, x2, y2, role):
    return f'<line class="{role}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def number(value):
    """A number with a space between thousands, and a digit behind the point where it is small."""
    return f"{value:,.0f}".replace(",", " ") if value >= 100 or value == int(value) else f"{value:.1f}"
