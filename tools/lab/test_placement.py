# SPDX-License-Identifier: GPL-2.0
"""Where threads ran and who moved them, read from what tracers have told.

    PYTHONPATH=tools python3 -m unittest lab.test_placement
"""

import base64
import gzip
import pathlib
import tempfile
import unittest
from unittest import mock

from . import bench_free, bench_paired, placement, say
from .placement import Counts

# User Mode Linux, 4 CPUs, 2026-11-25: thread 83 calls 79 through C and 80 through ours. The two lines of the busy process, 74, were
# put in.
TOLD = """== .
entries: 18
overrun: 0
commit overrun: 0
dropped events: 0
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
          <idle>-0       [002] d....        49725: sched_switch: prev_comm=swapper/2 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=sh next_pid=74 next_prio=120
    binder-bench-83      [001] d....        49727: sched_switch: prev_comm=binder-bench prev_pid=83 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
    binder-bench-83      [001] d....        87843: sched_waking: comm=binder-bench pid=79 prio=120 target_cpu=002
          <idle>-0       [002] dnh..        87844: sched_wakeup: comm=binder-bench pid=79 prio=120 target_cpu=002
          <idle>-0       [002] d....        87845: sched_switch: prev_comm=swapper/2 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=binder-bench next_pid=79 next_prio=120
          <idle>-0       [003] d.s..        87847: sched_migrate_task: comm=sh pid=74 prio=120 orig_cpu=2 dest_cpu=3
    binder-bench-79      [002] d....        87849: sched_waking: comm=binder-bench pid=83 prio=120 target_cpu=001
    binder-bench-79      [002] d....        87850: sched_migrate_task: comm=binder-bench pid=83 prio=120 orig_cpu=1 dest_cpu=2
    binder-bench-79      [002] dn...        87851: sched_wakeup: comm=binder-bench pid=83 prio=120 target_cpu=002
    binder-bench-79      [002] d....        87852: sched_switch: prev_comm=binder-bench prev_pid=79 prev_prio=120 prev_state=R+ ==> next_comm=binder-bench next_pid=83 next_prio=120
          <idle>-0       [001] d.s..        87854: sched_migrate_task: comm=binder-bench pid=79 prio=120 orig_cpu=2 dest_cpu=1
          <idle>-0       [001] d....        87855: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=binder-bench next_pid=79 next_prio=120
    binder-bench-79      [001] d....        87856: sched_switch: prev_comm=binder-bench prev_pid=79 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
    binder-bench-83      [002] d....        87858: sched_waking: comm=binder-bench pid=79 prio=120 target_cpu=001
    binder-bench-83      [002] d....        87859: sched_migrate_task: comm=binder-bench pid=79 prio=120 orig_cpu=1 dest_cpu=2
    binder-bench-83      [002] dn...        87860: sched_wakeup: comm=binder-bench pid=79 prio=120 target_cpu=002
== instances/c
overrun: 0
dropped events: 0
    binder-bench-83      [001] .....        87842: binder_transaction: transaction=9783 dest_node=3 dest_proc=78 dest_thread=0 reply=0 flags=0x10 code=0x1
    binder-bench-79      [002] .....        87846: binder_transaction_received: transaction=9783
    binder-bench-79      [002] .....        87848: binder_transaction: transaction=9784 dest_node=0 dest_proc=83 dest_thread=83 reply=1 flags=0x0 code=0x0
    binder-bench-83      [002] .....        87853: binder_transaction_received: transaction=9784
    binder-bench-83      [002] .....        87857: binder_transaction: transaction=9785 dest_node=3 dest_proc=78 dest_thread=0 reply=0 flags=0x10 code=0x1
    binder-bench-79      [002] .....        87862: binder_transaction_received: transaction=9785
== instances/rust
overrun: 0
dropped events: 0
    binder-bench-83      [001] .....        49726: binder_transaction: transaction=4582 dest_node=3 dest_proc=78 dest_thread=0 reply=0 flags=0x10 code=0x1
    binder-bench-80      [002] .....        49728: binder_transaction_received: transaction=4582
    binder-bench-80      [002] .....        49729: binder_transaction: transaction=5606 dest_node=0 dest_proc=83 dest_thread=83 reply=1 flags=0x0 code=0x0
    binder-bench-83      [001] .....        49734: binder_transaction_received: transaction=5606
"""
OURS = Counts(calls=1, busy=1)


class Reading(unittest.TestCase):
    def test_where_the_server_ran_and_who_moved_the_two(self):
        c = Counts(calls=2, woken=2, same=1, busy=1, waking=2, balancer=1)
        self.assertEqual(placement.count(TOLD, 74), {"c": c, "rust": OURS})

    def test_the_busy_one_is_where_it_was_taken_off_a_cpu(self):
        found = placement.count(TOLD.replace("prev_comm=swapper/2 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=sh next_pid=74",
                                             "prev_comm=sh prev_pid=74 prev_prio=120 prev_state=R ==> next_comm=swapper/2 next_pid=0"), 74)
        self.assertEqual([found[driver].busy for driver in placement.DRIVERS], [1, 1])

    def test_calls_go_on_while_they_are_traced(self):
        for seconds in (1, 2, 9):
            each = int(placement.script(bench_free.Scene(2, 0), seconds).partition("--seconds ")[2].split()[0])
            self.assertGreater(len(placement.DRIVERS) * each, placement.SETTLED + seconds)

    def test_nobody_is_busy(self):
        found = placement.count(TOLD)
        self.assertEqual([found[driver].busy for driver in placement.DRIVERS], [0, 0])

    def test_a_third_one_woke_it(self):
        found = placement.count(TOLD.replace("79      [002] d....        87849", "75      [000] d....        87849"), 74)
        self.assertEqual(found["c"], Counts(calls=2, woken=2, same=1, busy=1, waking=1, balancer=1, others=1))

    def test_what_a_third_one_does_is_not_counted(self):
        other = TOLD.replace("comm=binder-bench pid=79 prio=120 orig_cpu", "comm=binder-bench pid=99 prio=120 orig_cpu")
        self.assertEqual(placement.count(other)["c"].balancer, 0)

    def test_a_tracer_that_has_lost_something_says_nothing(self):
        for said in ("\noverrun: ", "\ndropped events: "):
            with self.assertRaisesRegex(say.LabError, "lost 12 events"):
                placement.count(TOLD.replace(f"{said}0", f"{said}12", 1))

    def test_calls_of_a_driver_are_missing(self):
        with self.assertRaisesRegex(say.LabError, "no call through rust"):
            placement.count(TOLD.partition("== instances/rust")[0])

    def test_what_a_guest_prints(self):
        packed = base64.encodebytes(gzip.compress(TOLD.encode())).decode()
        self.assertEqual(placement.unpacked(packed), (TOLD, None))
        self.assertEqual(placement.unpacked("busy 74\n" + packed), (TOLD, 74))


class Table(unittest.TestCase):
    def test_boots_count_together_and_their_ends_are_told(self):
        boots = [{"c": Counts(100, 90, 20, 10, 2, 1, 0), "rust": Counts(10, 10, 10, 0, 0, 0, 0)},
                 {"c": Counts(300, 30, 300, 0, 2, 0, 3), "rust": Counts(30, 10, 0, 4, 0, 2, 0)}]
        line = placement.table({bench_free.Scene(2, 1, 1): boots}).splitlines()[2]
        self.assertEqual(line, "| 2 CPUs, beside a busy process, `handoff=1` | 400, 40 | 80, 20 to 100 | 25, 0 to 100 | 30.0, 50.0 | 2.5, 10.0 "
                               "| **20.0, 50.0** | 10.0, 0.0 | 2.5, 50.0 | 7.5, 0.0 |")

    def test_nobody_was_busy(self):
        counts = {"c": Counts(1, 1, 1), "rust": Counts(1, 1, 1)}
        self.assertIn("| – |", placement.table({bench_free.Scene(4, 0): [counts]}))

    def test_each_guest_has_its_place_in_the_document(self):
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder, "a.md")
            document.write_text("<!-- begin: x -->\nold\n<!-- end: x -->\n<!-- begin: x x86_64 -->\n<!-- end: x x86_64 -->\n")
            with mock.patch.object(bench_paired, "DOCUMENT", document):
                bench_free.put_into_docs("x", "um", r"a \1" + "\n")
                bench_free.put_into_docs("x", "x86_64", "b\n")
                with self.assertRaisesRegex(say.LabError, "a.md has no place for `x arm64`"):
                    bench_free.put_into_docs("x", "arm64", "c\n")
            self.assertEqual(document.read_text(), "<!-- begin: x -->\na \\1\n<!-- end: x -->\n<!-- begin: x x86_64 -->\nb\n<!-- end: x x86_64 -->\n")


if __name__ == "__main__":
    unittest.main()
