# SPDX-License-Identifier: GPL-2.0
"""What a plugin saw, laid to what binder-bench measured.

    PYTHONPATH=tools python3 -m unittest lab.test_growth
"""

import json
import unittest

from . import growth

SYMBOLS = "ffffffffa0000000 t first\t[binder_linux]\nffffffffa0000100 t second\t[binder_linux]\n"
SEEN = "70 ffffffffa0000104 0 0000000000000000\n900 ffffffffa0000010 30 ffffffffa0000100\n"


class Stretches(unittest.TestCase):
    def test_places_are_named_by_the_function_that_they_lie_in(self):
        first, second = growth.read_stretches(SEEN, SYMBOLS)
        self.assertEqual(first, ({"instructions": 70, "function": "second"}, None))
        self.assertEqual(second[0]["function"], "first")
        self.assertEqual(second[1], {"instructions": 30, "function": "second"})

    def test_each_point_gets_those_of_its_place(self):
        points = [{"place": 1}, {"place": 0}]
        made = json.loads(growth.add_stretches({"cells": [{"measured": {"growth": {"points": points}}}]},
                                               growth.read_stretches(SEEN, SYMBOLS)))
        found = made["cells"][0]["measured"]["growth"]["points"]
        self.assertEqual([point["preempt_off"]["instructions"] for point in found], [900, 70])
        self.assertIsNone(found[1]["irqs_off"])


if __name__ == "__main__":
    unittest.main()
