# SPDX-License-Identifier: GPL-2.0
"""How what bpftrace prints is compared with the document, and what a trace of Perfetto's has to have."""

import unittest

from . import bpftrace, examples, perfetto

HISTOGRAM = """
@us[12, contract]:
[1]                    2 |@@@@@@@@@@                                          |
[512, 1K)              7 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[1K, 2K)               0 |                                                    |
"""

PACKET = """packet {
  ftrace_events {
    event {
      binder_transaction {
        debug_id: 4
        target_node: 1
        to_proc: 75
        to_thread: 0
        reply: 0
        code: 0
        flags: 0
      }
      binder_transaction {
        debug_id: 5
        target_node: 0
        to_proc: 77
        to_thread: 77
        reply: 1
        code: 0
        flags: 0
      }
      binder_transaction_received {
        debug_id: 4
      }
      binder_transaction_alloc_buf {
        data_size: 24
        debug_id: 4
        offsets_size: 8
        extra_buffers_size: 0
      }
      binder_command {
        cmd: 1077961472
      }
      binder_return {
        cmd: 29190
      }
    }
  }
  ftrace_stats {
    cpu_stats {
      overrun: 0
    }
  }
}
"""


class Bpftrace(unittest.TestCase):
    def test_numbers_and_bars_are_not_compared(self):
        self.assertEqual(bpftrace.kinds(HISTOGRAM), {"@us[#, contract]:", "[#, #) # |"})
        self.assertNotEqual(bpftrace.kinds(HISTOGRAM), bpftrace.kinds(HISTOGRAM.replace("us", "ms")))

    def test_the_document_has_what_is_compared(self):
        found = bpftrace.blocks(examples.text())
        self.assertEqual(len(found), 3)
        self.assertTrue(all(commands.startswith("bpftrace -e ") and printed for _, commands, printed in found))

    def test_a_block_that_prints_nothing_is_wrong(self):
        count, wrong = bpftrace.judge("--- begin 0\n--- end 0\n")
        self.assertEqual((count, len(wrong)), (3, 3))


class Perfetto(unittest.TestCase):
    def test_whole(self):
        self.assertEqual(perfetto.judge(PACKET), (1, []))

    def test_what_is_wrong(self):
        for before, after, said in (
            ("        code: 0\n", "", "2 of 2 binder_transaction lack"),
            ("debug_id: 4\n      }\n      binder_transaction_alloc", "debug_id: 9\n      }\n      binder_transaction_alloc",
             "taken and not sent"),
            ("reply: 1", "reply: 0", "no reply"),
            ("overrun: 0", "overrun: 3", "the recorder says overrun: 3"),
            ("binder_return", "binder_elsewhere", "no binder_return"),
        ):
            with self.subTest(said):
                _, wrong = perfetto.judge(PACKET.replace(before, after))
                self.assertEqual(len(wrong), 1, wrong)
                self.assertTrue(wrong[0].startswith(said), wrong)


if __name__ == "__main__":
    unittest.main()
