# SPDX-License-Identifier: GPL-2.0
"""A plugin's counts, joined to binder-bench's measurements, and the faults in them."""

import pytest

from . import growth, inversion
from report import data

SYMBOLS = "ffffffffa0000000 t first\t[binder_linux]\nffffffffa0000100 t second\t[binder_linux]\n"
SEEN = """\
50 0 0000000000000000 0 0000000000000000
40 0 0000000000000000 0 0000000000000000
700 70 ffffffffa0000104 0 0000000000000000
800 900 ffffffffa0000010 30 ffffffffa0000100
"""


def test_places_are_named_by_the_function_that_they_lie_in():
    phases = growth.read_phases(SEEN, SYMBOLS)
    assert phases[2] == (700, {"instructions": 70, "function": "second"}, None)
    assert phases[3][1]["function"] == "first"
    assert phases[3][2] == {"instructions": 30, "function": "second"}


def test_repetitions_give_the_fewest_instructions_and_the_longest_stretches():
    result = {"cells": [{"measured": {"growth": {"points": [{"places": [2, 3]}]}}}]}
    growth.add_phases(result, growth.read_phases(SEEN, SYMBOLS))
    point = result["cells"][0]["measured"]["growth"]["points"][0]
    assert point["instructions"] == 700 - 40
    assert (point["preempt_off"]["instructions"], point["irqs_off"]["instructions"]) == (900, 30)


def rows(**faults):
    return {(data.Cell("growth", case.replace("_", " ").replace(" of ", ": ", 1)), "rust"): {"faults": found} for case, found in faults.items()}


def test_what_is_accepted_is_no_fault():
    found = rows(deep_of_call_a_third_process=["faster than C", "N^2.00"], calls_of_call=["faster than C"], calls_of_answer=[])
    found |= {(cell, "upstream"): {"faults": ["N^2.00"]} for cell, _ in found}
    assert growth.faults(found) == ["deep: call a third process: N^2.00", "calls: call: faster than C"]


def test_a_table_has_each_phase_and_a_driver_that_stopped_earlier():
    cell, row = data.Cell("growth", "calls: answer"), {"exponent": 1.0, "faults": [], "preempt_off": [70, "f"], "ratio": 0.5}
    found = {(cell, "c"): row | {"each": [[1, 9.0], [64, 8.0]]}, (cell, "rust"): row | {"each": [[1, 9.0], [16, 4.0]]}}
    made = growth.table(found)
    assert made.rows == [["calls: answer", "8", "1.00", "70 / –", "4 (with 16)", "1.00", "70 / –", "0.500", ""]]
    assert len(made.headers) == len(made.rows[0])


CASE = "SCHED_IDLE: call: calls the server"
QUICK, STALLED = [(20_000, 200)], [(20_000, 199), (20_000_000, 1)]


def test_figures_of_pairs():
    assert inversion.figures([(30, 1), (10, 98), (20, 1)]) == {"median": 10, "p99": 20, "worst": 30}


def waits(**series):
    """One case, each driver's first series being calm."""
    return {CASE: {driver: [QUICK, *found] for driver, found in series.items()}}


def test_a_fault_has_what_is_added_by_ours_and_by_the_better_of_the_others():
    assert inversion.faults(waits(c=[QUICK], rust=[STALLED])) == [
        f"{CASE}: a preempted attacker adds 19 980 µs to the worst wait, and 0 µs on the better of the others"]


SLOW, SPREAD = [(230_000, 200)], [(20_000, 199), (190_000, 1)]


def at_many(long):
    return [(20_000, 3000 - long), (20_000_000, long)]


@pytest.mark.parametrize("series, calm, faults", [
    # The worst of 3000 is luck; how many are long is not.
    (dict(c=[QUICK], rust=[at_many(9)]), {}, 0),
    (dict(c=[QUICK], rust=[at_many(10)]), {}, 1),
    (dict(c=[at_many(3)], upstream=[QUICK], rust=[at_many(10)]), {}, 1),
    # So is p99, which thirty waits decide.
    (dict(c=[at_many(25)], rust=[at_many(51)]), {}, 0),
    (dict(c=[at_many(25)], rust=[at_many(52)]), {}, 1),
    (dict(c=[QUICK], rust=[[(20_000, 197), (20_000_000, 3)]]), {}, 2),
    # More, but none that is longer than theirs.
    (dict(c=[at_many(3)], rust=[at_many(25)]), {}, 0),
    # A call that only our driver executes is compared with nothing.
    (dict(rust=[STALLED]), {}, 0),
    (dict(c=[QUICK], rust=[QUICK]), {}, 0),
    # The better of the others counts.
    (dict(c=[STALLED], upstream=[QUICK], rust=[STALLED]), {}, 1),
    (dict(c=[STALLED], upstream=[STALLED], rust=[STALLED]), {}, 0),
    # A driver that is slow without preemption is not delayed.
    (dict(c=[QUICK], rust=[SLOW]), {}, 3),
    (dict(c=[QUICK], rust=[SLOW]), {"rust": [(230_000, 20)]}, 0),
    # The margin is what calm waits vary by.
    (dict(c=[QUICK], rust=[SPREAD]), {}, 1),
    (dict(c=[QUICK], rust=[SPREAD]), {"c": [(20_000, 19), (195_000, 1)]}, 0),
])
def test_what_is_a_fault(series, calm, faults):
    found = waits(**series)
    for driver, samples in calm.items():
        found[CASE][driver][0] = samples
    assert len(inversion.faults(found)) == faults


def test_the_moment_before_the_end_is_nobodys_fault():
    found = {"SCHED_IDLE: exit: notified of the death": waits(c=[QUICK], rust=[STALLED])[CASE]}
    assert inversion.faults(found) == []


def test_a_row_with_a_fault_is_measured_again():
    found = {f"nice 19: {name}": waits(c=[QUICK], rust=[wait])[CASE] for name, wait in [("exit: call", SLOW), ("exit: open", STALLED), ("free: call", QUICK)]}
    assert inversion.worse(found) == [("nice", "exit", "call;open")]


def test_what_only_others_carry_out_is_a_fault():
    assert inversion.faults(waits(c=[QUICK])) == [f"{CASE}: not measured of ours"]


def test_a_table_has_all_drivers():
    made = inversion.table(waits(c=[QUICK], rust=[STALLED]))
    assert made.rows == [["SCHED_IDLE", "call", "calls the server", "20 / 20 / 20", "20 / 20 / 20 000", "worse"]]
    assert len(made.headers) == len(made.rows[0])
