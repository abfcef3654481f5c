# SPDX-License-Identifier: GPL-2.0
"""What a run says of its times: whose work counts where, and what the table makes of it."""

import contextlib
import io
import subprocess
import sys
import threading
import unittest

from . import lanes, say, times
from .tally import Tally

# Works for a good part of a second, by itself or by a process of its own.
BUSY = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"]
BUSY_BELOW = ["/bin/sh", "-c", '"$@"; true', "sh", *BUSY]


def stage(title, wall, cpu, steps=()):
    return {"title": title, "wall": wall, "cpu": cpu, "steps": list(steps)}


class Spans(unittest.TestCase):
    def setUp(self):
        counted = times.counted()
        counted.__enter__()
        self.addCleanup(counted.__exit__, None, None, None)

    def measured(self, work):
        here = times.Span("here")
        with times.measure(here):
            work()
        return here

    def test_processes_count_whichever_way_they_are_waited_for(self):
        def polled():
            child = subprocess.Popen(BUSY)
            while child.poll() is None:
                pass

        def in_time():
            subprocess.Popen(BUSY).wait(60)

        for work in (lambda: subprocess.run(BUSY, check=True), lambda: subprocess.run(BUSY_BELOW, check=True),
                     lambda: subprocess.run(BUSY, check=True, capture_output=True, timeout=60), in_time, polled):
            # Kernels that count by ticks may miss some of it.
            self.assertGreaterEqual(self.measured(work).cpu, 0.15)

    def test_who_is_too_slow_is_killed_as_ever_and_counts(self):
        def endless():
            with self.assertRaises(subprocess.TimeoutExpired):
                subprocess.run([sys.executable, "-c", "while True: pass"], timeout=0.6)

        self.assertGreaterEqual(self.measured(endless).cpu, 0.05)

    def test_each_status_is_that_of_the_process(self):
        self.assertEqual(subprocess.run(["/bin/sh", "-c", "exit 7"]).returncode, 7)
        self.assertEqual(subprocess.Popen(["/bin/sh", "-c", "kill -9 $$"]).wait(60), -9)

    def test_a_step_is_a_part_of_its_stage(self):
        def stepping():
            with contextlib.redirect_stdout(io.StringIO()), say.Step("step"):
                subprocess.run(BUSY)

        here = self.measured(stepping)
        self.assertEqual([step.title for step in here.steps], ["step"])
        self.assertGreaterEqual(here.steps[0].cpu, 0.28)
        self.assertGreaterEqual(here.cpu, here.steps[0].cpu)

    def test_another_lane_does_not_count(self):
        def beside():
            other = threading.Thread(target=subprocess.run, args=(BUSY,))
            other.start()
            other.join()

        self.assertLess(self.measured(beside).cpu, 0.2)

    def test_lanes_give_a_span_for_each_stage(self):
        with contextlib.redirect_stdout(io.StringIO()):
            _, spans = lanes.run([lanes.Stage("idle", lambda _: None), lanes.Stage("busy", lambda _: subprocess.run(BUSY))],
                                 Tally, ("a", "b"))
        self.assertEqual([span.title for span in spans], ["idle", "busy"])
        self.assertLess(spans[0].cpu, 0.2)
        self.assertGreaterEqual(spans[1].cpu, 0.28)


class Tables(unittest.TestCase):
    TOLD = {"wall": 120.0, "cpu": 200.0, "cpus": 2, "stages": [
        stage("short", 4, 3), stage("shorter", 2, 1),
        stage("contract", 100, 90, [stage("building tests/contract", 30, 40), stage("contract", 60, 45)]),
        stage("checks", 50, 20, [stage("check: clippy", 20, 9, [stage("building binder_rust.ko", 8, 7)])])]}

    def test_builds_are_told_apart(self):
        self.assertEqual(times.table(self.TOLD).splitlines()[2:], [
            "| contract | 50 | 100 |",
            "| builds of drivers, modules and programs, in whichever stage came first | 47 |  |",
            "| checks | 13 | 50 |",
            "| 2 others | 4 | 6 |",
            "| all, with 2 CPUs | 200 | 120 |"])

    def test_the_end_of_a_run_names_what_worked_most(self):
        lines = times.summary(self.TOLD)
        self.assertEqual([line.split()[0] for line in lines[1:-1]], ["contract", "checks", "short", "shorter"])
        many = {**self.TOLD, "stages": [stage(str(n), n, n) for n in range(40)]}
        self.assertEqual(len(times.summary(many)), times.SHOWN + 2)


if __name__ == "__main__":
    unittest.main()
