# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of the profile, without a guest.

    PYTHONPATH=tools python3 -m unittest report.test_profile
"""

import json
import pathlib
import tempfile
import unittest

from lab import say
from . import counted, listing, profile, symbols

FIRST, SECOND = symbols.Function(100, "first", ""), symbols.Function(200, "second", "binder_rust")
SYMBOLS = [FIRST, SECOND]



def read(text):
    (found,) = counted.read_windows([*text.splitlines(), "end"])
    return found


class Difference(unittest.TestCase):
    def cost(self, text, functions=SYMBOLS):
        windows = read(text)
        return profile.difference(windows.short, windows.long, functions, calls=10)

    def test_only_the_extra_round_trips_count(self):
        text = "block short 0 0000000000000064 7 14 7\nblock long 0 0000000000000064 27 54 17"
        self.assertEqual(self.cost(text), {(FIRST,): profile.Cost(4.0, 1.0, 2.0)})

    def test_what_did_not_change_is_left_out(self):
        self.assertEqual(self.cost("block short 0 64 5 5 0\nuser short 3\nblock long 0 64 5 5 0\nuser long 3"), {})

    def test_an_address_belongs_to_the_function_before_it(self):
        costs = self.cost("block long 0 00000000000000c7 10 10 0\nblock long 0 00000000000000fa 20 20 0")
        self.assertEqual(costs[FIRST,].instructions, 1.0)
        self.assertEqual(costs[SECOND,], profile.Cost(2.0, 0.0, 0.0))

    def test_chains_are_named_from_the_outermost_call(self):
        costs = self.cost("chain 2 1 00000000000000d0\nchain 1 0 0000000000000070\nblock long 2 64 10 30 0")
        self.assertEqual(costs, {(FIRST, SECOND, FIRST): profile.Cost(3.0, 0.0, 1.0)})

    def test_an_address_that_was_translated_twice_is_one(self):
        costs = self.cost("block long 0 64 10 30 0\nblock long 0 64 10 50 0")
        self.assertEqual(costs, {(FIRST,): profile.Cost(8.0, 0.0, 2.0)})

    def test_user_space_and_the_unknown_have_names(self):
        costs = self.cost("user short 5\nuser long 35\nblock long 0 0000000000000032 10 10 0")
        self.assertEqual(costs[profile.USER_FUNCTION,].instructions, 3.0)
        self.assertEqual(costs[symbols.Function(0, "before the kernel", ""),].instructions, 1.0)

    def test_interrupts_and_kernel_threads_are_left_out(self):
        tick = symbols.Function(300, "asm_sysvec_apic_timer_interrupt", "")
        costs = self.cost("chain 1 0 12c\nblock long 1 64 10 10 0\nblock long 0 64 20 20 0", [*SYMBOLS, tick])
        self.assertEqual(costs, {(FIRST,): profile.Cost(2.0, 0.0, 2.0)})

    def test_system_calls_that_are_not_of_the_round_trip_are_left_out(self):
        start, each = symbols.Function(300, "__x64_sys_clone", ""), symbols.Function(400, "__x64_sys_ioctl", "")
        many = ("chain 1 0 12d\nchain 2 0 191\nblock long 1 64 9 90 0\nblock long 2 64 9 90 0\nblock long 0 12c 1 1 0\n"
                "block long 0 190 30 60 0")
        costs = self.cost(many, [*SYMBOLS, start, each])
        self.assertEqual({path[0].name for path in costs}, {"__x64_sys_ioctl"})

    def test_a_function_is_the_sum_of_its_chains(self):
        one, two = profile.Cost(1, 1, 1), profile.Cost(2, 0, 1)
        sums = profile.by_function({(FIRST, SECOND): one, (SECOND,): two, (FIRST,): one})
        self.assertEqual(sums, {SECOND: profile.Cost(3, 1, 2), FIRST: one})


def cell(instructions, batch=1, n1=10, n2=40, windows=4):
    count = {"n1": n1, "n2": n2, "t1": [0] * windows, "t2": [0] * windows, "instructions": instructions}
    return {"workload": "throughput", "case": "", "size": 0, "reply": 0, "pairs": 1, "parameters": {}, "batch": batch,
            "measured": {"count": count}}


# A window costs 500, and 5 of them locked, and a call 100 and 2; a tick came into two windows.
SEEN = """\
window short 1500 25
window long 4500 85
window short 1500 25
window long 9500 99
window short 7500 77
window long 4500 85
window short 1500 25
window long 4500 85
end
"""


class Operations(unittest.TestCase):
    def setUp(self):
        (self.windows,) = counted.read_windows(SEEN.splitlines())

    def test_a_tick_and_the_price_of_a_window_leave_no_trace(self):
        operation = counted.Operation(cell(100.0), self.windows)
        self.assertEqual((operation.locked, operation.instructions, operation.calls), (2.0, 100.0, 120))
        operation.check()

    def test_a_result_says_what_the_plugin_counted(self):
        operation = counted.Operation(cell(104.0), self.windows)
        operation.replace_clock()
        count = operation.cell["measured"]["count"]
        self.assertEqual((count["instructions"], count["t1"][0], count["t2"][0]), (100.0, 1500, 4500))

    def test_of_a_batch_each_counts(self):
        self.assertEqual(counted.Operation(cell(25.0, batch=4), self.windows).locked, 0.5)

    def test_the_plugin_and_the_clock_have_to_agree(self):
        with self.assertRaisesRegex(say.LabError, "counts 100 instructions, and binder-bench 103"):
            counted.Operation(cell(103.0), self.windows).check()


class Listening(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.seen = pathlib.Path(folder.name) / "seen"
        self.heard = []
        self.listener = counted.Listener(self.seen, self.heard.append)

    def test_each_result_meets_what_was_seen_meanwhile(self):
        line = json.dumps({"driver": "c", "cells": [cell(100.0)]}) + "\n"
        self.seen.write_text(SEEN)
        self.listener.hear("a word\n" + line[:20])
        self.assertEqual(self.heard, [])
        self.listener.hear(line[20:])
        self.assertEqual(len(self.heard), 1)
        self.seen.write_text(SEEN * 2)
        self.listener.hear(line)
        self.assertEqual([operation.locked for operation in self.heard], [2.0, 2.0])
        self.assertEqual(len(self.listener.result["cells"]), 2)

    def test_the_guest_does_not_wait(self):
        line = json.dumps({"driver": "c", "cells": [cell(100.0)]}) + "\n"
        self.seen.write_text(SEEN + SEEN.replace("85", "55") + "window short 15")
        self.listener.hear(line + line)
        self.assertEqual([operation.locked for operation in self.heard], [2.0, 1.0])

    def test_what_the_plugin_did_not_see_is_an_error(self):
        self.seen.write_text("")
        with self.assertRaisesRegex(say.LabError, "measured 1 things, and the plugin saw 0"):
            self.listener.hear(json.dumps({"driver": "c", "cells": [cell(100.0)]}) + "\n")


class Files(unittest.TestCase):
    def test_functions_belong_to_the_file_before_them_or_to_the_one_they_are_named_after(self):
        line = "  1: 0000000000000010    20 {}    {}  DEFAULT    2 {}"
        listing = "\n".join(line.format(*words) for words in (
            ("FILE", "LOCAL", "binder.c"), ("FUNC", "LOCAL", "open_it"), ("OBJECT", "LOCAL", "table"),
            ("FILE", "LOCAL", "binder_alloc.c"), ("FUNC", "LOCAL", "map_it"), ("FUNC", "GLOBAL", "binder_alloc_new"),
            ("FUNC", "GLOBAL", "binder_poll"), ("FUNC", "GLOBAL", "init_module")))
        self.assertEqual(profile.read_files(listing), {
            "open_it": "binder.c", "map_it": "binder_alloc.c", "binder_alloc_new": "binder_alloc.c",
            "binder_poll": "binder.c", "init_module": profile.OTHER})


class Symbols(unittest.TestCase):
    def test_functions_only_sorted_with_their_module(self):
        text = "00000000000000c8 t second\t[binder_rust]\n0000000000000064 T first\n" \
               "0000000000000065 d data\n0000000000000064 T alias\n0000000000000000 T absent\n"
        self.assertEqual(symbols.read(text), SYMBOLS)

    def test_hashes_are_cut_from_rust_names(self):
        self.assertEqual(symbols.shorten("rust_binder[8a5f0c11d2]::send::submit"), "rust_binder::send::submit")

    def test_classes(self):
        for name, label in [("_raw_spin_lock", "locks"), ("kfree", "memory"), ("__schedule", "scheduler"),
                            ("do_syscall_64", "system call"), ("entry_SYSCALL_64", "system call"),
                            ("__list_del_entry_valid_or_report", "other"), ("__check_object_size", "copies"), ("rep_movs_alternative", "copies"),
                            ("rb_erase", "trees"), ("from_kuid", "other"), ("user space", profile.USER)]:
            self.assertEqual(profile.classify(symbols.Function(1, name, "")), label, name)
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
            function = symbols.Function(1, name, "binder_rust")
            self.assertEqual(profile.room(function, {"binder_poll": "binder.c"}), label, name)


class Listing(unittest.TestCase):
    CODE = """
0000000000000040 <second>:
      40:\tpushq\t%rbp
      41:\tcallq\t0x46
\t\t\t0000000000000042:  R_X86_64_PLT32\tsomething-0x4
      46:\tretq
"""

    def test_an_instruction_has_its_executions_and_its_symbol(self):
        windows = read("block short 0 c8 10 20 0\nblock long 0 c8 30 60 0\nblock long 0 cd 20 20 0")
        operation = counted.Operation({"pairs": 1, "measured": {"count": {"n1": 0, "n2": 10, "t1": [0]}}}, windows)
        lines = listing.lines(listing.read(self.CODE), {"second": 200}, listing.executions(operation))
        self.assertEqual([line.split() for line in lines[1:]], [
            ["2", "0", "pushq", "%rbp"], ["2", "1", "callq", "0x46", "something-0x4"], ["6", "retq"]])


class Summary(unittest.TestCase):
    def test_everything_adds_up(self):
        chains = {(FIRST, SECOND): profile.Cost(5.0, 1.0, 1.0), (FIRST,): profile.Cost(2.0, 0.0, 1.0),
                  (profile.USER_FUNCTION,): profile.Cost(1.0, 0.0, 0.0)}
        data = profile.summary({"driver": "rust", "size": 0, "what": "throughput", "chains": chains, "files": {"second": "a.c"}})
        self.assertEqual(data["instructions"], 8.0)
        self.assertEqual(data["classes"], {"driver": 5.0, "other": 2.0, profile.USER: 1.0})
        self.assertEqual(data["rooms"], {"a.c": 5.0})
        self.assertEqual(data["folded"], {"first;second": 5.0, "first": 2.0, "user space": 1.0})
        self.assertEqual(sum(row["instructions"] for row in data["functions"]), 8.0)


if __name__ == "__main__":
    unittest.main()
