# SPDX-License-Identifier: GPL-2.0
"""One HTML file that needs nothing else: figures inline, results and flame graphs embedded."""

import base64
import gzip
import html
import pathlib
import re

from . import figures, flame

# A longer table is shown when asked for.
_FEW = 50
HERE = pathlib.Path(__file__).resolve().parent
_METHOD = (
    "Each driver is booted in turn, again and again, and every operation is measured in short blocks in shuffled order, "
    "so that whatever disturbs the machine disturbs all alike; no winner is named where the 95 % interval contains 1. "
    "Instructions are counted by the guest's own clock under <code>qemu -icount</code>, where they are the same in every "
    "run; they are not time, but they show a difference of a hundredth that no shared machine's clock can."
)


def render(shown, tiles, facts, flames, raw):
    """The page. `tiles` are (figure, what it is, remark), `facts` (name, value), `flames` {driver: SVG},
    `raw` {file name: bytes}."""
    body = [_header(facts), _tiles(tiles), _contents(shown)]
    body += [_section(section, flames) for section in shown]
    body += [_facts(facts), _raw(raw)]
    css = figures.theme(":root") + (HERE / "page.css").read_text()
    return (
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n"
        "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
        "<meta name=color-scheme content='light dark'>\n<title>Binder drivers, measured</title>\n"
        f"<style>{css}</style>\n<main>\n" + "\n".join(body) + "\n</main>\n</html>\n"
    )


def _header(facts):
    known = dict(facts)
    line = " · ".join(known[name] for name in ("our driver", "guest kernel", "processor", "measured") if name in known)
    keys = "".join(f"<span class='key {who}'>{name}</span>" for who, name in figures.NAMES.items())
    return (f"<header><h1>Binder drivers, measured</h1><p class=muted>{html.escape(line)}</p>"
            f"<p class=keys>{keys}<span class='key yardstick'>yardsticks</span></p></header>")


def _tiles(tiles):
    return "<div class=tiles>" + "".join(
        f"<div><b>{value}</b><span>{what}</span><small>{remark}</small></div>" for value, what, remark in tiles
    ) + "</div>"


def _contents(shown):
    links = [(s.anchor, s.title) for s in shown] + [("facts", "Machine and method"), ("raw", "Raw data")]
    return "<nav>" + "".join(f"<a href='#{anchor}'>{title}</a>" for anchor, title in links) + "</nav>"


def _section(section, flames):
    parts = [f"<section id={section.anchor}><h2>{section.title}</h2><p>{section.note}</p>"]
    numbers = ""
    if section.table:
        shown = "open" if len(section.table.rows) <= _FEW else ""
        numbers = f"<details {shown}><summary>The numbers</summary>{table(section.table)}</details>"
    panels = [f"<figure>{figures.svg([panel])}</figure>" for figure in section.figures for panel in figure.panels]
    parts.append(f"<div class=panels>{''.join(panels)}{numbers}</div>")
    if section.flames:
        keys = (f"<span><i style='background:{flame.shade(kind)}'></i>{kind}</span>" for kind in flame.LEGEND)
        parts.append(f"<p class=shades>{''.join(keys)}</p>")
    for who in section.flames:
        if who in flames:
            height = re.search(r'height="(\d+)"', flames[who]).group(1)
            source = base64.b64encode(flames[who].encode()).decode()
            parts.append(f"<h3>{figures.NAMES[who]}</h3><iframe class=flame title='Flame graph, {figures.NAMES[who]}' "
                         f"height={height} src='data:image/svg+xml;base64,{source}'></iframe>")
    if section.text:
        parts.append(f"<details><summary>The tables</summary><pre>{html.escape(section.text)}</pre></details>")
    return "\n".join([*parts, "</section>"])


def table(what):
    """A table that scrolls alone where the page is too narrow for it."""
    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}{'' if i in what.words else ' class=number'}>{html.escape(c)}</{tag}>"
                                for i, c in enumerate(cells)) + "</tr>"
    rows = "".join(row(cells, "td") for cells in what.rows)
    return f"<div class=scroll><table><thead>{row(what.headers, 'th')}</thead><tbody>{rows}</tbody></table></div>"


def _facts(facts):
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in facts)
    return (f"<section id=facts><h2>Machine and method</h2><p>{_METHOD}</p><dl>{rows}</dl>"
            "<p>Measure again: <code>make bench</code>. How it is done: <code>docs/measuring.md</code>.</p></section>")


def _raw(raw):
    links = "".join(
        f"<a download='{name}.gz' href='data:application/gzip;base64,"
        f"{base64.b64encode(gzip.compress(content, mtime=0)).decode()}'>{name}</a> "
        for name, content in raw.items())
    return ("<section id=raw><h2>Raw data</h2><p>Everything above was drawn from these files, which are in this page "
            f"(JSON, gzip; <code>binder-bench schema</code> explains them).</p><p class=raw>{links}</p></section>")


def markdown(what):
    """A table for the docs."""
    line = lambda cells: "| " + " | ".join(cells) + " |"
    rule = "|" + "|".join("---" if i in what.words else "--:" for i in range(len(what.headers))) + "|"
    return "\n".join([line(what.headers), rule, *map(line, what.rows)]) + "\n"

