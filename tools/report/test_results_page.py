# SPDX-License-Identifier: GPL-2.0
"""That the report's tables get into the document, and where."""

import pathlib
import tempfile
import unittest
from unittest import mock

from lab import marked, say
from report import results_page

FACTS = {"count": {"began": "2026-11-25 09:12", "commit": "abc1234 and changes", "loads": [9.0], "rounds": 1},
         "time": {"began": "2026-11-24 09:12", "commit": "abc1234", "loads": [2.04, 1.0], "rounds": 3}}


class Document(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.report = pathlib.Path(folder.name)
        self.document = self.report / "performance.md"
        self.document.write_text("".join(f"<!-- begin: {name} -->\nold {name}\n<!-- end: {name} -->\n" for name in results_page.TABLES))
        self.enterContext(mock.patch.object(results_page, "DOCUMENT", self.document))

    def test_tables_that_there_are_take_the_places_of_the_last_ones(self):
        (self.report / "instructions.md").write_text("| a \\1 |\n")
        (self.report / "time.md").write_text("| b |\n\n")
        (self.report / "breakdown.md").write_text("| of a stage that nobody measured |\n")
        results_page.write(self.report, FACTS)
        text = self.document.read_text()
        self.assertIn("<!-- begin: instructions -->\n2026-11-25, our driver of `abc1234 and changes`.\n\n| a \\1 |\n<!-- end: instructions -->", text)
        self.assertIn("2026-11-24, our driver of `abc1234`, 3 boots of each driver, load 1.0 to 2.0.\n\n| b |\n<!-- end: time -->", text)
        for name in ("breakdown", "rfc"):
            self.assertIn(f"old {name}\n", text)

    def test_marks_that_are_lost_are_told(self):
        self.document.write_text("nothing")
        (self.report / "time.md").write_text("| b |\n")
        with self.assertRaisesRegex(say.LabError, "no place for `time`"):
            results_page.write(self.report, FACTS)

    def test_the_real_document_has_the_marks(self):
        for name in results_page.TABLES:
            marked.must_have(results_page.DOCUMENT, name)


if __name__ == "__main__":
    unittest.main()
