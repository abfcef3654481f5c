# SPDX-License-Identifier: GPL-2.0
"""What is told of many boots.

    PYTHONPATH=tools python3 -m unittest lab.test_boots
"""

import json
import unittest
from unittest import mock

from . import bench, bench_boots, programs


def written(*medians):
    """A result file with blocks of these medians, in nanoseconds."""
    return json.dumps({"cells": [{"measured": {"latency": {"blocks": [{"p50_ns": each} for each in medians]}}}]}).encode()


class Boots(unittest.TestCase):
    def test_a_boot_is_its_middle_block(self):
        self.assertEqual(bench_boots.median(written(30, 10, 900)), 30)

    def test_the_slow_one_is_told_by_its_number(self):
        self.assertEqual(bench_boots.slower([100, 111, 100, 109, 90]), [2])
        self.assertEqual(bench_boots.slower([100, 100]), [])

    def test_a_driver_is_a_line(self):
        lines = bench_boots.table({"c": [30000, 33000, 45000], "rust": [20000]}).splitlines()
        self.assertEqual(lines[2:], ["| C | 3 | 30.0 | 33.0 | 45.0 | 1.36 | 30.0 33.0 45.0 |", "| ours | 1 | 20.0 | 20.0 | 20.0 | 1.00 | 20.0 |"])

    def test_drivers_take_turns_in_who_is_first(self):
        order = []

        def measure(title, name, driver, program, stage, extra):
            order.append(driver)
            return written(1000)

        with mock.patch.object(bench, "measure", measure), mock.patch.object(programs, "build"), mock.patch("builtins.print"):
            bench_boots.run(3, 1)
        self.assertEqual(order, ["c", "rust", "rust", "c", "c", "rust"])


if __name__ == "__main__":
    unittest.main()
