# SPDX-License-Identifier: GPL-2.0
"""Which tests are in which part of the contract."""

import pathlib
import tempfile
import unittest
from unittest import mock

from . import say, turns


class Turns(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        self.enterContext(mock.patch.object(turns, "BUILD", self.folder))

    def named(self, others, *names):
        program = self.folder / "contract"
        program.write_text("#!/bin/sh\n" + "".join(f"echo '{name} [RULE-1, lesson S1]'\n" for name in names))
        program.chmod(0o755)
        part = turns.Part("some", ("deaths::", "logs::read_"), others, {})
        return turns.named(program, part).read_text().split()

    def test_each_test_is_in_one_part_and_in_its_order(self):
        names = ("sync::deaths::are_named", "deaths::a", "logs::a", "deaths::b", "logs::read_in_pieces")
        self.assertEqual(self.named(True, *names), ["sync::deaths::are_named", "logs::a"])
        self.assertEqual(self.named(False, *names), ["deaths::a", "deaths::b", "logs::read_in_pieces"])

    def test_a_group_that_has_another_name_by_now_is_told(self):
        with self.assertRaisesRegex(say.LabError, "begins with logs::read_"):
            self.named(True, "deaths::a", "logs::a")


if __name__ == "__main__":
    unittest.main()
