# SPDX-License-Identifier: GPL-2.0
"""The table and the figure of docs/growth.md, from result files of `make growth`."""

from lab.versions import ROOT
from . import data, figures, page, sections

PAGE = ROOT / "docs/growth.md"
FIGURE = ROOT / "docs/figures/growth.svg"
_MARKS = "<!-- made by make growth DOCS=1: begin -->", "<!-- end -->"


def write(program, paths, date, commit):
    """Put both in place of the last ones."""
    results = data.load(program, paths)
    section = sections.growth_of(results)
    FIGURE.write_text(figures.svg(section.figures[0].panels, alone=True))
    PAGE.write_text(replaced(PAGE.read_text(), f"{date}, {commit}.\n\n{page.markdown(section.table)}"))


def replaced(text, made):
    """The page with `made` between its marks."""
    begin, end = _MARKS
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    assert found, "docs/growth.md has lost its marks"
    return f"{before}{begin}\n{made}{end}{after}"
