# SPDX-License-Identifier: GPL-2.0
"""Figures of waits, and when ours are worse than those of others."""

from . import inversion

CASE = "SCHED_IDLE: call: calls the server"
QUICK, STALLED = [(20_000, 200)], [(20_000, 199), (20_000_000, 1)]


def test_figures_of_pairs():
    assert inversion.figures([(30, 1), (10, 98), (20, 1)]) == {"median": 10, "p99": 20, "worst": 30}


def rows(**series):
    """One case, each driver's first series being calm."""
    return {CASE: {driver: [QUICK, *found] for driver, found in series.items()}}


def test_one_stall_is_worse_than_none():
    assert inversion.faults(rows(c=[QUICK], rust=[STALLED])) == [
        f"{CASE}: a preempted attacker adds 19 980 µs to the worst wait, and 0 µs on the better of the others"]
    assert inversion.faults(rows(c=[QUICK], rust=[QUICK])) == []


def test_the_better_of_the_others_counts():
    assert len(inversion.faults(rows(c=[STALLED], upstream=[QUICK], rust=[STALLED]))) == 1
    assert inversion.faults(rows(c=[STALLED], upstream=[STALLED], rust=[STALLED])) == []


def test_a_slower_driver_is_not_delayed():
    found = rows(c=[QUICK], rust=[[(23_000, 200)]])
    assert len(inversion.faults(found)) == 3
    found[CASE]["rust"][0] = [(23_000, 20)]
    assert inversion.faults(found) == []


def test_the_margin_is_what_calm_waits_vary_by():
    found = rows(c=[QUICK], rust=[[(20_000, 199), (90_000, 1)]])
    assert len(inversion.faults(found)) == 1
    found[CASE]["c"][0] = [(20_000, 19), (95_000, 1)]
    assert inversion.faults(found) == []


def test_what_only_others_carry_out_is_a_fault():
    assert inversion.faults(rows(c=[QUICK])) == [f"{CASE}: not measured of ours"]


def test_a_table_has_all_drivers():
    made = inversion.table(rows(c=[QUICK], rust=[STALLED]))
    assert made.rows == [["SCHED_IDLE", "call", "calls the server", "20 / 20 / 20", "20 / 20 / 20 000", "worse"]]
    assert len(made.headers) == len(made.rows[0])
