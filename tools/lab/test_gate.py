# SPDX-License-Identifier: GPL-2.0
"""What the gate lets pass and what not.

    PYTHONPATH=tools python3 -m unittest lab.test_gate
"""

import collections
import datetime
import tomllib
import unittest

from . import bench_lines, gate, gate_figures, goals, say

Cell = collections.namedtuple("Cell", "name")


class Judge(unittest.TestCase):
    def failures(self, recorded, measured, kind=gate_figures.INSTRUCTIONS):
        return gate.judge(kind, recorded, measured)[1]

    def test_a_hundredth_more_passes_and_what_is_beyond_fails(self):
        self.assertEqual(self.failures({"call": 0.7}, {"call": 0.7069}), [])
        self.assertEqual(len(self.failures({"call": 0.7}, {"call": 0.7071})), 1)
        self.assertEqual(self.failures({"call": 0.7, "other": 1.2}, {"call": 0.5, "other": 1.2}), [])

    def test_more_passes_where_nodes_are_found_among_many(self):
        alone, many = "handles size=0 reply=24 refs=0", "handles size=0 reply=24 refs=1000"
        self.assertEqual(len(self.failures({alone: 0.7, many: 0.7}, {alone: 0.72, many: 0.72})), 1)
        self.assertEqual(self.failures({many: 0.7}, {many: 0.7279}), [])
        self.assertEqual(len(self.failures({many: 0.7}, {many: 0.7281})), 1)

    def test_a_failure_names_the_operation_and_both_figures_and_what_to_do(self):
        (failure,) = self.failures({"call": 0.7, "fine": 1.0}, {"call": 0.8, "fine": 1.0})
        for word in ("call", "0.8000", "0.7000", "make profile", "make bench-gate UPDATE="):
            self.assertIn(word, failure)

    def test_one_locked_operation_more_fails_and_a_part_of_one_passes(self):
        locked = gate_figures.LOCKED
        self.assertEqual(self.failures({"call": 42.08}, {"call": 42.3}, locked), [])
        (failure,) = self.failures({"call": 42.08}, {"call": 43.08}, locked)
        for word in ("call", "43.08", "42.08", "locked", "make bench-gate UPDATE="):
            self.assertIn(word, failure)

    def test_one_allocation_more_fails_and_what_pages_make_of_bytes_passes(self):
        memory = gate_figures.MEMORY
        was = {"process": 1.006, "node": 1.028, "death request": 2.05, "thread": 0.63, "process, 1 MiB mapped": 1.042}
        self.assertEqual(self.failures(was, was | {"process": 1.03, "node": 1.1}, memory), [])
        # C's bytes, of which 32 more are these shares, and 64 of a mapped process.
        of_c = {"process": 1028, "node": 124, "death request": 32, "thread": 517, "process, 1 MiB mapped": 3218 / 2}
        worse = {row: ratio + 32 / of_c[row] for row, ratio in was.items()}
        failures = self.failures(was, worse, memory)
        self.assertEqual(len(failures), len(was))
        for word in ("death request", "2.0500", "3.0500", "memory.md", "make bench-gate UPDATE="):
            self.assertIn(word, failures[0])

    def test_one_line_that_moves_more_fails_and_one_that_is_shared(self):
        lines = gate_figures.LINES
        was = {"pair on two CPUs: lines": 94.1 / 176, "independent pairs: shared lines": 0.0}
        self.assertEqual(self.failures(was, was | {"pair on two CPUs: lines": 94.2 / 176}, lines), [])
        worse = {"pair on two CPUs: lines": 95.1 / 176, "independent pairs: shared lines": 1}
        self.assertEqual(len(self.failures(was, worse, lines)), 2)

    def test_what_is_not_recorded_or_not_measured_fails(self):
        for kind in gate_figures.KINDS[gate.GUEST]:
            for row in ("throughput size=0 reply=0", "call"):
                self.assertIn("not recorded", self.failures({}, {row: 0.5}, kind)[0])
                (failure,) = self.failures({row: 0.5}, {}, kind)
                self.assertIn("not measured", failure)
                self.assertIn(f"{row}: {kind.what}", failure)

    def test_gains_are_pointed_out(self):
        for kind in gate_figures.KINDS[gate.GUEST]:
            rows, failures = gate.judge(kind, {"call": 44.0}, {"call": 30.0})
            self.assertFalse(failures)
            self.assertIn("better", rows[-1])


class Record(unittest.TestCase):
    def recorded(self, measured, changes=(), **old):
        """What is read of what an update of `old` with `measured` writes."""
        empty = {kind.table: {} for kind in gate_figures.KINDS[gate.GUEST]}
        text = gate.write(*gate.updated({**empty, **old, "changes": list(changes)}, {**empty, **measured}, "a  check\nof “names”"))
        return tomllib.loads(text)

    def test_what_is_written_can_be_read(self):
        found = self.recorded({"ratios": {"a": 0.6, "b \"x\"": 0.7}, "locked": {"a": 44.0}}, ratios={"a": 0.5, "gone": 1.0},
                              locked={"a": 42.0})
        self.assertEqual(found["ratios"], {"a": 0.6, "b \"x\"": 0.7})
        self.assertEqual(found["locked"], {"a": 44.0})
        self.assertEqual(found["change"][0]["why"], "a check of “names”")
        self.assertEqual(found["change"][0]["moved"], ["a 0.5000 -> 0.6000", "b \"x\" 0.7000, new", "gone gone",
                                                       "locked: a 42.00 -> 44.00"])

    def test_what_only_scatters_keeps_its_record(self):
        many = "handles size=0 reply=24 refs=1000"
        found = self.recorded({"ratios": {many: 0.69, "call": 0.703}, "memory": {"node": 1.05, "call": 0.8}},
                              ratios={many: 0.7033, "call": 0.7}, memory={"node": 1.028, "call": 0.91})
        self.assertEqual(found["ratios"], {many: 0.7033, "call": 0.703})
        self.assertEqual(found["memory"], {"node": 1.028, "call": 0.8})

    def test_earlier_changes_stay(self):
        earlier = {"date": datetime.date(2026, 11, 21), "why": "the first", "moved": []}
        self.assertEqual(self.recorded({}, [earlier])["change"][1:], [earlier])

    def test_a_reason_is_demanded(self):
        for reason in ("", "1", "yes please"):
            with self.assertRaises(say.LabError):
                gate.run(reason)

    def test_each_goal_that_is_counted_in_minutes_is_held(self):
        recorded, tables = gate.read(), goals.read()
        for table, named in (("ratios", "instructions"), ("locked", "locked"), ("memory", "memory")):
            for goal in tables[named].goals:
                self.assertIsNotNone(goals.figure(recorded[table], goal.key), goal.key)
        self.assertEqual(recorded["lines"].keys(), set(bench_lines.HELD))


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
