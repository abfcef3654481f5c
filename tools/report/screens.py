# SPDX-License-Identifier: GPL-2.0
"""Pictures of terminals, of what tests/terminal has left of the screens that it saw."""

import html
import json

# A character of a font of 14 pixels, and the room around all of them.
_WIDTH, _HEIGHT, _MARGIN = 8.43, 18, 12
PAPER, _INK = "#1b1e23", "#d7dae0"
# The first sixteen colours of a terminal.
_COLOURS = ("#3b4048", "#e06c75", "#7bc275", "#d8b25a", "#61afef", "#c678dd", "#46b1c9", "#d7dae0",
            "#7f848e", "#ff7b86", "#98d982", "#ecc877", "#7fc1ff", "#dd92f2", "#67cfe3", "#ffffff")


def svg(picture, title):
    """The picture of a screen, for a reader who may have neither its fonts nor a style sheet."""
    screen = json.loads(picture)
    # Empty lines at the end say nothing; the last line of a program that draws is never empty.
    lines = screen["lines"]
    while lines and not "".join(piece["text"] for piece in lines[-1]).strip():
        lines = lines[:-1]
    width = round(screen["columns"] * _WIDTH + 2 * _MARGIN)
    height = len(lines) * _HEIGHT + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
    ]
    for row, line in enumerate(lines):
        parts += _line(line, _MARGIN + row * _HEIGHT)
    return "\n".join([*parts, "</svg>", ""])


def _line(pieces, top):
    column = 0
    for piece in pieces:
        ink, paper = _colours(piece)
        left, length = _MARGIN + column * _WIDTH, len(piece["text"]) * _WIDTH
        column += len(piece["text"])
        if paper != PAPER:
            yield f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="{_HEIGHT}" fill="{paper}"/>'
        text = piece["text"].rstrip()
        if not text:
            continue
        # Each blank counts, and each character has its place, whatever the font is.
        bold = ' font-weight="bold"' if piece["bold"] else ""
        yield (f'<text x="{left:.1f}" y="{top + 14}" fill="{ink}"{bold} textLength="{len(text) * _WIDTH:.1f}" '
               f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{html.escape(text)}</text>')


def _colours(piece):
    """Those of the characters and of what is behind them."""
    def of(number, otherwise):
        return otherwise if number is None or number >= len(_COLOURS) else _COLOURS[number]

    ink, paper = of(piece["foreground"], _INK), of(piece["background"], PAPER)
    return (paper, ink) if piece["inverse"] else (ink, paper)
