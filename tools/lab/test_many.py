# SPDX-License-Identifier: GPL-2.0
"""What is made of what binder-bench wrote in some boots.

    PYTHONPATH=tools python3 -m unittest lab.test_many
"""

import json
import unittest

from . import bench_many


def written(driver, workload, calls):
    """A run of one case, of which each block took 25 ms; `calls` by how many clients there were."""
    def block(many):
        return {"calls": many, "wall_ns": 25e6, "p50_ns": 25e6 / many, "p99_ns": 50e6 / many}

    cells = [{"workload": workload, "pairs": pairs, "measured": {"latency": {"blocks": [block(many)] * 2}}} for pairs, many in calls.items()]
    return json.dumps({"driver": driver, "cells": cells})


class Table(unittest.TestCase):
    def test_a_ratio_is_that_of_a_round(self):
        def boot(rounds):
            lines = []
            for base, ours in rounds:
                for driver, many in (("c", base), ("rust", ours)):
                    lines += [written(driver, "throughput", {1: many, 4: 2 * many}), written(driver, "fanin", {1: many}),
                              written(driver, "oneway", {3: many})]
            return bench_many.runs("some words\n" + "\n".join(lines) + "\n")

        table = bench_many.table([boot([(100, 150), (100, 110)]), boot([(50, 60), (200, 500)])]).splitlines()
        self.assertEqual(table[2], "| 1 pair | 4000 | 5200 | **1.35** | 1.10 to 2.50 | 250 | 197 | 500 | 394 |")
        self.assertEqual([line.split(" |")[0] for line in table[3:]],
                         ["| 4 pairs", "| 1 client of one server with 8 threads", "| 3 senders of oneway calls to one receiver"])


if __name__ == "__main__":
    unittest.main()
