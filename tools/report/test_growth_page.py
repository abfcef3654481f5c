# SPDX-License-Identifier: GPL-2.0
"""Curves of costs over numbers, and what docs/growth.md is given, from made-up results.

    PYTHONPATH=tools python3 -m unittest report.test_growth_page
"""

import pathlib
import tempfile
import unittest
import unittest.mock

from . import data, figures, growth_curves, growth_page, sections

NUMBERS = (1, 64, 256, 1024, 4096)
FIXED, EACH = "threads idle: call", "handles: take"


def row(cost, exponent=1.0, operations=None, numbers=NUMBERS):
    return {"each": [[count, cost(count)] for count in numbers], "exponent": exponent, "operations": operations, "ratio": None, "faults": []}


def made_up(*cases):
    """Results in which C becomes dearer, and ours stays what it is."""
    found = {}
    for case in cases:
        operations = 8 if case == FIXED else None
        for who, power, exponent in (("c", 0.5, 1.5), ("rust", 0.0, 1.0)):
            found[data.Cell("growth", case), who] = row(lambda n, power=power: 1000.0 * n ** power, exponent - bool(operations), operations)
    return data.Results([], [{"driver": "c"}, {"driver": "rust"}], {}, {}, {}, found, [])


class Curves(unittest.TestCase):
    def test_the_point_of_one_is_left_out_where_it_has_what_is_paid_once(self):
        self.assertEqual([count for count, _ in growth_curves.points(row(float))], [64, 256, 1024, 4096])
        self.assertEqual([count for count, _ in growth_curves.points(row(float, operations=8))], list(NUMBERS))

    def test_what_costs_nothing_is_no_point_and_one_point_is_no_curve(self):
        self.assertEqual(growth_curves.points(row(lambda n: 256.0 - n)), [])
        self.assertEqual(len(growth_curves.points(row(lambda n: 1024.0 - n))), 2)

    def test_a_slope_is_that_of_one_operation(self):
        self.assertEqual(growth_curves.slope(row(float, 1.18)), 0.18)
        self.assertEqual(growth_curves.slope(row(float, 1.18, operations=8)), 1.18)
        self.assertEqual(str(growth_curves.slope(row(float, 0.999))), "0.0")
        self.assertIsNone(growth_curves.slope(row(float, None)))

    def test_each_phase_that_is_drawn_is_one_of_the_table(self):
        table = growth_page.PAGE.read_text()
        for case in growth_curves.SHOWN:
            self.assertIn(f"\n| {case} | ", table)
        self.assertEqual(len(set(growth_curves.SHOWN)), len(growth_curves.SHOWN))

    def test_a_panel_has_its_words_and_the_slopes_of_all(self):
        (figure,) = sections.growth_of(made_up(FIXED, EACH, "handles: not shown")).figures
        text = figures.svg(figure.panels, alone=True, drivers=("c", "rust"), columns=figure.columns)
        for word in ("threads idle", "handles", ">call<", ">take<", "how many", "4 096"):
            self.assertIn(word, text)
        self.assertEqual((text.count(">N^0.50<"), text.count(">N^0.00<")), (2, 2))
        self.assertNotIn("not shown", text)

    def test_both_drivers_are_in_a_panel(self):
        (figure,) = sections.growth_of(made_up(EACH)).figures
        text = figures.svg(figure.panels, alone=True, drivers=(), columns=figure.columns)
        for who in ("c", "rust"):
            self.assertIn(f'stroke="{figures.PALETTE[who][0]}"', text)
        self.assertNotIn(f'stroke="{figures.PALETTE["upstream"][0]}"', text.split("</style>", 1)[1])

    def test_without_enough_numbers_there_is_no_figure(self):
        self.assertIsNone(growth_curves.figure({EACH: {"c": row(float, None, numbers=(1, 64))}}))
        self.assertIsNone(growth_curves.figure({}))

    def test_so_many_panels_are_in_a_row(self):
        panels = [growth_curves.panel(EACH, {"c": row(float)})] * 5
        wide = {columns: figures._drawn(panels, (), columns).get_size_inches() for columns in (2, 4)}
        self.assertEqual([wide[4][0] / wide[2][0], wide[4][1] / wide[2][1]], [2, 2 / 3])


class Document(unittest.TestCase):
    def test_figures_and_table_are_written_and_named(self):
        begin, end = "<!-- begin: growth -->", "<!-- end: growth -->"
        with tempfile.TemporaryDirectory() as name, unittest.mock.patch.object(data, "load", return_value=made_up(EACH)):
            folder = pathlib.Path(name)
            (folder / "growth.md").write_text(f"before\n{begin}\nold\n{end}\nafter\n")
            with unittest.mock.patch.multiple(growth_page, PAGE=folder / "growth.md", FIGURES=folder):
                growth_page.write(None, [], "2026-01-01", "abc")
            text = (folder / "growth.md").read_text()
            self.assertIn("<svg", (folder / "growth-curves.svg").read_text())
        self.assertTrue(text.startswith(f"before\n{begin}\n2026-01-01, our driver of `abc`.\n\n!["))
        for part in ("](figures/growth-curves.svg)\n\nInstructions of one operation", f"| {EACH} | 64 000 | 1.50 |", f"{end}\nafter\n"):
            self.assertIn(part, text)
        self.assertNotIn("old", text)


if __name__ == "__main__":
    unittest.main()
