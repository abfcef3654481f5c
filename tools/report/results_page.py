# SPDX-License-Identifier: GPL-2.0
"""What docs/performance.md has of the results of `make bench FULL=1`: the report's tables between marks, each with when it was
measured and of what."""

from lab import marked
from lab.versions import ROOT

DOCUMENT = ROOT / "docs/performance.md"
# The report's table, by its name, and the stage that it is of.
TABLES = {"instructions": "count", "breakdown": "profile", "time": "time", "rfc": "time"}


def write(report, facts):
    """Put those that the report in folder `report` has in place of the last ones; `facts` are those of the stages."""
    text = DOCUMENT.read_text()
    for name, stage in TABLES.items():
        table = report / f"{name}.md"
        if table.exists() and stage in facts:
            text = marked.replaced(text, name, f"{when(facts[stage])}.\n\n{table.read_text().strip()}\n", DOCUMENT.name)
    DOCUMENT.write_text(text)


def when(stage):
    """When a stage was measured, and of what."""
    words = f"{stage['began'][:10]}, our driver of `{stage['commit']}`"
    if stage["rounds"] > 1:
        words += f", {stage['rounds']} boots of each driver, load {min(stage['loads']):.1f} to {max(stage['loads']):.1f}"
    return words
