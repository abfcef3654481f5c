# SPDX-License-Identifier: GPL-2.0
"""What is made of some boots with two drivers in each.

    PYTHONPATH=tools python3 -m unittest lab.test_paired
"""

import unittest

from . import bench_paired


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


if __name__ == "__main__":
    unittest.main()
