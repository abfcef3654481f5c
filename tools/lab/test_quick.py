# SPDX-License-Identifier: GPL-2.0
"""Which stages `make test QUICK=1` has in which guest.

    PYTHONPATH=tools python3 -m unittest lab.test_quick
"""

import unittest

from . import quick_suite


class Stages(unittest.TestCase):
    def test_tasks_of_32_bits_where_there_are_some_and_the_kernel_is_ours(self):
        for name, wanted in (("arm64-16k", 2), ("riscv64", 0), ("debian-7.3", 0)):
            titles = [stage.title for stage in quick_suite.stages(name)]
            self.assertEqual(sum("32-bit" in title for title in titles), wanted, name)
            self.assertIn(f"contract rust {name}", titles)


if __name__ == "__main__":
    unittest.main()
