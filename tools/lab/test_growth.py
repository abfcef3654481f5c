# SPDX-License-Identifier: GPL-2.0
"""What a plugin saw, laid to what binder-bench measured.

    PYTHONPATH=tools python3 -m unittest lab.test_growth
"""

import unittest

from . import growth

SYMBOLS = "ffffffffa0000000 t first\t[binder_linux]\nffffffffa0000100 t second\t[binder_linux]\n"
SEEN = """\
50 0 0000000000000000 0 0000000000000000
40 0 0000000000000000 0 0000000000000000
700 70 ffffffffa0000104 0 0000000000000000
800 900 ffffffffa0000010 30 ffffffffa0000100
"""


class Phases(unittest.TestCase):
    def test_places_are_named_by_the_function_that_they_lie_in(self):
        phases = growth.read_phases(SEEN, SYMBOLS)
        self.assertEqual(phases[2], (700, {"instructions": 70, "function": "second"}, None))
        self.assertEqual(phases[3][1]["function"], "first")
        self.assertEqual(phases[3][2], {"instructions": 30, "function": "second"})

    def test_repetitions_give_the_fewest_instructions_and_the_longest_stretches(self):
        result = {"cells": [{"measured": {"growth": {"points": [{"places": [2, 3]}]}}}]}
        growth.add_phases(result, growth.read_phases(SEEN, SYMBOLS))
        point = result["cells"][0]["measured"]["growth"]["points"][0]
        self.assertEqual(point["instructions"], 700 - 40)
        self.assertEqual(point["preempt_off"]["instructions"], 900)
        self.assertEqual(point["irqs_off"]["instructions"], 30)

    def test_what_is_accepted_is_no_fault(self):
        rows = [{"case": "depth of nesting: call a third process", "faults": ["faster than C", "N^2.00"]},
                {"case": "depth of nesting, undone: call a third process", "faults": ["faster than C"]},
                {"case": "calls: call", "faults": ["faster than C"]}, {"case": "calls: answer", "faults": []}]
        self.assertEqual(growth._faults(rows), ["depth of nesting: call a third process: N^2.00", "calls: call: faster than C"])


if __name__ == "__main__":
    unittest.main()
