# SPDX-License-Identifier: GPL-2.0
"""The tables of Debian's kernel and ours, from what boots have told."""

import unittest

from lab import bench_kernels


def told(null, locked, parts, batch=1):
    """What a boot has told of a null call and of one with an object, the first as given."""
    fields = [{"workload": "throughput", "case": "", "size": 0}, {"workload": "objects", "case": "held"}]
    cells = [{"measured": {"count": {"instructions": count}}} for count in (null, 30_000)]
    return {"result": {"cells": cells}, "locked": [[fields[0], locked], [fields[1], 50]],
            "parts": [[1, parts], [batch, {"driver": 400 * batch, "scheduler": 600 * batch}]]}


class Tables(unittest.TestCase):
    def setUp(self):
        debian = {"rust": told(18_000, 40, {"driver": 3_000, "locks": 500, "scheduler": 9_000}),
                  "c": told(24_000, 160, {"driver": 6_000, "memory": 1_000, "other": 10_000})}
        ours = {"rust": told(12_000, 42, {"driver": 2_900, "trees": 100, "copies": 5_000}),
                "c": told(20_000, 140, {"driver": 6_000, "scheduler": 7_000}, batch=4)}
        self.lines = bench_kernels.tables(debian, ours).splitlines()

    def test_counts_and_ratios_of_both_kernels(self):
        self.assertIn("| null call | 18 000 | 24 000 | 0.750 | 12 000 | 20 000 | 0.600 | 0.250 | 0.300 |", self.lines)

    def test_what_the_driver_decides_and_the_rest(self):
        self.assertIn("| null call | 3 500 | 7 000 | 0.500 | 3 000 | 6 000 | 0.500 | 9 000 | 10 000 | 5 000 | 7 000 |", self.lines)

    def test_a_batch_is_told_by_its_operation(self):
        self.assertIn("| the same, kept by the server | 400 | 400 | 1.000 | 400 | 400 | 1.000 | 600 | 600 | 600 | 600 |", self.lines)

    def test_all_rows_of_a_table_have_its_columns(self):
        table, parts = "\n".join(self.lines).split("\n\n")
        for text in (table, parts):
            self.assertEqual(len({line.count("|") for line in text.splitlines()}), 1)


if __name__ == "__main__":
    unittest.main()
