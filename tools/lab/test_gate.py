# SPDX-License-Identifier: GPL-2.0
"""The gate's limits, the goals that count as met, and the figures of boots with two drivers in each."""

import pytest

from . import bench_run, gate, goals, moves, paired
from .run import Tally


def weighed(scale):
    """Made-up counts of a boot."""
    return {"counts": {name: [20000 * scale, 100 * scale] for name in bench_run._MAIN}, "memory": {"node": 100 * scale}, "ends": {"node": 1000 * scale},
            "kept": {"call answered": [0, 0, {}]}, "traced": 1}


def failures(recorded, measured, kind=gate.INSTRUCTIONS):
    return gate.judge(kind, recorded, measured)[1]


MANY = "handles size=0 reply=24 refs=1000"
WEIGHTS = {"process": 1.006, "node": 1.028, "death request": 2.05, "thread": 0.63, "process, 1 MiB mapped": 1.042}
# C's bytes, of which 32 more are these shares, and 128 of a process.
OF_C = {"process": 1028 / 4, "node": 124, "death request": 32, "thread": 517, "process, 1 MiB mapped": 3218 / 4}
PAIR, SHARED = "pair on two CPUs: lines", "independent pairs: shared lines"


@pytest.mark.parametrize("kind, was, within, beyond", [
    (gate.INSTRUCTIONS, {"call": 0.7, "other": 1.2}, {"call": 0.7069}, {"call": 0.7071}),
    (gate.INSTRUCTIONS, {"call": 0.7}, {"call": 0.5}, {"call": 1.0}),
    (gate.INSTRUCTIONS, {MANY: 0.7}, {MANY: 0.7279}, {MANY: 0.7281}),
    (gate.LOCKED, {"call": 42.08}, {"call": 42.3}, {"call": 43.08}),
    (gate.MEMORY, WEIGHTS, {"process": 1.08, "node": 1.1}, {row: ratio + 32 / OF_C[row] for row, ratio in WEIGHTS.items()}),
    (gate.WORK, {"process": 3.19, "node": 0.89}, {"process": 3.66}, {"process": 3.68, "node": 1.03}),
    (gate.LINES, {PAIR: 94.1 / 176, SHARED: 0.0}, {PAIR: 94.2 / 176}, {PAIR: 95.1 / 176, SHARED: 1}),
])
def test_what_harmless_changes_move_passes_and_what_is_beyond_fails(kind, was, within, beyond):
    assert failures(was, was | within, kind) == []
    assert len(failures(was, was | beyond, kind)) == len(beyond)


def test_a_failure_names_the_operation_and_both_figures_and_what_to_do():
    (failure,) = failures({"call": 0.7, "fine": 1.0}, {"call": 0.8, "fine": 1.0})
    for word in ("call", "0.8000", "0.7000", "make goals UPDATE=1"):
        assert word in failure


@pytest.mark.parametrize("kind", gate.KINDS)
def test_what_is_not_recorded_or_not_measured_fails(kind):
    assert len(failures({}, {"call": 1.0}, kind)) == 1
    assert len(failures({"call": 1.0}, {}, kind)) == 1


def test_an_ending_may_keep_a_little_more():
    assert gate.kept_too_much({"process killed": (500, 0, {})}, {"process killed": (500 + gate.KEPT, 0, {})}) == []
    assert len(gate.kept_too_much({"process killed": (500, 0, {})}, {"process killed": (501 + gate.KEPT, 0, {})})) == 1


def test_doubts_of_both_count_for_ours():
    ours = {"process killed": (540 + gate.KEPT, 40, {})}
    assert gate.kept_too_much({"process killed": (500, 30, {})}, ours) == []
    assert len(gate.kept_too_much({"process killed": (489, 30, {})}, ours)) == 1


def test_one_reference_more_fails_and_what_is_freed_late_passes():
    def kept(case, pids, files=0):
        return {case: (0, 0, {"pid": pids, "filp": files})}

    assert gate.kept_too_much(kept("call", 1), kept("call", 1.2, 0.2)) == []
    assert len(gate.kept_too_much(kept("call", 1), kept("call", 2, 1))) == 2
    assert len(gate.kept_too_much(kept("thread exits", 0), kept("thread exits", 1))) == 1


def test_a_stage_judges_all_that_the_boot_has_counted(monkeypatch):
    ours, base = weighed(0.5), weighed(1)
    recorded = gate.figures(ours, base)
    monkeypatch.setattr(gate, "read", lambda: recorded)
    monkeypatch.setattr(gate, "weighed", lambda driver: ours if driver == "rust" else base)
    tally = Tally()
    gate.stage_of_weights(tally)
    assert [failed for _, _, failed in tally.rows] == [0] * 6
    # Another half of the figures is worse in each of two boots.
    once, then = ours | {"ends": {"node": 800}}, ours | {"counts": weighed(0.6)["counts"]}
    monkeypatch.setattr(gate, "weighed", lambda driver, later=False: base if driver == "c" else then if later else once)
    gate.stage_of_weights(tally := Tally())
    assert [failed for _, _, failed in tally.rows] == [0] * 6
    worse = {"counts": weighed(0.6)["counts"], "memory": {"node": 80}, "ends": {"node": 800}, "traced": 2, "kept": {"call answered": [100, 0, {}]}}
    monkeypatch.setattr(gate, "weighed", lambda driver, later=False: worse if driver == "rust" else base)
    gate.stage_of_weights(tally := Tally())
    failed = [name for name, _, bad in tally.rows if bad]
    assert len(failed) == 2 * len(bench_run._MAIN) + 4 and any(name.startswith("call answered: 100 bytes") for name in failed)


def test_the_comparison_is_of_all_drivers_and_the_dearer_boot_of_ours(monkeypatch, capsys):
    scales = {("c", False): 1, ("upstream", False): 2, ("rust", False): 0.5, ("rust", True): 0.75}
    monkeypatch.setattr(gate, "weighed", lambda driver, again=False, later=False: weighed(scales[driver, later]))
    monkeypatch.setattr(bench_run.packages, "ensure", lambda *names: None)
    for drawn in ("sections", "headline", "_facts"):
        monkeypatch.setattr(bench_run, drawn, lambda *figures: [])
    monkeypatch.setattr(bench_run.page, "render", lambda *parts: "")
    monkeypatch.setattr(bench_run.proc, "write", lambda path, content: None)
    assert bench_run.run() == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if " null call " in f" {line} ")
    assert [word for word in ("15 000", "20 000", "40 000") if word in row] == ["15 000", "20 000", "40 000"]


LIMITS = """\
[goals.x]
most = 1

# Figures.
[gate]
"handles size=0 reply=24 refs=1000" = { ratios = 0.7033 }
"call" = { ratios = 0.7000 }
"node" = { memory = 1.0280 }
"""


def test_an_update_keeps_what_only_scatters():
    measured = {"ratios": {"handles size=0 reply=24 refs=1000": 0.69, "call": 0.703}, "locked": {"call": 42}, "memory": {"node": 1.05}, "work": {}, "lines": {}}
    text = gate.written(LIMITS, measured)
    assert text.startswith(LIMITS[:LIMITS.index("[gate")])
    assert gate._record(text) == {"ratios": {"handles size=0 reply=24 refs=1000": 0.7033, "call": 0.703}, "locked": {"call": 42.0},
                                  "memory": {"node": 1.028}, "work": {}, "lines": {}}
    assert gate.written(text, measured) == text


def test_each_goal_that_is_counted_in_minutes_is_held():
    recorded, tables = gate.read(), goals.read()
    for table, named in (("ratios", "instructions"), ("locked", "locked"), ("memory", "memory")):
        for goal in tables[named].goals:
            assert goals.figure(recorded[table], goal.key) is not None, goal.key
    assert recorded["lines"].keys() == set(moves.GATED)


NAMED = {
    "instructions": goals.Table("instructions", "make goals", [
        goals.Goal("null call", "call", 0.62), goals.Goal("nested call", "deep / flat", 1.0)]),
    "locked": goals.Table("locked operations", "make bench", [goals.Goal("null call", "call", 44)]),
}
REACHED = {"instructions": {"call": 0.62, "deep": 0.7, "flat": 0.7}, "locked": {"call": 44.3}}


def changed(table, **figures):
    return REACHED | {table: REACHED[table] | figures}


@pytest.mark.parametrize("figures, verdicts", [
    (REACHED, ["met"] * 3),
    (changed("instructions", call=0.651), ["not met, +5.0 %", "met", "met"]),
    (changed("instructions", call=0.6201), ["not met, +0.0 %", "met", "met"]),
    # A quotient is of two figures.
    (changed("instructions", deep=0.77), ["met", "not met, +10.0 %", "met"]),
    ({"instructions": {"call": 0.5, "deep": 0.7}}, ["met", "not measured", "not measured"]),
    # Counts are rounded to whole numbers.
    (changed("locked", call=44.6), ["met", "met", "not met, +1.4 %"]),
    ({}, ["not measured"] * 3),
])
def test_verdicts_and_the_exit_status(figures, verdicts):
    tables = goals.filled(NAMED, figures)
    assert [goal.verdict for table in tables for goal in table.goals] == verdicts
    assert goals.status(tables) == (verdicts != ["met"] * 3)


def test_goal_figure_and_verdict_are_in_one_line():
    lines = goals.lines(goals.filled(NAMED, changed("instructions", call=0.651)))
    (line,) = [line for line in lines if "0.620" in line]
    assert line.split() == ["null", "call", "0.620", "0.651", "not", "met,", "+5.0", "%"]
    assert lines[-1].strip() == "2 of 3 goals are met; not met: 1; not measured: 0"


def test_the_table_has_all_goals_with_their_commands():
    made = goals.table(goals.filled(NAMED, changed("instructions", call=0.651)))
    assert made.rows[0] == ["instructions", "make goals", "null call", "0.620", "0.651", "not met, +5.0 %"]
    assert len(made.rows) == 3


def test_the_middle_of_boots_is_the_figure():
    boots = [{"median": {"point": point}} for point in (0.8, 0.9, 0.85)]
    assert goals.times({("c", "free", 0): boots}) == {"c, free, 0": 0.85} and goals.times({}) == {}


def boot(base, other, ratio, width):
    return {"median_us": [base, other], "median": {"point": ratio, "low": ratio - width, "high": ratio + width}, "average": {"point": ratio + 0.1}}


FOUND = {("c", "one CPU", 4096): [boot(10.0, 8.0, 0.8, 0.01), boot(30.0, 21.0, 0.7, 0.02), boot(20.0, 18.0, 0.9, 0.01)]}


def test_the_middle_of_boots_and_their_ends():
    assert paired.table(FOUND).rows == [["call with 4 KiB", "one CPU", "20.0", "18.0", "0.800", "0.700", "0.900", "0.020", "0.900", "C"]]
