# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of the profile, without a guest.

    PYTHONPATH=tools python3 -m unittest discover -s tools/binder-bench/profile
"""

import unittest

import profile


class Difference(unittest.TestCase):
    SYMBOLS = [profile.Function(100, "first", ""), profile.Function(200, "second", "driver")]

    def cost(self, few, many):
        return profile.difference(few, many, self.SYMBOLS, calls=10)

    def test_only_the_extra_round_trips_count(self):
        costs = self.cost({100: (7, False), 104: (7, True)}, {100: (27, False), 104: (17, True)})
        self.assertEqual(costs["", "first"], profile.Cost(instructions=3.0, locked=1.0, calls=2.0))

    def test_an_address_belongs_to_the_function_before_it(self):
        costs = self.cost({}, {199: (10, False), 250: (20, False)})
        self.assertEqual(costs["", "first"].instructions, 1.0)
        self.assertEqual(costs["driver", "second"], profile.Cost(2.0, 0.0, 0.0))

    def test_user_space_and_the_unknown_have_names(self):
        costs = self.cost({}, {0: (30, False), 50: (10, False)})
        self.assertEqual(costs["", "user space"].instructions, 3.0)
        self.assertEqual(costs["", "before the kernel"].instructions, 1.0)


class Symbols(unittest.TestCase):
    def test_functions_only_sorted_with_their_module(self):
        text = "00000000000000c8 t second\t[driver]\n0000000000000064 T first\n" \
               "0000000000000065 d data\n0000000000000064 T alias\n0000000000000000 T absent\n"
        self.assertEqual(profile.read_symbols(text), Difference.SYMBOLS)

    def test_hashes_are_cut_from_rust_names(self):
        self.assertEqual(profile.shorten("rust_binder[8a5f0c11d2]::send::submit"), "rust_binder::send::submit")

    def test_classes(self):
        for name, label in [("_raw_spin_lock", "locks"), ("kfree", "memory"), ("__schedule", "scheduler"),
                            ("do_syscall_64", "system call"), ("rep_movs_alternative", "copies"),
                            ("rb_erase", "trees"), ("from_kuid", "other"), ("user space", "user space")]:
            self.assertEqual(profile.classify(name), label, name)


if __name__ == "__main__":
    unittest.main()
