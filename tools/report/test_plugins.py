# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of windows, and of lines that move, without a guest."""

import pytest

from lab import code, coverage, goals, moves, say
from . import lines, plugins, symbols


def cell(instructions, batch=1):
    count = {"n1": 10, "n2": 40, "t1": [0] * 4, "t2": [0] * 4, "instructions": instructions}
    return {"workload": "throughput", "case": "", "pairs": 1, "batch": batch, "measured": {"count": count}}


# A window costs 500, and 5 of them locked, and a call 100 and 2; a tick came into two windows.
SEEN = """\
window short 1500 25
window long 4500 85
window short 1500 25
window long 9500 99
window short 7500 77
window long 4500 85
window short 1500 25
window long 4500 85
end
"""


def counted(*cells, seen=SEEN):
    plugins.count(cells, seen)
    return [cell["measured"]["count"] for cell in cells]


def test_a_tick_and_the_price_of_a_window_leave_no_trace():
    (count,) = counted(cell(100.4))
    assert (count["instructions"], count["locked"]) == (100.0, 2.0)
    assert plugins.operations([cell(100.0)], SEEN)[0].calls == 120


def test_of_a_batch_each_counts():
    assert counted(cell(25.0, batch=4))[0]["locked"] == 0.5


def test_each_thing_has_its_own_windows():
    assert [count["locked"] for count in counted(cell(100.0), cell(100.0), seen=SEEN + SEEN.replace("85", "55"))] == [2.0, 1.0]


def test_the_plugin_and_the_clock_have_to_agree():
    with pytest.raises(say.LabError, match="counts 100 instructions, and binder-bench 103"):
        counted(cell(103.0))


def test_what_the_plugin_did_not_see_is_an_error():
    with pytest.raises(say.LabError, match="measured 2 things, and the plugin saw 1"):
        counted(cell(100.0), cell(100.0))


def test_a_plugin_is_made_of_what_it_includes():
    assert {path.name for path in plugins.sources("locked.c")} == {"locked.c", "plugin.h"}


@pytest.mark.parametrize("name", ["code.c", "coverage.c", "locked.c", "lines.c", "stretches.c"])
def test_plugins_compile(name, tmp_path):
    words, seen = plugins.compiled(name, tmp_path, "word=1")
    assert words[1] == f"{tmp_path}/plugin.so,out={seen},word=1" and (tmp_path / "plugin.so").exists()


def test_code_counts_if_half_of_the_calls_execute_it():
    # Long windows have 160 calls. Of a line that two blocks share, one of them was executed often enough.
    blocks = (("40", "60", 79), ("80", "a0", 80), ("c0", "d0", 10), ("d0", "100", 160))
    lines = "".join(f"block ffffffffa00000{start} ffffffffa0000{end:0>3} 4 {times}\n" for start, end, times in blocks)
    (operation,) = plugins.operations([cell(100.0)], SEEN.replace("end\n", f"{lines}end\n"))
    names = symbols.Names([symbols.Function(0xffffffffa0000000 + at, name, module) for at, name, module in ((0, "kernel", ""), (0xe0, "ours", "binder_rust"))])
    assert code.summary(operation, names) == {"lines, driver": 1, "lines, all": 2, "branches": 100.0, "indirect": 2.0, "of": {"ours": 1}}


def test_functions_only_sorted_with_their_module():
    text = "00000000000000c8 t second\t[binder_rust]\n0000000000000064 T first\n" \
           "0000000000000065 d data\n0000000000000064 T alias\n0000000000000000 T absent\n"
    assert symbols.read(text) == [symbols.Function(100, "first", ""), symbols.Function(200, "second", "binder_rust")]


def test_hashes_are_cut_from_rust_names():
    assert symbols.shorten("rust_binder[8a5f0c11d2]::send::submit") == "rust_binder::send::submit"


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


def test_a_row_has_ours_next_to_the_others():
    (row,) = moves.rows({"c": {"a call": OF_C}, "rust": {"a call": OURS}, "upstream": {"a call": OF_C}})
    assert row == ["a call", "5.0", "10.0", "2.00", "0.0", "10.0", "1.0", "1.0", "3.0", "0.0", "5.0", "3.0"]
    assert len(row) == len(moves.HEADERS)


def test_executed_instructions_of_a_module_that_was_loaded_twice():
    """The loader has changed the operand of the call, which is the block's second instruction."""
    code = bytes(range(16)) + b"\xe8\0\0\0\0\x90" + bytes(range(16, 32))
    long, call = f"+{code[:12].hex()} {code[12:16].hex()}", "+e811223344 +90"
    seen = f"ffffffffa0001000 0 {long}\nffffffffa0005000 0 {long}\nffffffffa0005010 2 {call}\nffffffffa0009000 3 +90\n"
    assert sorted(set(coverage.addresses(seen, [(0x400, code)]))) == [(0x400, 0), (0x410, 0), (0x415, 2)]


DISASSEMBLED = """
 400:      \tjne\t0x407 <a>
 402:      \tcallq\t0x0
\t\t0000000000000403:  R_X86_64_PLT32\tother-0x4
 407:      \tcallq\t0x0
\t\t0000000000000408:  R_X86_64_PLT32\t_RNvNtCs3_4core9panicking5panic-0x4
 40c:      \tjmp\t0x400 <a>
 40e:      \tjb\t0x402 <a>
 410:      \tretq
"""


def test_jumps_to_a_panic_are_no_branches(monkeypatch):
    monkeypatch.setattr(coverage, "_llvm", lambda *words: DISASSEMBLED)
    assert coverage._jumps("located") == [0x40e]


def test_uncovered_lines_become_ranges_over_lines_without_code():
    assert coverage.ranges({3: False, 5: False, 6: True, 9: False}) == "3–5, 9"
