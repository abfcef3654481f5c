# SPDX-License-Identifier: GPL-2.0
"""`make goals`: the goals of our driver next to the C driver (tools/binder-bench/limits.toml), and its figures.

Exact counts and memory are measured unless they exist for this very driver. Figures that take long or need a quiet machine are not
measured: the last ones count if they are of this driver, kernel and machine; otherwise the row is marked.
"""

import dataclasses
import statistics
import tomllib

from . import bench, code, gate, growth, moves, paired, reports
from report import charts, page


@dataclasses.dataclass(frozen=True)
class Goal:
    """A row: its title, the name of its figure, the figure's limit, and the current figure, if measured. A goal that is a whole number is
    one of things that are counted."""

    row: str
    key: str
    most: float
    figure: float | None = None

    @property
    def verdict(self):
        if self.figure is None:
            return "not measured"
        if (round(self.figure) if isinstance(self.most, int) else self.figure) <= self.most:
            return "met"
        return f"not met, {(self.figure / self.most - 1) * 100:+.1f} %" if self.most else "not met"

    @property
    def cells(self):
        """The row, with both figures in the form of the goal."""
        shown = lambda figure: "–" if figure is None else charts.number(round(figure)) if isinstance(self.most, int) else f"{figure:.3f}"
        return self.row, shown(self.most), shown(self.figure), self.verdict


@dataclasses.dataclass(frozen=True)
class Table:
    """Goals of one kind, and the command that measures them."""

    title: str
    command: str
    goals: list


def run(into_docs=False, again=False):
    """Measure, print each row, and the number of goals that are met; returns the exit status. `into_docs`: write reports/goals.tsv, too."""
    tables = filled(read(), measure(again))
    print("\n" + "\n".join(lines(tables)))
    if into_docs:
        reports.put("goals", "Goals", bench.about(bench.COUNTED), table(tables))
    return status(tables)


def read():
    """The tables of goals, by name."""
    content = tomllib.loads(gate.LIMITS.read_text())["goals"]
    return {name: Table(table["title"], table["command"], [Goal(key=key, **goal) for key, goal in table["goals"].items()])
            for name, table in content.items()}


def filled(tables, figures):
    """The tables with what was measured, {table: {name of a figure: figure}}."""
    return [dataclasses.replace(table, goals=[
        dataclasses.replace(goal, figure=figure(figures.get(name, {}), goal.key)) for goal in table.goals])
        for name, table in tables.items()]


def figure(found, key):
    """The figure of this name, or of two names, one divided by the other."""
    figures = [found.get(name) for name in key.split(" / ")]
    return None if None in figures else figures[0] / figures[1] if len(figures) > 1 else figures[0]


def _verdicts(tables):
    return [goal.verdict for table in tables for goal in table.goals]


def status(tables):
    """The exit status: 1 while a goal is not met or not measured."""
    return int({*_verdicts(tables)} != {"met"})


def summary(tables):
    """The number of goals that are met."""
    verdicts = _verdicts(tables)
    met, unknown = verdicts.count("met"), verdicts.count("not measured")
    return f"{met} of {len(verdicts)} goals are met; not met: {len(verdicts) - met - unknown}; not measured: {unknown}"


def lines(tables):
    """The lines to print."""
    shown = [f"  {'':<56}{'at most':>10}{'now':>10}"]
    for table in tables:
        shown += ["", f"  {table.title}   ({table.command})"]
        shown += ["    {:<54}{:>10}{:>10}  {}".format(*goal.cells) for goal in table.goals]
    return [*shown, "", f"  {summary(tables)}"]


def table(tables):
    """A row for each goal."""
    return page.Table(("figure", "command", "goal", "at most", "now", "verdict"), [
        [kind.title, kind.command, *goal.cells] for kind in tables for goal in kind.goals], (0, 1, 2, 5))


def measure(again=False):
    """All figures, {table: {name: figure}}."""
    found, wrong = gate.compared(again), growth.faults_kept()
    counted = gate.figures(found["rust"], found["c"])
    return {"instructions": counted["ratios"], "upstream": gate.figures(found["rust"], found["upstream"])["ratios"],
            "locked": counted["locked"], "memory": counted["memory"], "time": times(paired.found_before()),
            "lines": moves.figures(moves.measure(again)), "code": code.measure(again)["rust"]["null call"], "growth": {} if wrong is None else {"faults": len(wrong)}}


def times(found):
    """Ratios of time by other driver, placement and bytes: the middle one of the boots' medians."""
    return {", ".join(map(str, key)): statistics.median(row["median"]["point"] for row in rows) for key, rows in found.items()}
