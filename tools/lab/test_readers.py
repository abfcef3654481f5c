# SPDX-License-Identifier: GPL-2.0
"""Comparing the output of bpftrace and of worked examples with the documents, checking a trace of Perfetto's, differences of trace events,
events that trace-cmd cannot read, parsing the output of GoogleTest programs, and steps of random programs."""

import pytest

from . import aosp, bpftrace, examples, load, perfetto, tracing

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
    assert len(found) == 2 and all(commands.startswith("bpftrace -e ") and printed for _, commands, printed in found)


def test_a_block_that_prints_nothing_is_wrong():
    count, wrong = bpftrace.judge("--- begin 0\n--- end 0\n")
    assert (count, len(wrong)) == (2, 2)


@pytest.mark.parametrize("before, after, said", [
    ("        code: 4\n", "", "2 of 2 binder_transaction lack"),
    (event("binder_transaction_received"), event("binder_transaction_received", debug_id=9), "taken and not sent"),
    ("reply: 1", "reply: 0", "no reply"),
    ("overrun: 0", "overrun: 3", "the recorder counted overrun: 3"),
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


GREEN, RED, END = "\x1b[0;32m", "\x1b[0;31m", "\x1b[m"


@pytest.mark.parametrize("status, outcomes, lines", [
    (1, {"Suite.Good": "passed", "Suite.Bad": "failed", "All/Suite.Left/remote": "skipped"}, f"""
{GREEN}[ RUN      ] {END}Suite.Good
{GREEN}[       OK ] {END}Suite.Good (3 ms)
[ RUN      ] Suite.Bad
{RED}[  FAILED  ] {END}Suite.Bad (12 ms)
[ RUN      ] All/Suite.Left/remote
[  SKIPPED ] All/Suite.Left/remote (0 ms)
[  PASSED  ] 1 test.
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Suite.Bad"""),
    (1, {"All/S.T/0": "failed"}, "[ RUN      ] All/S.T/0\n[  FAILED  ] All/S.T/0, where GetParam() = 7 (1 ms)"),
    (139, {"S.A": "passed", "S.B": "unfinished"}, "[ RUN      ] S.A\n[       OK ] S.A (0 ms)\n[ RUN      ] S.B"),
    # A failure outside of tests counts, and a program without tests is its status.
    (1, {"S.A": "passed", "(exit status)": "failed"}, "[ RUN      ] S.A\n[       OK ] S.A (0 ms)"),
    (0, {"program": "passed"}, "10 per second"),
    (1, {"program": "failed"}, ""),
])
def test_outcomes(status, outcomes, lines):
    assert aosp.parse(f"@@ begin program -x\n{lines}\n@@ end {status}") == {"program -x": outcomes}


def test_rates():
    found = {("um-plain", 2, driver): rates for driver, rates in (("c", [9000.0, 8000.0, 10000.0]), ("rust", [9900.0] * 3), ("upstream", [10000.0] * 3))}
    assert aosp.rates(found).rows == [["um-plain", "2", "9 000 [8 000, 10 000]", "9 900 [9 900, 9 900]", "10 000 [10 000, 10 000]", "1.100", "0.990"]]


def test_a_program_that_never_ended():
    assert aosp.parse("@@ begin p\n[ RUN      ] S.A\n") == {"p": {"S.A": "unfinished"}}


TEXT = """
<!-- example: one -->
```sh
CLIENT=12
grep $CLIENT log
```
```text
a 7 of 0000000000001234
```
<!-- example: one (rust alone) -->
```sh
true
```
```text
```
```sh
not an example
```
"""


def test_blocks():
    assert examples.blocks(TEXT, "c") == {"one": [("grep $CLIENT log\n", "a 7 of 0000000000001234\n")]}
    assert len(examples.blocks(TEXT, "rust")["one"]) == 2


def test_numbers_are_not_compared():
    scene = examples.blocks(TEXT, "c")["one"]
    said = "--- begin 0\r\na  99 of 00000000deadbeef\r\n--- end 0\r\n"
    assert examples.judge(scene, said) == []
    for wrong in (said.replace("of", "from"), said.replace("--- end", ""), "--- begin 0\n--- end 0\n"):
        assert examples.judge(scene, wrong)


def test_the_documents_have_them():
    scenes, found = ["failed", "node", "waiting"], examples.blocks(examples.text(), "rust")
    assert sorted(examples.blocks(examples.text(), "c")) == scenes
    assert sorted(found) == sorted([*scenes, "machine", "shell"]) and len(found["shell"]) >= 4


@pytest.mark.parametrize("needed", [{5}, {0, 119}, {17, 18, 90}])
def test_steps_without_which_traces_differ_as_well_are_left_out(needed):
    assert set(load.fewest(list(range(120)), lambda steps: needed <= set(steps))) == needed
