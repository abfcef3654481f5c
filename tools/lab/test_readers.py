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

def event(name, **values):
    """An event of Perfetto's, as protoc writes it."""
    fields = dict.fromkeys(perfetto.FIELDS[name], 4) | values
    return f"      {name} {{\n" + "".join(f"        {field}: {value}\n" for field, value in fields.items()) + "      }\n"


EVENTS = event("binder_transaction", reply=0) + event("binder_transaction", debug_id=5, reply=1) + "".join(map(event, list(perfetto.FIELDS)[1:]))
PACKET = f"packet {{\n  ftrace_events {{\n    event {{\n{EVENTS}    }}\n  }}\n  ftrace_stats {{\n    cpu_stats {{\n      overrun: 0\n    }}\n  }}\n}}\n"


def test_numbers_and_bars_are_not_compared():
    assert bpftrace.kinds(HISTOGRAM) == {"@us[#, contract]:", "[#, #) # |"} != bpftrace.kinds(HISTOGRAM.replace("us", "ms"))


def test_the_document_has_what_is_compared():
    found = bpftrace.blocks(examples.text())
    assert len(found) == 3 and all(commands.startswith("bpftrace -e ") and printed for _, commands, printed in found)


def test_a_block_that_prints_nothing_is_wrong():
    count, wrong = bpftrace.judge("--- begin 0\n--- end 0\n")
    assert (count, len(wrong)) == (3, 3)


@pytest.mark.parametrize("before, after, said", [
    ("        code: 4\n", "", "2 of 2 binder_transaction lack"),
    (event("binder_transaction_received"), event("binder_transaction_received", debug_id=9), "taken and not sent"),
    ("reply: 1", "reply: 0", "no reply"),
    ("overrun: 0", "overrun: 3", "the recorder says overrun: 3"),
    ("binder_return", "binder_elsewhere", "no binder_return"),
])
def test_what_a_trace_has_to_have(before, after, said):
    assert perfetto.judge(PACKET) == (1, [])
    _, [wrong] = perfetto.judge(PACKET.replace(before, after))
    assert wrong.startswith(said)
