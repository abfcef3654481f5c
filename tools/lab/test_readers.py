# SPDX-License-Identifier: GPL-2.0
"""How what bpftrace prints is compared with the document, and what a trace of Perfetto's has to have."""

import pytest

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


def test_numbers_and_bars_are_not_compared():
    assert bpftrace.kinds(HISTOGRAM) == {"@us[#, contract]:", "[#, #) # |"} != bpftrace.kinds(HISTOGRAM.replace("us", "ms"))


def test_the_document_has_what_is_compared():
    found = bpftrace.blocks(examples.text())
    assert len(found) == 3 and all(commands.startswith("bpftrace -e ") and printed for _, commands, printed in found)


def test_a_block_that_prints_nothing_is_wrong():
    count, wrong = bpftrace.judge("--- begin 0\n--- end 0\n")
    assert (count, len(wrong)) == (3, 3)


@pytest.mark.parametrize("before, after, said", [
    ("        code: 0\n", "", "2 of 2 binder_transaction lack"),
    ("debug_id: 4\n      }\n      binder_transaction_alloc", "debug_id: 9\n      }\n      binder_transaction_alloc", "taken and not sent"),
    ("reply: 1", "reply: 0", "no reply"),
    ("overrun: 0", "overrun: 3", "the recorder says overrun: 3"),
    ("binder_return", "binder_elsewhere", "no binder_return"),
])
def test_what_a_trace_has_to_have(before, after, said):
    assert perfetto.judge(PACKET) == (1, [])
    _, [wrong] = perfetto.judge(PACKET.replace(before, after))
    assert wrong.startswith(said)
