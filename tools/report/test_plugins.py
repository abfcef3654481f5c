# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of windows, without a guest."""

import pytest

from lab import say
from . import plugins, symbols


def cell(instructions, batch=1, carrier="binder"):
    count = {"n1": 10, "n2": 40, "t1": [0] * 4, "t2": [0] * 4, "instructions": instructions}
    return {"workload": "throughput", "case": "", "pairs": 1, "batch": batch, "carrier": carrier, "measured": {"count": count}}


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
    assert {path.name for path in plugins.sources("locked.c")} == {"locked.c", "decode.h", "marks.h", "plugin.h"}


@pytest.mark.parametrize("name", ["locked.c", "lines.c", "stretches.c"])
def test_plugins_compile(name, tmp_path):
    words, seen = plugins.compiled(name, tmp_path, "word=1")
    assert words[1] == f"{tmp_path}/plugin.so,out={seen},word=1" and (tmp_path / "plugin.so").exists()


def test_functions_only_sorted_with_their_module():
    text = "00000000000000c8 t second\t[binder_rust]\n0000000000000064 T first\n" \
           "0000000000000065 d data\n0000000000000064 T alias\n0000000000000000 T absent\n"
    assert symbols.read(text) == [symbols.Function(100, "first", ""), symbols.Function(200, "second", "binder_rust")]


def test_hashes_are_cut_from_rust_names():
    assert symbols.shorten("rust_binder[8a5f0c11d2]::send::submit") == "rust_binder::send::submit"
