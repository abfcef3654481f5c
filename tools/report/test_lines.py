# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of lines that move, without a guest."""

import pytest

from lab import goals, moves, say
from . import lines, plugins, symbols

BASE = 0xffffffff80000000
FUNCTIONS = [symbols.Function(BASE + 0x100, "binder_ioctl", "binder_linux"), symbols.Function(BASE + 0x200, "_raw_spin_lock", ""),
             symbols.Function(BASE + 0x300, "sysvec_apic_timer_interrupt", ""), symbols.Function(BASE + 0x400, "try_to_wake_up", "")]
# Chain 1 is the driver, 2 the driver that takes a lock, 3 the tick, 4 the tick's lock.
CHAINS = """\
chain 1 0 ffffffff80000110
chain 2 1 ffffffff80000120
chain 3 0 ffffffff80000310
chain 4 3 ffffffff80000320
"""


def summary(text, pairs=1, batch=1):
    count = {"n1": 1, "n2": 6, "t1": [0, 0], "t2": [0, 0]}
    cell = {"workload": "throughput", "case": "", "pairs": pairs, "batch": batch, "measured": {"count": count}}
    (operation,) = plugins.operations([cell], f"{CHAINS}{text}\nend\n")
    return lines.summary(operation, FUNCTIONS)


def test_what_long_windows_have_more_counts_by_unit():
    text = "event short read a0 1 ffffffff80000404 10\nevent long read a0 1 ffffffff80000404 40\nevent long write a0 0 ffffffff80000104 20"
    assert summary(text)["unit"] == {"read": 3.0, "write": 2.0, "locked": 0, "pause": 0}
    assert summary(text, pairs=2, batch=3)["unit"]["read"] == 0.5


def test_a_helper_works_for_its_caller():
    data = summary("event long write a0 1 ffffffff80000208 10\nevent long write a0 1 ffffffff80000404 30")
    assert lines.moved(data, lines.DRIVER) == 1.0
    assert lines.moved(data, lines.KERNEL) == 3.0
    assert [text for _, _, text, _, _ in data["lines"][0]] == ["try_to_wake_up+0x4", "_raw_spin_lock+0x8 < binder_ioctl"]


def test_accesses_to_bytes_of_a_line_are_of_that_line():
    data = summary("event long write a0 1 ffffffff80000104 10\nevent long read bf 1 ffffffff80000104 10\n"
                   "event long read c0 1 ffffffff80000104 10")
    assert [[byte for _, byte, _, _, _ in line] for line in data["lines"]] == [[0x20, 0x3f], [0]]
    assert data["distinct"] == {lines.DRIVER: 2}


def test_the_tick_is_left_out():
    data = summary("event long write a0 4 ffffffff80000208 10")
    assert (lines.moved(data), data["lines"]) == (0, [])


def test_user_space_is_the_benchmark():
    assert summary("event long locked a0 0 401000 10")["owners"] == {lines.USER: {"read": 0, "write": 0, "locked": 1.0, "pause": 0}}


def test_turns_of_a_loop_move_no_line():
    data = summary("event long pause 0 1 ffffffff80000209 25")
    assert (data["unit"]["pause"], lines.moved(data)) == (2.5, 0)


def test_memory_that_is_not_seen_is_a_fault():
    with pytest.raises(say.LabError):
        summary("event long read a0 1 ffffffff80000404 100\nunknown 50")


def known(**changes):
    found = []
    for case, (read, write, locked, count) in moves.KNOWN.items():
        unit = {"read": read, "write": write, "locked": locked, "pause": 0} | changes
        found.append({"case": case, "owners": {lines.USER: unit}, "lines": [[["read", 0, "user space+0x0", lines.USER, 1.0]]] * count})
    return found


def test_known_cases_have_to_be_exact_and_all_there():
    assert moves.judge(known()) == []
    assert len(moves.judge(known(read=1))) == len(moves.KNOWN)
    assert moves.judge(known()[1:]) == ["hand over: was not measured"]


UNIT = {"read": 6.0, "write": 4.0, "locked": 1.0, "pause": 0.0}
OURS = {"unit": UNIT, "owners": {lines.DRIVER: UNIT}, "distinct": {lines.DRIVER: 2}}
OF_C = {"unit": UNIT | {"read": 1.0, "pause": 3.0}, "owners": {}, "distinct": {}}


def test_figures_are_those_that_the_goals_name():
    titles = [title for loads in moves.LOADS.values() for title, _ in loads]
    figures = moves.figures({"c": dict.fromkeys(titles, OF_C), "rust": dict.fromkeys(titles, OURS)})
    assert figures["pair on two CPUs: lines"] == 2.0
    assert (figures["8 clients, 8 CPUs: spins"], figures["independent pairs: shared lines"]) == (0.0, 2)
    assert {goal.key for goal in goals.read()["lines"].goals} <= figures.keys()
    assert moves.figures({"c": {}, "rust": {}}) == {}


def test_a_row_has_ours_next_to_c():
    (row,) = moves.rows({"c": {"a call": OF_C}, "rust": {"a call": OURS}})
    assert row == ["a call", "5.0", "10.0", "2.00", "0.0", "10.0", "1.0", "1.0", "3.0", "0.0"]
    assert len(row) == len(moves.HEADERS)
