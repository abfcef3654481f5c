# SPDX-License-Identifier: GPL-2.0
"""Which goals count as met, and what is printed of them."""

from . import goals

NAMED = {
    "instructions": goals.Table("instructions", "make goals", [
        goals.Goal("null call", "call", 0.62), goals.Goal("nested call", "deep / flat", 1.0)]),
    "locked": goals.Table("locked operations", "make bench", [goals.Goal("null call", "call", 44, short=True)]),
}
REACHED = {"instructions": {"call": 0.62, "deep": 0.7, "flat": 0.7}, "locked": {"call": 44.3}}


def changed(table, **figures):
    return REACHED | {table: REACHED[table] | figures}


def verdicts(figures):
    return [goal.verdict for table in goals.filled(NAMED, figures) for goal in table.goals]


def status(figures):
    return goals.status(goals.filled(NAMED, figures))


def test_all_are_met():
    assert verdicts(REACHED) == ["met"] * 3
    assert status(REACHED) == 0


def test_one_that_is_missed_fails_and_shows_by_how_much():
    assert verdicts(changed("instructions", call=0.651)) == ["not met, +5.0 %", "met", "met"]
    assert status(changed("instructions", call=0.6201)) == 1


def test_a_quotient_is_of_two_figures():
    assert verdicts(changed("instructions", deep=0.77))[1] == "not met, +10.0 %"
    assert verdicts({"instructions": {"call": 0.5, "deep": 0.7}})[1] == "not measured"


def test_what_is_counted_is_rounded_to_whole_things():
    assert verdicts(changed("locked", call=44.6))[2] == "not met, +1.4 %"


def test_one_that_is_not_measured_fails():
    for figures in ({}, {"instructions": REACHED["instructions"]}, {"locked": REACHED["locked"]}):
        assert "not measured" in verdicts(figures)
        assert status(figures) == 1


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
