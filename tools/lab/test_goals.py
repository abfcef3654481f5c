# SPDX-License-Identifier: GPL-2.0
"""Which goals count as met, and what is said of them.

    PYTHONPATH=tools python3 -m unittest lab.test_goals
"""

import unittest

from . import bench_summary, gate, goals

NAMED = {
    "instructions": goals.Table("instructions", "make bench-gate", [
        goals.Goal("null call", "call", 0.62), goals.Goal("nested call", "deep / flat", 1.0)]),
    "locked": goals.Table("locked operations", "make bench", [goals.Goal("null call", "call", 44, short=True)]),
}
REACHED = {"instructions": {"call": 0.62, "deep": 0.7, "flat": 0.7}, "locked": {"call": 44.3}}


def changed(table, **figures):
    return REACHED | {table: REACHED[table] | figures}


class Judge(unittest.TestCase):
    def verdicts(self, figures):
        return [goal.verdict for table in goals.filled(NAMED, figures) for goal in table.goals]

    def status(self, figures):
        return goals.status(goals.filled(NAMED, figures))

    def test_all_are_met(self):
        self.assertEqual(self.verdicts(REACHED), ["met"] * 3)
        self.assertEqual(self.status(REACHED), 0)

    def test_one_that_is_missed_says_by_how_much_and_fails(self):
        figures = changed("instructions", call=0.651)
        self.assertEqual(self.verdicts(figures), ["not met, +5.0 %", "met", "met"])
        self.assertEqual(self.status(figures), 1)
        self.assertEqual(self.status(changed("instructions", call=0.6201)), 1)

    def test_a_quotient_is_of_two_figures(self):
        self.assertEqual(self.verdicts(changed("instructions", deep=0.77))[1], "not met, +10.0 %")
        self.assertEqual(self.verdicts({"instructions": {"call": 0.5, "deep": 0.7}})[1], "not measured")

    def test_what_is_counted_is_rounded_to_whole_things(self):
        self.assertEqual(self.verdicts(changed("locked", call=44.6))[2], "not met, +1.4 %")

    def test_one_that_is_not_measured_fails(self):
        for figures in ({}, {"instructions": REACHED["instructions"]}, {"locked": REACHED["locked"]}):
            self.assertIn("not measured", self.verdicts(figures))
            self.assertEqual(self.status(figures), 1)


class Shown(unittest.TestCase):
    def test_goal_figure_and_verdict_are_in_one_line(self):
        lines = goals.lines(goals.filled(NAMED, changed("instructions", call=0.651)))
        (line,) = [line for line in lines if "0.620" in line]
        self.assertEqual(line.split(), ["null", "call", "0.620", "0.651", "not", "met,", "+5.0", "%"])
        self.assertEqual(lines[-1].strip(), "2 of 3 goals are met; not met: 1; not measured: 0")


    def test_docs_have_all_rows_and_the_short_ones_before(self):
        text = "<!-- begin: goals in short -->\nold\n<!-- end: goals in short -->\nx\n<!-- begin: goals -->\nold\n<!-- end: goals -->\n"
        made = goals.documented(text, goals.filled(NAMED, changed("instructions", call=0.651)), "today")
        short, _, rest = made.partition("\nx\n")
        self.assertNotIn("old", made)
        self.assertEqual([line for line in short.splitlines() if line.startswith("| n")], ["| null call | 44 | 44 | met |"])
        self.assertEqual(sum(line.startswith("| n") for line in rest.splitlines()), 3)
        self.assertEqual(made.count("today: 2 of 3 goals are met"), 2)


class Record(unittest.TestCase):
    """goals.toml as it is."""

    def test_it_fits_into_the_columns_of_a_terminal(self):
        worst = {name: {goal.key: 20 * (goal.most or 1) for goal in table.goals} for name, table in goals.read().items()}
        for figures in ({}, worst):
            for line in goals.lines(goals.filled(goals.read(), figures)):
                self.assertLessEqual(len(line), bench_summary.COLUMNS)

    def test_each_goal_of_instructions_is_of_an_operation_that_the_gate_has(self):
        recorded = gate.read()["ratios"]
        for goal in goals.read()["instructions"].goals:
            self.assertIsNotNone(goals.figure(recorded, goal.key), goal.key)


class Times(unittest.TestCase):
    def test_the_middle_of_boots_and_the_widest_interval(self):
        boots = [{"median": {"point": point, "low": point - half, "high": point + half}}
                 for point, half in ((0.8, 0.01), (0.9, 0.03), (0.85, 0.02))]
        figures = goals.times({"um": {("free", 0): boots, ("one CPU", 0): []}, "x86_64": {}})
        self.assertEqual(figures.pop("um, free, 0, median"), 0.85)
        self.assertAlmostEqual(figures.pop("um, free, 0, half an interval"), 0.03)
        self.assertEqual(figures, {})


if __name__ == "__main__":
    unittest.main()
