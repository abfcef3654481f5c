# SPDX-License-Identifier: GPL-2.0
"""What `make bench` keeps, who waits for whom, and what it prints.

    PYTHONPATH=tools python3 -m unittest lab.test_bench
"""

import contextlib
import dataclasses
import io
import os
import pathlib
import tempfile
import threading
import unittest
from unittest import mock

from . import bench_full, bench_lines, bench_mesh, bench_quick, bench_series, bench_summary, operations, say


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Kept(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # Where its locks are: a measurement of this tree does not wait for this test.
        locks = mock.patch.dict(os.environ, RUST_BINDER_CACHE=folder.name)
        locks.start()
        self.addCleanup(locks.stop)
        self.made, self.clock = [], Clock()

    def step(self, name, inputs="kernel", fails=False, seconds=10, takes=10):
        def make():
            self.clock.now += seconds
            if fails:
                raise say.LabError("no")
            self.made.append(name)
            return name.encode()

        return bench_series.Step(name, self.folder / f"{name}.json", [inputs], make, takes, lambda: {"load": 1.5})

    def run_steps(self, *steps, again=False):
        """How many were made, and what was said."""
        with contextlib.redirect_stdout(io.StringIO()) as said:
            return bench_series.run(steps, again, self.clock), said.getvalue()

    def test_what_was_measured_of_the_same_is_kept(self):
        self.run_steps(self.step("a"), self.step("b"))
        self.assertEqual(self.run_steps(self.step("a"), self.step("b"))[0], 0)
        self.assertEqual(self.made, ["a", "b"])

    def test_of_other_inputs_it_is_measured_again(self):
        self.run_steps(self.step("a", "this kernel"), self.step("b"))
        self.assertEqual(self.run_steps(self.step("a", "another kernel"), self.step("b"))[0], 1)
        self.assertEqual(self.made, ["a", "b", "a"])

    def test_a_second_start_goes_on_where_the_first_stopped(self):
        with self.assertRaises(say.LabError):
            self.run_steps(self.step("a"), self.step("b", fails=True), self.step("c"))
        count, said = self.run_steps(self.step("a"), self.step("b"), self.step("c"))
        self.assertEqual((count, self.made), (2, ["a", "b", "c"]))
        self.assertIn("2 steps", said)
        self.assertIn("1 more are there already", said)

    def test_what_is_asked_for_again_is_measured_again(self):
        self.run_steps(self.step("a"))
        self.assertEqual(self.run_steps(self.step("a"), again=True)[0], 1)

    def test_a_result_without_its_file_or_of_unknown_inputs_is_none(self):
        self.run_steps(self.step("a"), self.step("b"))
        (self.folder / "a.json").unlink()
        (self.folder / ".b.json.about").unlink()
        self.assertEqual(self.run_steps(self.step("a"), self.step("b"))[0], 2)

    def test_a_measurement_that_fails_takes_away_no_result(self):
        self.run_steps(self.step("a"))
        with self.assertRaises(say.LabError):
            self.run_steps(self.step("a", fails=True), again=True)
        self.assertEqual(self.run_steps(self.step("a"))[0], 0)

    def test_two_at_once_do_not_measure_the_same(self):
        begun, go_on = threading.Event(), threading.Event()

        def slow():
            begun.set()
            go_on.wait(10)
            self.made.append("a")
            return b"a"

        step = self.step("a")
        first = threading.Thread(target=lambda: bench_series.run([dataclasses.replace(step, make=slow)]))
        second = threading.Thread(target=lambda: bench_series.run([step]))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            first.start()
            begun.wait(10)
            second.start()
            while "waiting for another session that makes measurements in" not in said.getvalue() and second.is_alive():
                second.join(0.01)
            go_on.set()
            first.join()
            second.join()
        self.assertIn("waiting", said.getvalue())
        self.assertEqual(self.made, ["a"])

    def test_conditions_are_written_down(self):
        self.run_steps(self.step("a"))
        known = bench_series.known(self.folder / "a.json")
        self.assertEqual(known["load"], 1.5)
        self.assertRegex(known["began"], r"\d{4}-\d\d-\d\d \d\d:\d\d")

    def test_the_rest_is_reckoned_by_how_long_it_took_so_far(self):
        pace = bench_series.Pace(self.clock)
        self.assertEqual(pace.rest([self.step("a", takes=60)]), 60)
        pace.took(self.step("a", takes=60), 180)
        self.assertEqual(pace.rest([self.step("b", takes=60)]), 120)

    def test_progress_of_the_whole_is_said(self):
        _, said = self.run_steps(self.step("a", seconds=100, takes=60), self.step("b", takes=60))
        self.assertIn("2 steps, about 2 min", said)
        self.assertIn("step 1 of 2: a (0 s since the start, about 2 min left)", said)
        self.assertIn("step 2 of 2: b (2 min since the start, about 80 s left)", said)


class SideBySide(unittest.TestCase):
    def run_jobs(self, **jobs):
        with contextlib.redirect_stdout(io.StringIO()):
            return bench_quick.side_by_side(jobs)

    def test_all_give_what_they_have(self):
        self.assertEqual(self.run_jobs(one=lambda: {"a": 1}, two=lambda: {"b": 2}), {"a": 1, "b": 2})

    def test_all_errors_are_told(self):
        def fails(text):
            raise say.LabError(text)

        with self.assertRaisesRegex(say.LabError, "^no (crates\nerror: no packages|packages\nerror: no crates)$"):
            self.run_jobs(one=lambda: fails("no crates"), two=lambda: fails("no packages"))

    def test_the_others_end_before_an_error_is_raised(self):
        done = []

        def fails():
            raise say.LabError("no network")

        with self.assertRaisesRegex(say.LabError, "no network"):
            self.run_jobs(one=fails, two=lambda: done.append(1) or {})
        self.assertEqual(done, [1])

    def test_who_waits_for_what_fails_does_not_wait_for_ever(self):
        work = bench_quick.Work("debian-7.3", bench_quick.Table(), False)

        def fails():
            with bench_quick.handing_over(work._kernel):
                raise say.LabError("a mirror that lacks the suite")

        with self.assertRaisesRegex(say.LabError, "lacks the suite"):
            self.run_jobs(kernel=fails, C=lambda: bench_quick.awaited(work._kernel))


def content(scale):
    cells = [("throughput", "", 0), ("throughput", "", 4096), ("throughput", "", 65536), ("oneway", "", 0),
             ("objects", "transient", 0), ("objects", "held", 0), ("fds", "", 0), ("death", "request and clear", 0),
             ("death", "nodes die", 0)]
    fields = [{"workload": workload, "case": case, "size": size, "reply": 0, "pairs": 1, "parameters": {}}
              for workload, case, size in cells]
    measured = {"measured": {"count": {"instructions": 1234567.0 * scale}}}
    return {"result": {"cells": [one | measured for one in fields]}, "locked": [[one, 123456.0 * scale] for one in fields],
            "profile": {"classes": {"driver": 3000000.0 * scale, "scheduler": 9000.0, "what nobody else has": 1.0 * scale}}}


class Printed(unittest.TestCase):
    def assert_fits(self, lines):
        for line in lines:
            self.assertLessEqual(len(line), bench_summary.COLUMNS, line)
            self.assertNotIn("…", line)

    def test_every_operation_has_a_line_that_fits(self):
        ours, base = (operations.rows(content(scale)) for scale in (0.5, 1))
        self.assertEqual(len(ours), 9)
        lines = [*bench_summary.head(), *(bench_summary.row(name, ours[name], base[name]) for name in ours)]
        self.assert_fits(lines)
        self.assertIn("0.500", lines[-1])

    def test_a_line_is_printed_when_both_were_measured(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            table = bench_quick.Table()
            table.add("c", "null call", (20000, 150))
            self.assertNotIn("0.5", said.getvalue())
            table.add("rust", "null call", (10000, 75))
        self.assertIn("0.500", said.getvalue())
        self.assert_fits(said.getvalue().splitlines())

    def test_no_ratio_is_made_of_nothing(self):
        self.assertEqual(bench_summary.ratio(3, 0), "–")

    def test_the_end_is_ten_lines_at_most(self):
        ours, base = (operations.rows(content(scale)) for scale in (0.5, 1))
        profiles = [content(scale)["profile"] for scale in (0.5, 1)]
        for following in (bench_quick.NEXT, bench_full.NEXT):
            end = bench_summary.end(bench_summary.headline(ours, base, profiles), "/work/somewhere/build/report/index.html",
                                    following)
            self.assertLessEqual(len(end), 10)
            self.assert_fits(end)
            self.assertTrue(any("index.html" in line for line in end))
            self.assertIn(following[-1], end[-1])

    def test_where_a_null_call_goes_fits(self):
        lines = bench_summary.breakdown(content(0.5)["profile"], content(1)["profile"])
        self.assert_fits(lines)
        self.assertIn("driver", lines[1])

    def test_a_table_is_as_narrow_as_it_can_be(self):
        self.assertEqual(bench_summary.columns(("name", "n"), [["a", "100"], ["longer", "1"]]),
                         ["  name      n", "  a       100", "  longer    1"])

    def test_the_load_of_many_fits(self):
        outcome = {"answered": 99999, "sync_refused": 99999, "accepted": 99999, "oneway_refused": 99999,
                   "p50": 99999, "p99": 999999, "most": 9999999}
        self.assert_fits(bench_summary.columns(bench_mesh.HEADERS, [bench_mesh.row(load, "upstream", "3", outcome)
                                                                    for load in bench_mesh.LOADS]))

    def test_lines_and_locks_fit(self):
        data = {"unit": dict.fromkeys(("read", "write", "locked", "pause"), 999.9), "owners": {},
                "holds": [{"by": "f", "times": 999.9, "mean": 99999.0, "longest": 0}]}
        found = {who: {title: data for loads in bench_lines.LOADS.values() for title, _ in loads} for who in ("c", "rust")}
        with mock.patch.object(bench_lines, "last"), mock.patch.object(bench_lines, "found", return_value=found):
            shown = bench_full._lines("lines", None)
        self.assert_fits(shown)
        self.assertIn("99999", shown[-1])

    def test_what_is_too_long_is_cut(self):
        self.assertEqual(len(bench_summary.fit("x" * 300)), bench_summary.COLUMNS)


class Documents(unittest.TestCase):
    def test_lines_go_into_docs_when_they_were_asked_for(self):
        names = ("_announce", "_steps", "_lines", "_end", "_page", "packages", "programs", "bench_series", "bench_summary")
        for stages, to_docs, times in ((["lines"], True, 1), (["lines"], False, 0), (["memory"], True, 0)):
            with contextlib.ExitStack() as stack:
                for name in names:
                    stack.enter_context(mock.patch.object(bench_full, name))
                bench_full._steps.return_value = []
                into = stack.enter_context(mock.patch.object(bench_lines, "into_docs"))
                stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
                bench_full.run(stages, to_docs=to_docs)
                self.assertEqual(into.call_count, times)


if __name__ == "__main__":
    unittest.main()
