# SPDX-License-Identifier: GPL-2.0
"""Which goals count as met, what is printed of them, and what is made of some boots with two drivers in each."""

import pytest

from . import goals, paired

NAMED = {
    "instructions": goals.Table("instructions", "make goals", [
        goals.Goal("null call", "call", 0.62), goals.Goal("nested call", "deep / flat", 1.0)]),
    "locked": goals.Table("locked operations", "make bench", [goals.Goal("null call", "call", 44, short=True)]),
}
REACHED = {"instructions": {"call": 0.62, "deep": 0.7, "flat": 0.7}, "locked": {"call": 44.3}}


def changed(table, **figures):
    return REACHED | {table: REACHED[table] | figures}


@pytest.mark.parametrize("figures, verdicts", [
    (REACHED, ["met"] * 3),
    (changed("instructions", call=0.651), ["not met, +5.0 %", "met", "met"]),
    (changed("instructions", call=0.6201), ["not met, +0.0 %", "met", "met"]),
    # A quotient is of two figures.
    (changed("instructions", deep=0.77), ["met", "not met, +10.0 %", "met"]),
    ({"instructions": {"call": 0.5, "deep": 0.7}}, ["met", "not measured", "not measured"]),
    # What is counted is rounded to whole things.
    (changed("locked", call=44.6), ["met", "met", "not met, +1.4 %"]),
    ({}, ["not measured"] * 3),
])
def test_verdicts_and_the_exit_status(figures, verdicts):
    tables = goals.filled(NAMED, figures)
    assert [goal.verdict for table in tables for goal in table.goals] == verdicts
    assert goals.status(tables) == (verdicts != ["met"] * 3)


def test_goal_figure_and_verdict_are_in_one_line():
    lines = goals.lines(goals.filled(NAMED, changed("instructions", call=0.651)))
    (line,) = [line for line in lines if "0.620" in line]
    assert line.split() == ["null", "call", "0.620", "0.651", "not", "met,", "+5.0", "%"]
    assert lines[-1].strip() == "2 of 3 goals are met; not met: 1; not measured: 0"


def test_docs_have_all_rows_and_the_short_ones_before():
    text = "<!-- begin: goals in short -->\nold\n<!-- end: goals in short -->\nx\n<!-- begin: goals -->\nold\n<!-- end: goals -->\n"
    made = goals.documented(text, goals.filled(NAMED, changed("instructions", call=0.651)), "today")
    short, _, rest = made.partition("\nx\n")
    assert "old" not in made
    assert [line for line in short.splitlines() if line.startswith("| n")] == ["| null call | 44 | 44 | met |"]
    assert sum(line.startswith("| n") for line in rest.splitlines()) == 3


def test_the_middle_of_boots_and_the_widest_interval():
    boots = [{"median": {"point": point, "low": point - half, "high": point + half}}
             for point, half in ((0.8, 0.01), (0.9, 0.03), (0.85, 0.02))]
    figures = goals.times({("free", 0): boots})
    assert figures.pop("um-plain, free, 0, median") == 0.85
    assert abs(figures.pop("um-plain, free, 0, half an interval") - 0.03) < 1e-9
    assert goals.times({}) == figures == {}


def boot(base, other, ratio, width):
    return {"median_us": [base, other], "median": {"point": ratio, "low": ratio - width, "high": ratio + width}, "average": {"point": ratio + 0.1}}


FOUND = {("one CPU", 4096): [boot(10.0, 8.0, 0.8, 0.01), boot(30.0, 21.0, 0.7, 0.02), boot(20.0, 18.0, 0.9, 0.01)]}


def test_the_middle_of_boots_and_their_ends():
    assert paired.table(FOUND).splitlines()[2] == "| one CPU | 4096 | 20.0 | 18.0 | **0.800** | 0.700 to 0.900, ± 0.020 | 0.900 |"


def test_the_chart_has_each_scene():
    assert "one CPU, 4096 bytes" in paired.chart(FOUND)
