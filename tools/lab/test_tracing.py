# SPDX-License-Identifier: GPL-2.0
"""What counts as a difference of trace events, and as an event that trace-cmd cannot read."""

import pytest

from . import tracing

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
