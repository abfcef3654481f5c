# SPDX-License-Identifier: GPL-2.0
"""Figures as they look where no browser shows them: drawn by a program that knows neither variables nor style sheets for dark
pages.

    PYTHONPATH=tools python3 -m unittest report.test_figures
"""

import collections
import io
import pathlib
import tempfile
import unittest
import unittest.mock

import cairosvg
from PIL import Image

from lab import goals
from lab.versions import ROOT
from . import figures, front, screens

FOLDER = ROOT / "docs/figures"
# Behind a flame graph, and behind a terminal.
PAPERS = {figures.PALETTE["paper"][0], screens.PAPER}


def drawn(text, width=400):
    """{colour: how many pixels}, what is transparent being black."""
    picture = Image.open(io.BytesIO(cairosvg.svg2png(text.encode(), output_width=width))).convert("RGBA")
    black = Image.new("RGBA", picture.size, "black")
    pixels = Image.alpha_composite(black, picture).convert("RGB").getdata()
    return collections.Counter("#%02x%02x%02x" % pixel for pixel in pixels)


class Drawn(unittest.TestCase):
    def test_all_that_is_in_the_docs_is_mostly_paper(self):
        paths = sorted(FOLDER.glob("*.svg"))
        self.assertTrue(paths)
        for path in paths:
            with self.subTest(path.name):
                ((commonest, _),) = drawn(path.read_text()).most_common(1)
                self.assertIn(commonest, PAPERS)

    def test_each_colour_of_a_figure_is_seen(self):
        bars = figures.bars([(who, [(who, 1)]) for who in figures.NAMES], "x")
        found = drawn(figures.svg([figures.Panel("a panel", bars)], alone=True))
        for role in ("paper", *figures.NAMES):
            self.assertIn(figures.PALETTE[role][0], found)

    def test_a_colour_that_is_a_variable_would_be_black(self):
        """So the tests above would see one."""
        text = figures.svg([figures.Panel("a panel", figures.bars([("c", [("c", 1)])], "x"))], alone=True)
        paper = figures.PALETTE["paper"][0]
        broken = text.replace(f' fill="{paper}"/>', ' style="fill: var(--paper)"/>')
        self.assertNotEqual(broken, text)
        self.assertEqual(drawn(broken).most_common(1)[0][0], "#000000")


class Sources(unittest.TestCase):
    def test_no_colour_is_known_by_a_style_sheet_alone(self):
        for path in sorted(FOLDER.glob("*.svg")):
            self.assertNotRegex(path.read_text(), r"(fill|stroke|stop-color)[:=] *\"?var\(", path.name)


class FirstPage(unittest.TestCase):
    def drawn(self, draw, what):
        """The file that is drawn of something."""
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(front, "_FOLDER", pathlib.Path(folder)):
            draw(what)
            (path,) = pathlib.Path(folder).iterdir()
            return path.read_text()

    def test_a_goal_that_was_measured_is_a_row(self):
        text = self.drawn(front.instructions, [goals.Goal("null call", "a", 0.6, figure=0.7), goals.Goal("not known", "b", 0.6),
                                               goals.Goal("quotient", "a / b", 0.6, figure=1.0)])
        self.assertIn("null call", text)
        for row in ("not known", "quotient"):
            self.assertNotIn(row, text)

    def test_time_has_a_row_for_each_place_and_size(self):
        text = self.drawn(front.time, {("one CPU", 0): [(0.8, 0.7, 0.9)], ("free", 4096): [(1.0, 0.9, 1.1)], ("free", 0): []})
        for row in ("one CPU, 0 bytes", "two CPUs, 4096 bytes"):
            self.assertIn(row, text)
        self.assertNotIn("two CPUs, 0 bytes", text)

    def test_lines_that_do_not_move_with_ours_are_a_row_and_without_a_figure_of_c_there_is_none(self):
        text = self.drawn(front.lines, {"null call": (176.0, 94.0), "8 pairs": (45.3, 0.0), "one process": (0.2, 0.1)})
        for row in ("null call", "8 pairs", ">0.0<", ">1.0<"):
            self.assertIn(row, text)
        self.assertNotIn("one process", text)

    def test_nothing_that_was_measured_is_left_of_the_axis(self):
        seen = {}
        with unittest.mock.patch.object(figures, "dots", lambda rows, drivers, xlabel, extent: seen.update(rows=rows, extent=extent)), \
                unittest.mock.patch.object(front, "_write"):
            front.lines({"none": (40.0, 0.0), "more": (10.0, 25.0)})
        self.assertEqual([ratios["rust"][0] for _, ratios in seen["rows"]], [0.0, 2.5])
        least, most = seen["extent"]
        self.assertLess(least, 0.0)
        self.assertGreater(most, 2.5)


if __name__ == "__main__":
    unittest.main()
