# SPDX-License-Identifier: GPL-2.0
"""How what bpftrace prints is compared with the document, what a trace of Perfetto's has to have, what counts as a difference of
trace events, and as an event that trace-cmd cannot read."""

import pytest

from . import bpftrace, examples, perfetto, tracing

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


FORMAT = "== format binder_{0}\nname: binder_{0}\n\tfield:int ret;\n"
SCENE = "".join(f"binder_{number} ret=0\n" for number in range(tracing.EVENTS))
PAGE = "binder_update_page_range proc=server allocate=0 offset=4096 size="
HEAD = "        contract-71    [001]     6.669093: "
GOOD = (f"cpus=2\n{HEAD}binder_transaction:   transaction=21 dest_node=0 dest_proc=76\n{HEAD}binder_txn_latency_free: transaction=6 from 0:0\n"
        f"{HEAD}binder_command:       [FAILED TO PARSE] cmd=25356\n{HEAD}binder_return:        [FAILED TO PARSE] cmd=29190\n")


def output(scene=SCENE, count=tracing.EVENTS):
    return "".join(FORMAT.format(number) for number in range(count)) + f"== call\n-- client\n{scene}"


LESS = output(SCENE.replace("binder_7 ret=0\n", ""))
FEWER = output(count=tracing.EVENTS - 1)


@pytest.mark.parametrize("c, ours, words", [
    (output(), output(), None),
    (output(), output().replace("name: binder_3\n\tfield:int", "name: binder_3\n\tfield:long"), "format binder_3"),
    (output(), FEWER, "format binder_30"),
    (FEWER, FEWER, "the C driver has 30 events, not 31"),
    (LESS, LESS, "binder_7 is in no scene"),
    (output(), output(SCENE.replace("binder_1 ret=0\nbinder_2 ret=0\n", "binder_2 ret=0\nbinder_1 ret=0\n")), "call: "),
    # The exception is one for the C driver alone.
    (output(f"{SCENE}{PAGE}18446744073709547520\n"), output(f"{SCENE}{PAGE}0\n"), None),
    (output(f"{SCENE}{PAGE}0\n"), output(f"{SCENE}{PAGE}18446744073709547520\n"), "call: "),
])
def test_differences(c, ours, words):
    count, wrong = tracing.judge(c, ours)
    assert count >= tracing.EVENTS and (wrong[0].startswith(words) if words else wrong == [])


@pytest.mark.parametrize("report, count, wrong", [
    (GOOD, 4, 0), (GOOD.replace("   transaction=21 dest", " [FAILED TO PARSE] debug_id=21 dest"), 4, 1), ("cpus=2\n", 0, 3)])
def test_what_trace_cmd_reads(report, count, wrong):
    events, found = tracing.judge_report(report)
    assert (events, len(found)) == (count, wrong)
