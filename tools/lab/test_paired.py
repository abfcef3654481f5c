# SPDX-License-Identifier: GPL-2.0
"""What is made of some boots with two drivers in each.

    PYTHONPATH=tools python3 -m unittest lab.test_paired
"""

import os
import subprocess
import unittest
from unittest import mock

from . import __main__, bench_free, bench_paired, say


class Table(unittest.TestCase):
    def test_the_middle_of_boots_and_their_ends(self):
        def boot(base, other, ratio, width):
            return {"median_us": [base, other], "median": {"point": ratio, "low": ratio - width, "high": ratio + width},
                    "average": {"point": ratio + 0.1}, "added": None}

        rows = [boot(10.0, 8.0, 0.8, 0.01), boot(30.0, 21.0, 0.7, 0.02), boot(20.0, 18.0, 0.9, 0.01)]
        line = bench_paired.table({("one CPU", 4096): rows}).splitlines()[2]
        self.assertEqual(line, "| one CPU | 4096 | 20.0 | 18.0 | **0.800** | 0.700 to 0.900, ± 0.020 | 0.900 |")

    def test_what_drivers_add_to_the_floor(self):
        def boot(floor, base, other, ratio):
            return {"added": {"floor_us": floor, "added_us": [base, other], "ratio": {"point": ratio, "low": ratio - 0.01, "high": ratio + 0.03}}}

        found = {("free", 0): [boot(20.0, 10.0, 6.0, 0.6), boot(22.0, 12.0, 6.0, 0.5), boot(21.0, 11.0, 9.0, 0.8)], ("free", 4096): [{"added": None}]}
        self.assertEqual(bench_paired.added(found)[3:], ["| free | 21.0 | 11.0 | 6.0 | **0.600** | 0.500 to 0.800, ± 0.020 |"])


class Scenes(unittest.TestCase):
    def asked(self, *words):
        """The scenes that these words of a command line ask for."""
        with mock.patch.object(bench_free, "run", return_value=0) as run:
            arguments = __main__._parser().parse_args(["paired", *words])
            arguments.run(arguments)
        return run.call_args.args[1]

    def test_one_cpu_of_user_mode_linux_is_one_of_the_host(self):
        pins = {(cpus, arch): bench_free.Scene(cpus, 1).pin(arch) for cpus in (1, 2) for arch in ("um", "x86_64")}
        self.assertEqual(pins, {(1, "um"): 0, (1, "x86_64"): None, (2, "um"): None, (2, "x86_64"): None})

    def test_all_combinations_of_what_is_asked_for(self):
        self.assertEqual([scene.title for scene in self.asked("--cpus", "4,1", "--busy", "0,1", "--handoff", "2")],
                         ["1 CPU, alone, `handoff=2`", "1 CPU, beside a busy process, `handoff=2`", "4 CPUs, alone, `handoff=2`",
                          "4 CPUs, beside a busy process, `handoff=2`"])

    def test_two_cpus_and_our_own_choice_if_nothing_is_said(self):
        self.assertEqual(self.asked("--busy", "1"), [bench_free.Scene(2, 1)])
        self.assertEqual(self.asked("--busy", "0"), [bench_free.Scene(2, 0)])
        self.assertEqual([(scene.title, scene.parameters) for scene in self.asked("--cpus", "2")], [("2 CPUs, alone", "")])

    def test_without_any_of_them_it_is_the_old_measurement(self):
        with mock.patch.object(bench_paired, "run", return_value=0) as run:
            arguments = __main__._parser().parse_args(["paired"])
            arguments.run(arguments)
        run.assert_called_once_with("um", 5, 10, False)

    def test_documents_have_all_guests(self):
        self.assertEqual(len(self.asked("--cpus", "1,2,4", "--busy", "0,1", "--docs")), 6)
        for words in (("--cpus", "2"), ("--cpus", "1,2,4"), ("--busy", "0,1"), ("--handoff", "0,1,2")):
            with self.assertRaisesRegex(say.LabError, "DOCS=1 CPUS=1,2,4 BUSY=0,1"):
                self.asked(*words, "--docs")

    def test_a_guest_that_the_documents_have_no_place_for_is_told_before_anything_is_measured(self):
        with mock.patch.object(bench_free.kernel, "build") as build, self.assertRaisesRegex(say.LabError, "no place for `free placement arm64`"):
            bench_free.run("arm64", bench_free.scenes((1,), None, None), 1, 1, into_docs=True)
        build.assert_not_called()

    def test_a_table_has_the_scene_first(self):
        row = {"median_us": [10.0, 8.0], "median": {"point": 0.8, "low": 0.79, "high": 0.81}, "average": {"point": 0.9}, "added": {}}
        lines = bench_paired.ratios({(bench_free.Scene(1, 1).title, 0): [row]})
        self.assertEqual(lines[2:], ["| 1 CPU, beside a busy process | 0 | 10.0 | 8.0 | **0.800** | 0.800 to 0.800, ± 0.010 | 0.900 |"])


class Busy(unittest.TestCase):
    def test_it_ends_with_the_measurement_whose_status_counts(self):
        for words, status in (("echo measured", 0), ("echo measured; false", 1)):
            script = bench_free.Scene(2, 1).script(words)
            done = subprocess.run(["sh", "-c", script], text=True, capture_output=True, timeout=60)
            busy, measured = done.stdout.splitlines()
            self.assertEqual((done.returncode, measured), (status, "measured"))
            self.assertRegex(busy, r"^busy \d+$")
            with self.assertRaises(ProcessLookupError):
                os.kill(int(busy.split()[1]), 0)

    def test_alone_it_is_the_measurement_itself(self):
        self.assertEqual(bench_free.Scene(2, 0).script("measured"), "measured")


if __name__ == "__main__":
    unittest.main()
