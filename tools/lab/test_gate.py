# SPDX-License-Identifier: GPL-2.0
"""What the gate lets pass and what not.

    PYTHONPATH=tools python3 -m unittest lab.test_gate
"""

import collections
import tomllib
import unittest

from . import gate, say

Cell = collections.namedtuple("Cell", "name")


class Judge(unittest.TestCase):
    def failures(self, recorded, measured):
        return gate.judge(recorded, measured)[1]

    def test_a_hundredth_more_passes_and_what_is_beyond_fails(self):
        self.assertEqual(self.failures({"call": 0.7}, {"call": 0.7069}), [])
        self.assertEqual(len(self.failures({"call": 0.7}, {"call": 0.7071})), 1)
        self.assertEqual(self.failures({"call": 0.7, "other": 1.2}, {"call": 0.5, "other": 1.2}), [])

    def test_three_hundredths_more_pass_where_nodes_are_found_among_many(self):
        alone, many = "handles size=0 reply=24 refs=0", "handles size=0 reply=24 refs=1000"
        self.assertEqual(len(self.failures({alone: 0.7, many: 0.7}, {alone: 0.72, many: 0.72})), 1)
        self.assertEqual(self.failures({many: 0.7}, {many: 0.7209}), [])
        self.assertEqual(len(self.failures({many: 0.7}, {many: 0.7211})), 1)

    def test_a_failure_names_the_operation_and_both_ratios(self):
        (failure,) = self.failures({"call": 0.7, "fine": 1.0}, {"call": 0.8, "fine": 1.0})
        for word in ("call", "0.8000", "0.7000"):
            self.assertIn(word, failure)

    def test_what_is_not_recorded_or_not_measured_fails(self):
        self.assertIn("not recorded", self.failures({}, {"new": 0.5})[0])
        self.assertIn("not measured", self.failures({"gone": 0.5}, {})[0])

    def test_gains_are_pointed_out(self):
        rows, failures = gate.judge({"call": 0.7}, {"call": 0.65})
        self.assertFalse(failures)
        self.assertIn("cheaper", rows[-1])


class Record(unittest.TestCase):
    def test_what_is_written_can_be_read(self):
        change = gate._change({"a": 0.5, "gone": 1.0}, {"a": 0.6, "b \"x\"": 0.7}, "a  check\nof “names”")
        found = tomllib.loads(gate.write({"a": 0.6, "b \"x\"": 0.7}, [change]))
        self.assertEqual(found["ratios"], {"a": 0.6, "b \"x\"": 0.7})
        self.assertEqual(found["change"][0]["why"], "a check of “names”")
        self.assertEqual(found["change"][0]["moved"], ["a 0.5000 -> 0.6000", "b \"x\" 0.7000, new", "gone gone"])

    def test_a_reason_is_demanded(self):
        for reason in ("", "1", "yes please"):
            with self.assertRaises(say.LabError):
                gate.run(reason)


class Exact(unittest.TestCase):
    def test_runs_that_lie_apart_fail(self):
        row = lambda least, most: {"least": least, "most": most}
        counts = {(Cell("call"), "c"): row(10_000.0, 10_009.0), (Cell("call"), "rust"): row(10_000.0, 10_011.0)}
        rows, failures = gate.judge_exact(counts, "rust", 3)
        self.assertEqual(len(rows), 2)
        self.assertEqual(len(failures), 1)
        self.assertIn("rust", failures[0])


if __name__ == "__main__":
    unittest.main()
