# SPDX-License-Identifier: GPL-2.0
"""Stages side by side: that lanes do not wait for each other, and that the table does not depend on who ends first."""

import _thread
import contextlib
import io
import signal
import threading
import time
import unittest

from . import lanes, say, suite, times
from .tally import Tally


def run(*stages, among=("a", "b")):
    """Run stages; their rows, stage by stage, and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        tallies, _ = lanes.run(stages, Tally, among)
    return [tally.rows for tally in tallies], said.getvalue()


def passing(title):
    return lambda tally: tally.add(title, 1, 0)


class Lanes(unittest.TestCase):
    def test_lanes_run_side_by_side(self):
        meeting = threading.Barrier(2, timeout=10)
        stage = lambda title: lanes.Stage(title, lambda tally: tally.add(title, 1 + 0 * meeting.wait(), 0))
        rows, _ = run(stage("one"), stage("two"))
        self.assertEqual(rows, [[("one", 1, 0, True)], [("two", 1, 0, True)]])

    def test_a_lane_has_one_stage_at_a_time_the_longest_first(self):
        order = []
        stage = lambda title, takes: lanes.Stage(title, lambda _tally: order.append(title), takes=takes)
        run(stage("short", 1), stage("long", 20), stage("unknown", 0), stage("shorter than long", 10), stage("as unknown", 0),
            among=("a",))
        self.assertEqual(order, ["long", "shorter than long", "short", "unknown", "as unknown"])

    def test_who_would_wait_for_what_is_being_made_takes_something_else(self):
        going_on, order = threading.Event(), []

        def kernel(_tally):
            self.assertTrue(going_on.wait(10))
            order.append("kernel")

        def other(_tally):
            order.append("other")
            going_on.set()

        rows, _ = run(lanes.Stage("kernel", kernel, takes=3, makes="um"),
                      lanes.Stage("in it", lambda _tally: order.append("in it"), takes=2, needs="um"),
                      lanes.Stage("other", other, takes=1))
        self.assertEqual((order[0], rows), ("other", [[], [], []]))

    def test_what_could_not_be_made_is_waited_for_by_nobody(self):
        order = []

        def failing(_tally):
            raise say.LabError("no kernel")

        run(lanes.Stage("kernel", failing, takes=1, makes="um"), lanes.Stage("in it", lambda _tally: order.append("in it"), needs="um"),
            lanes.Stage("other", lambda _tally: order.append("other")), among=("a",))
        self.assertEqual(order, ["in it", "other"])

    def test_each_kernel_that_a_stage_waits_for_is_made_by_one(self):
        stages = suite.stages()
        made = [stage.makes for stage in stages if stage.makes]
        self.assertEqual(sorted(made), sorted(suite.KERNELS))
        self.assertLessEqual({stage.needs for stage in stages}, {"", *made})

    def test_what_keeps_two_cpus_busy_has_one_other_beside_it(self):
        begun, most, running, lock = [], [], {}, threading.Lock()

        def stage(title, cpus, takes):
            def work(_tally):
                with lock:
                    running[title] = cpus
                    begun.append(title)
                    most.append(sorted(running.items()))
                # Whoever could have begun beside it has begun by then.
                time.sleep(0.05)
                with lock:
                    del running[title]

            return lanes.Stage(title, work, takes=takes, cpus=cpus)

        run(stage("two", 2, 9), stage("other two", 2, 8), stage("a", 1, 3), stage("b", 1, 2), stage("c", 1, 1), among=("1", "2", "3"))
        self.assertEqual(sorted(begun), ["a", "b", "c", "other two", "two"])
        self.assertEqual(begun[:2], ["two", "a"])
        for there in most:
            self.assertLessEqual(sum(cpus for _, cpus in there), 3)
            self.assertLessEqual([cpus for _, cpus in there].count(2), 1)

    def test_what_keeps_two_cpus_busy_has_its_turn_before_shorter_ones(self):
        order, meeting = [], threading.Barrier(3, timeout=10)

        def first(_tally):
            meeting.wait()
            time.sleep(0.02)

        run(*(lanes.Stage(str(n), first, takes=9) for n in range(3)),
            lanes.Stage("two", lambda _tally: order.append("two"), takes=8, cpus=2),
            *(lanes.Stage(str(n), lambda _tally, n=n: order.append(n), takes=1) for n in range(3, 9)), among=("1", "2", "3"))
        self.assertEqual(order[0], "two")

    def test_one_lane_takes_what_keeps_two_cpus_busy(self):
        rows, _ = run(lanes.Stage("two", passing("two"), cpus=2), among=("a",))
        self.assertEqual(rows, [[("two", 1, 0, True)]])

    def test_who_is_done_takes_what_is_left(self):
        others = threading.Barrier(2, timeout=10)
        order = []

        def waits(_tally):
            others.wait()
            order.append("waits")

        def last(_tally):
            order.append("last")
            others.wait()

        run(lanes.Stage("waits", waits), *(lanes.Stage(str(n), lambda _tally, n=n: order.append(n)) for n in range(3)),
            lanes.Stage("last", last))
        self.assertEqual(order, [0, 1, 2, "last", "waits"])

    def test_what_failed_is_said_again_at_the_end(self):
        def failing(tally):
            say.lines("    of the one before")
            tally.add("one", 1, 0)
            say.lines("    why the other failed")
            tally.add("other", 0, 1)

        tally = Tally()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            for part in lanes.run([lanes.Stage("both", failing)], Tally, ("a",))[0]:
                tally.take(part)
            status = tally.finish()
        end = said.getvalue().split("nothing left to do")[1]
        self.assertEqual(status, 1)
        self.assertIn("  other failed:\n    why the other failed\n", end)
        self.assertNotIn("of the one before", end)

    def test_the_table_has_the_order_of_the_stages(self):
        ended = threading.Event()

        def late(tally):
            ended.wait(10)
            tally.add("first", 1, 0)

        def early(tally):
            tally.add("second", 1, 0)
            ended.set()

        rows, _ = run(lanes.Stage("first", late), lanes.Stage("second", early))
        self.assertEqual([found[0][0] for found in rows], ["first", "second"])

    def test_what_goes_wrong_is_a_failure_and_ends_nothing(self):
        def broken(error):
            def raises(_tally):
                raise error
            return raises

        rows, said = run(lanes.Stage("no guest", broken(say.LabError("it has no kernel"))),
                         lanes.Stage("a fault", broken(KeyError("nobody"))),
                         lanes.Stage("last", passing("last")), lanes.Stage("other", passing("other")))
        self.assertEqual(rows, [[("no guest", 0, 1, True)], [("a fault", 0, 1, True)],
                                [("last", 1, 0, True)], [("other", 1, 0, True)]])
        self.assertIn("it has no kernel", said)
        self.assertIn("nobody", said)

    def test_an_interrupt_ends_what_runs_and_nothing_else_begins(self):
        ended = []
        # Whoever started this in the background may have it ignore interrupts.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

        def endless(_tally):
            _thread.interrupt_main()
            deadline = time.monotonic() + 10
            try:
                while time.monotonic() < deadline:
                    lanes.go_on()
            finally:
                ended.append("endless")

        with self.assertRaises(KeyboardInterrupt):
            run(lanes.Stage("endless", endless), lanes.Stage("next", lambda _tally: ended.append("next")), among=("a",))
        self.assertEqual(ended, ["endless"])

    def test_a_sum_of_tallies_counts_all(self):
        tally, part = Tally(), Tally()
        with contextlib.redirect_stdout(io.StringIO()):
            tally.add("a", 1, 0)
            part.add("b", 2, 3)
        part.calls["open"] += 2
        tally.take(part)
        self.assertEqual([row[:3] for row in tally.rows], [("a", 1, 0), ("b", 2, 3)])
        self.assertEqual(tally.calls["open"], 2)


class Words(unittest.TestCase):
    def test_each_line_says_its_lane(self):
        def speak(tally):
            with say.Step("building") as step:
                step.hear("half of it\n")
            say.lines("one\ntwo", "three")
            tally.add("built", 1, 0)

        _, said = run(lanes.Stage("built", speak), lanes.Stage("built", speak), among=("a", "bb"))
        for line in said.splitlines():
            self.assertRegex(line, r"^\[ ?\d+:\d\d (a|bb)\] ")
        self.assertEqual(said.count("three"), 2)

    def test_lines_stay_whole_and_together(self):
        def speak(_tally):
            for _ in range(200):
                say.lines("x" * 100, "y" * 100)

        _, said = run(lanes.Stage("a", speak), lanes.Stage("b", speak))
        lines = [line.split("] ")[1] for line in said.splitlines() if "nothing left" not in line]
        self.assertEqual(lines, ["x" * 100, "y" * 100] * 400)

    def test_outside_of_lanes_nothing_is_added(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            say.lines("as it is")
        self.assertEqual(said.getvalue(), "as it is\n")


class Stages(unittest.TestCase):
    def test_titles_are_unique_and_what_takes_long_is_there(self):
        titles = [stage.title for stage in suite.stages()]
        self.assertEqual(len(titles), len(set(titles)))
        self.assertLessEqual(times.takes().keys(), set(titles))


if __name__ == "__main__":
    unittest.main()
