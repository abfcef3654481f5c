# SPDX-License-Identifier: GPL-2.0
"""What is read from turns of Android's benchmarks through two drivers, and what is made of them.

    PYTHONPATH=tools python3 -m unittest lab.test_aosp_beside
"""

import unittest

from . import aosp_beside, aosp_bench, bench_summary, say
from .test_aosp_bench import google, said


def turn(driver, average, ping):
    throughput = said(*[average] * len(aosp_bench.POINTS))
    return f"@@ driver {driver}\n{throughput}@@ servicemanager alive\n@@ rpc\n" + google(**{"BM_pingTransaction/0": ping}).decode()


class Turns(unittest.TestCase):
    def test_each_turn_has_all_cases_of_its_driver(self):
        found = aosp_beside.read(turn("c", "0.05", 40000.0) + turn("rust", "0.04", 30000.0) + turn("rust", "0.03", 30000.0) + turn("c", "0.06", 50000.0))
        self.assertEqual([one["0 bytes, 1 pair"] for one in found["c"]], [50.0, 60.0])
        self.assertEqual([one["pingTransaction"] for one in found["rust"]], [30.0, 30.0])

    def test_a_turn_without_an_end_is_no_measurement(self):
        with self.assertRaises(say.LabError):
            aosp_beside.read(turn("c", "0.05", 40000.0).partition("@@ rpc")[0])

    def test_the_ratio_is_that_of_neighbours(self):
        found = {"c": [{"a": 10.0}, {"a": 100.0}, {"a": 20.0}], "rust": [{"a": 9.0}, {"a": 80.0}, {"a": 20.0}]}
        headers, rows = aosp_beside.table(found)
        self.assertEqual(rows, [["a", "20.0", "20.0", "0.900", "0.800 to 1.000"]])
        self.assertEqual(len(headers), len(rows[0]))
        for line in bench_summary.columns(headers, rows):
            self.assertLessEqual(len(line), bench_summary.COLUMNS)

    def test_the_interval_becomes_narrower_with_more_turns(self):
        self.assertEqual(aosp_beside._interval(list(range(1, 37))), (12, 25))
        self.assertEqual(aosp_beside._interval([1, 2, 3]), (1, 3))


if __name__ == "__main__":
    unittest.main()
