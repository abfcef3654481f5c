# SPDX-License-Identifier: GPL-2.0
"""The page of `make bench`, one HTML file without other files, and its tables for terminals."""

import collections
import html

from . import charts, data
from .charts import number

# A table is (headers, rows of texts); `words` are the columns that are no numbers.
Table = collections.namedtuple("Table", "headers rows words", defaults=((0,),))
Section = collections.namedtuple("Section", "anchor title note charts table")
# A longer table is shown on demand.
_FEW = 50
_CSS = """
* { box-sizing: border-box; }
html { background: PAPER; color: INK; font: 15px/1.5 system-ui, sans-serif; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { html { background: DARK; color: LIGHT; } }
main { max-width: 1240px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 19px; margin: 34px 0 4px; }
p { max-width: 75ch; } dt { opacity: .7; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); gap: 18px; align-items: start; }
svg { width: 100%; height: auto; }
pre { overflow-x: auto; font-size: 13px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; font-size: 14px; } dd { margin: 0; }
"""


def render(sections, headline, facts, title="Binder drivers, measured"):
    """The page. `headline` are lines to read first, `facts` (name, value) about the machine and the method, if any."""
    (paper, dark), (ink, light) = charts.PALETTE["paper"], charts.PALETTE["ink"]
    css = _CSS.replace("PAPER", paper).replace("DARK", dark).replace("INK", ink).replace("LIGHT", light)
    told = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in facts)
    return ("<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<meta name=viewport content='width=device-width, initial-scale=1'>\n"
            f"<title>{title}</title>\n<style>{css}</style>\n<main>\n<h1>{title}</h1>\n{_lines(headline)}\n" + "\n".join(map(_section, sections))
            + (f"\n<section id=facts><h2>Machine and method</h2><dl>{told}</dl><p>Measure again: <code>make bench</code>. "
               "How: <code>docs/measuring.md</code>.</p></section>" if facts else "") + "\n</main>\n</html>\n")


def _section(section):
    shown = "open" if len(section.table.rows) <= _FEW else ""
    drawn = "".join(f"<figure>{chart}</figure>" for chart in section.charts)
    return (f"<section id={section.anchor}><h2>{html.escape(section.title)}</h2><p>{html.escape(section.note)}</p><div class=charts>{drawn}</div>"
            f"<details {shown}><summary>The numbers</summary>{_lines(plain(section.table))}</details></section>")


def _lines(lines):
    return "<pre>" + html.escape("\n".join(lines)) + "</pre>"


def plain(table):
    """A table for terminals: the first column to the left, all others to the right, or to the left if they are words."""
    widths = [max(len(cells[index]) for cells in [table.headers, *table.rows]) for index in range(len(table.headers))]
    return ["  " + "  ".join(cell.ljust(width) if index in table.words else cell.rjust(width)
                             for index, (cell, width) in enumerate(zip(cells, widths))).rstrip() for cells in [table.headers, *table.rows]]


def counts(ours, base, upstream):
    """Instructions and locked operations; all are {operation: [instructions, locked operations]}."""
    each = lambda now, other: (number(other), over(now, other))
    rows = [[data.title(name), *(cell for at in (0, 1) for cell in (number(now[at]), *each(now[at], base[name][at]))),
             *(cell for at in (0, 1) for cell in each(now[at], upstream[name][at]))] for name, now in ours.items()]
    return Table(("operation", "instructions: Rust Binder", "C", "÷ C", "locked: Rust Binder", "C", "÷ C",
                  "instructions: upstream Rust", "÷ upstream", "locked: upstream Rust", "÷ upstream"), rows)


def memory(sizes, works):
    """Bytes of one more object, and instructions of kernel threads at its end; both are {object: number} of ours, C and upstream's. C may lack one."""
    def row(name, ours, *others):
        return [name, number(ours), *(text for other in others for text in ((number(other), f"{ours / other:.3f}") if other else ("–", "–"))),
                *(number(work[name]) if name in work else "–" for work in works)]

    return Table(("object", "bytes: Rust Binder", "C", "÷ C", "upstream Rust", "÷ upstream",
                  "kernel threads, at its end: Rust Binder", "C", "upstream Rust"), [row(name, *(size.get(name) for size in sizes)) for name in sizes[0]])


def times(latency):
    """Medians of what drivers take, from the rows of `binder-bench report`."""
    rows = []
    for cell in data.cells(latency):
        of_c = latency.get((cell, "c"))
        for who in ("rust", "upstream"):
            row = latency.get((cell, who))
            if of_c and row and row["ratios"]:
                ratio = row["ratios"]["p50"]
                rows.append([cell.label, data.NAMES[who], f"{row['p50_ns'] / 1000:.2f}", f"{of_c['p50_ns'] / 1000:.2f}", f"{row['p99_ns'] / 1000:.2f}",
                             f"{ratio['point']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]", ratio["verdict"]])
    return Table(("case", "driver", "p50 µs", "C's", "p99 µs", "p50 ÷ C [95 %]", "by median"), rows, (0, 1, 6))


def over(value, base):
    return f"{value / base:.3f}" if base > 0.5 else "–"
