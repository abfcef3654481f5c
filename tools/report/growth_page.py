# SPDX-License-Identifier: GPL-2.0
"""The table and the figures of docs/growth.md, from result files of `make growth`."""

from lab import marked
from lab.versions import ROOT
from . import data, figures, page, sections

PAGE = ROOT / "docs/growth.md"
FIGURES = ROOT / "docs/figures"
# What is said of a figure, below it.
_SAID = {"growth-curves": "Instructions of one operation, over how many there are; above each panel the power of N with which one becomes dearer, "
                          "for C, ours and upstream: 0 is a flat line. Where there are N operations, the table has the power for all of them, "
                          "which is one more.\n\n"}


def write(program, paths, date, commit):
    """Put all of it in place of the last ones."""
    section = sections.growth_of(data.load(program, paths))
    for figure in section.figures:
        (FIGURES / f"{figure.name}.svg").write_text(figures.svg(figure.panels, alone=True, columns=figure.columns))
    marked.put(PAGE, "growth", made(section, f"{date}, our driver of `{commit}`"))


def made(section, when):
    """What is between the marks."""
    images = "".join(f"![{figure.caption}](figures/{figure.name}.svg)\n\n{_SAID.get(figure.name, '')}" for figure in section.figures)
    return f"{when}.\n\n{images}{page.markdown(section.table)}"
