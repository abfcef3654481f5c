# SPDX-License-Identifier: GPL-2.0
"""Places of documents for what commands write.

    PYTHONPATH=tools python3 -m unittest lab.test_marked
"""

import pathlib
import re
import tempfile
import unittest

from . import marked, say
from .versions import ROOT

TEXT = "a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n<!-- begin: x y -->\n<!-- end: x y -->\n"


class Places(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.document = pathlib.Path(folder.name, "a.md")
        self.document.write_text(TEXT)

    def test_what_is_there_is_replaced_and_nothing_else(self):
        marked.put(self.document, "x", r"new \1" + "\n")
        self.assertEqual(self.document.read_text(), TEXT.replace("old", r"new \1"))

    def test_an_empty_place_is_filled(self):
        marked.put(self.document, "x y", "new\n")
        self.assertIn("<!-- begin: x y -->\nnew\n<!-- end: x y -->\n", self.document.read_text())

    def test_a_place_that_is_lost_is_told_and_nothing_written(self):
        for name in ("y", "x.y"):
            with self.assertRaisesRegex(say.LabError, f"a.md has no place for `{name}`"):
                marked.put(self.document, name, "new\n")
            with self.assertRaises(say.LabError):
                marked.must_have(self.document, name)
        self.assertEqual(self.document.read_text(), TEXT)

    def test_a_place_that_is_there_twice_is_told(self):
        self.document.write_text(TEXT + TEXT)
        with self.assertRaisesRegex(say.LabError, "2 places for `x`"):
            marked.put(self.document, "x", "new\n")

    def test_to_look_for_a_place_changes_nothing(self):
        marked.must_have(self.document, "x")
        self.assertEqual(self.document.read_text(), TEXT)


class Documents(unittest.TestCase):
    def test_each_place_has_a_beginning_and_an_end_and_is_there_once(self):
        for document in sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")]):
            found = re.findall(r"<!-- (begin|end): (.*) -->", document.read_text())
            names = [name for mark, name in found if mark == "begin"]
            with self.subTest(document.name):
                self.assertEqual(found, [(mark, name) for name in names for mark in ("begin", "end")])
                self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
