# SPDX-License-Identifier: GPL-2.0
"""What `make retention` calls too much.

    PYTHONPATH=tools python3 -m unittest lab.test_retention
"""

import json
import unittest

from . import bench


def weighed(**endings):
    """A result file: bytes by ending, and what each may be wrong by."""
    cells = [{"case": case.replace("_", " "), "measured": {"memory": {"bytes": kept, "plus_minus": doubt}}}
             for case, (kept, doubt) in endings.items()]
    return json.dumps({"cells": cells})


class Kept(unittest.TestCase):
    def too_much(self, base, ours):
        return bench.kept_too_much(weighed(**base), weighed(**ours))

    def test_each_kind_has_a_constant_of_its_own(self):
        for case, constant in (("process_killed", bench.KEPT["process"]), ("thread_exits", bench.KEPT["thread"]),
                               ("call_answered", bench.KEPT_OTHERWISE)):
            self.assertEqual(self.too_much({case: (500, 0)}, {case: (500 + constant, 0)}), [])
            self.assertEqual(len(self.too_much({case: (500, 0)}, {case: (501 + constant, 0)})), 1)

    def test_doubts_of_both_count_for_ours(self):
        base, ours = {"process_killed": (500, 30)}, {"process_killed": (540 + bench.KEPT["process"], 40)}
        self.assertEqual(self.too_much(base, ours), [])
        self.assertEqual(len(self.too_much({"process_killed": (500, 0)}, {"process_killed": (541 + bench.KEPT["process"], 40)})), 1)

    def test_what_the_base_cannot_do_is_weighed_by_itself(self):
        self.assertEqual(len(self.too_much({}, {"driver_unloaded": (65, 0)})), 1)


if __name__ == "__main__":
    unittest.main()
