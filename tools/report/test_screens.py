# SPDX-License-Identifier: GPL-2.0
"""Whether a picture shows what was on the screen."""

import json
import unittest
import xml.etree.ElementTree as tree

from . import screens

_SVG = "{http://www.w3.org/2000/svg}"


def _piece(text, foreground=None, background=None, bold=False, inverse=False):
    return {"text": text, "foreground": foreground, "background": background, "bold": bold, "inverse": inverse}


def _drawn(*lines):
    picture = json.dumps({"columns": 10, "rows": len(lines), "lines": lines})
    return tree.fromstring(screens.svg(picture, "a <title>"))


class Pictures(unittest.TestCase):
    def test_text_stands_where_it_stood(self):
        svg = _drawn([_piece("ab  "), _piece("<c>", bold=True)], [_piece("d")])
        texts = list(svg.iter(f"{_SVG}text"))
        self.assertEqual([text.text for text in texts], ["ab", "<c>", "d"])
        self.assertEqual([text.get("font-weight") for text in texts], [None, "bold", None])
        self.assertLess(float(texts[0].get("x")), float(texts[1].get("x")))
        self.assertLess(float(texts[0].get("y")), float(texts[2].get("y")))

    def test_colours_are_in_the_picture_itself(self):
        svg = _drawn([_piece("a", foreground=1, background=2), _piece("b", inverse=True)])
        paper, *behind = [rect.get("fill") for rect in svg.iter(f"{_SVG}rect")]
        inks = [text.get("fill") for text in svg.iter(f"{_SVG}text")]
        self.assertEqual(behind, ["#7bc275", "#d7dae0"])
        self.assertEqual(inks, ["#e06c75", paper])

    def test_empty_lines_at_the_end_are_left_out(self):
        full, short = _drawn([_piece("a")], [_piece(" ")]), _drawn([_piece("a")])
        self.assertEqual(full.get("height"), short.get("height"))


if __name__ == "__main__":
    unittest.main()
