# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of the profile, without a guest.

    PYTHONPATH=tools python3 -m unittest report.test_profile
"""

import unittest

from . import profile

FIRST, SECOND = profile.Function(100, "first", ""), profile.Function(200, "second", "binder_rust")
SYMBOLS = [FIRST, SECOND]


def read(text):
    return profile.read_counts(text.splitlines())


class Difference(unittest.TestCase):
    def cost(self, few, many):
        return profile.difference(read(few), read(many), SYMBOLS, calls=10)

    def test_only_the_extra_round_trips_count(self):
        few = "block 0 0000000000000064 7 14 7"
        many = "block 0 0000000000000064 27 54 17"
        self.assertEqual(self.cost(few, many), {(FIRST,): profile.Cost(4.0, 1.0, 2.0)})

    def test_what_did_not_change_is_left_out(self):
        self.assertEqual(self.cost("block 0 64 5 5 0\nuser 3", "block 0 64 5 5 0\nuser 3"), {})

    def test_an_address_belongs_to_the_function_before_it(self):
        costs = self.cost("", "block 0 00000000000000c7 10 10 0\nblock 0 00000000000000fa 20 20 0")
        self.assertEqual(costs[FIRST,].instructions, 1.0)
        self.assertEqual(costs[SECOND,], profile.Cost(2.0, 0.0, 0.0))

    def test_chains_are_named_from_the_outermost_call(self):
        costs = self.cost("", "chain 2 1 00000000000000d0\nchain 1 0 0000000000000070\nblock 2 64 10 30 0")
        self.assertEqual(costs, {(FIRST, SECOND, FIRST): profile.Cost(3.0, 0.0, 1.0)})

    def test_numbers_of_chains_may_differ_between_boots(self):
        few = "chain 1 0 70\nblock 1 c8 1 10 0"
        many = "chain 1 0 d0\nchain 2 0 70\nblock 2 c8 11 110 0"
        self.assertEqual(self.cost(few, many), {(FIRST, SECOND): profile.Cost(10.0, 0.0, 1.0)})

    def test_user_space_and_the_unknown_have_names(self):
        costs = self.cost("user 5", "user 35\nblock 0 0000000000000032 10 10 0")
        self.assertEqual(costs[profile.USER_FUNCTION,].instructions, 3.0)
        self.assertEqual(costs[profile.Function(0, "before the kernel", ""),].instructions, 1.0)

    def test_interrupts_and_kernel_threads_are_left_out(self):
        tick = profile.Function(300, "asm_sysvec_apic_timer_interrupt", "")
        few, many = read(""), read("chain 1 0 12c\nblock 1 64 10 10 0\nblock 0 64 20 20 0")
        costs = profile.difference(few, many, [*SYMBOLS, tick], calls=10)
        self.assertEqual(costs, {(FIRST,): profile.Cost(2.0, 0.0, 2.0)})

    def test_system_calls_that_are_not_of_the_round_trip_are_left_out(self):
        start, each = profile.Function(300, "__x64_sys_clone", ""), profile.Function(400, "__x64_sys_ioctl", "")
        many = "chain 1 0 12d\nchain 2 0 191\nblock 1 64 9 90 0\nblock 2 64 9 90 0\nblock 0 12c 1 1 0\nblock 0 190 30 60 0"
        costs = profile.difference(read(""), read(many), [*SYMBOLS, start, each], calls=10)
        self.assertEqual({path[0].name for path in costs}, {"__x64_sys_ioctl"})

    def test_a_function_is_the_sum_of_its_chains(self):
        one, two = profile.Cost(1, 1, 1), profile.Cost(2, 0, 1)
        sums = profile.by_function({(FIRST, SECOND): one, (SECOND,): two, (FIRST,): one})
        self.assertEqual(sums, {SECOND: profile.Cost(3, 1, 2), FIRST: one})


class Symbols(unittest.TestCase):
    def test_functions_only_sorted_with_their_module(self):
        text = "00000000000000c8 t second\t[binder_rust]\n0000000000000064 T first\n" \
               "0000000000000065 d data\n0000000000000064 T alias\n0000000000000000 T absent\n"
        self.assertEqual(profile.read_symbols(text), SYMBOLS)

    def test_hashes_are_cut_from_rust_names(self):
        self.assertEqual(profile.shorten("rust_binder[8a5f0c11d2]::send::submit"), "rust_binder::send::submit")

    def test_classes(self):
        for name, label in [("_raw_spin_lock", "locks"), ("kfree", "memory"), ("__schedule", "scheduler"),
                            ("do_syscall_64", "system call"), ("rep_movs_alternative", "copies"),
                            ("rb_erase", "trees"), ("from_kuid", "other"), ("user space", profile.USER)]:
            self.assertEqual(profile.classify(profile.Function(1, name, "")), label, name)
        self.assertEqual(profile.classify(SECOND), profile.DRIVER)

    def test_rooms(self):
        for name, label in [("<rust_binder::calls::send::Call>::submit", "calls/send.rs"),
                            ("rust_binder::calls::translate::files::x", "calls/translate.rs"),
                            ("rust_binder::defs::x", "defs.rs"),
                            ("rust_binder::next_debug_id", "rust_binder.rs"),
                            ("<rust_binder::DTRWrap<rust_binder::node::Node>>::x", "node.rs"),
                            ("<rust_binder::kernel_ext::page_range::PageRange>::zero", "page_range.rs"),
                            ("<kernel::list::List<u8>>::pop", "kernel crate"),
                            ("binder_poll", "binder.c"), ("unheard_of", "other")]:
            function = profile.Function(1, name, "binder_rust")
            self.assertEqual(profile.room(function, {"binder_poll": "binder.c"}), label, name)


class Summary(unittest.TestCase):
    def test_everything_adds_up(self):
        chains = {(FIRST, SECOND): profile.Cost(5.0, 1.0, 1.0), (FIRST,): profile.Cost(2.0, 0.0, 1.0),
                  (profile.USER_FUNCTION,): profile.Cost(1.0, 0.0, 0.0)}
        data = profile.summary({"driver": "rust", "size": 0, "chains": chains, "files": {"second": "a.c"}})
        self.assertEqual(data["instructions"], 8.0)
        self.assertEqual(data["classes"], {"driver": 5.0, "other": 2.0, profile.USER: 1.0})
        self.assertEqual(data["rooms"], {"a.c": 5.0})
        self.assertEqual(data["folded"], {"first;second": 5.0, "first": 2.0, "user space": 1.0})
        self.assertEqual(sum(row["instructions"] for row in data["functions"]), 8.0)


if __name__ == "__main__":
    unittest.main()
