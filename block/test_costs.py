# SPDX-License-Identifier: GPL-2.0
"""What costs.py makes of the plugins' counts."""

import costs
from report import plugins, symbols


def test_cost_of_an_access():
    names = symbols.Names([symbols.Function(0xffffffff80000000 + at, name, module) for at, name, module in (
        (0, "submit_bio", ""), (0x100, "memcpy_orig", ""), (0x200, "brd_submit_bio", "brd"), (0x300, "ublk_copy", "ublk_drv"))])
    windows = [["window", *words] for words in (["short", "110", "12"], ["long", "140", "18"]) * 4]
    cell = {"measured": {"count": {"n1": 1, "n2": 4, "t1": range(2)}}, "batch": 1}
    # Two long windows of 4 accesses each: of an access 2 + 1 instructions of the driver, 4 of a copy, 2 of the rest.
    blocks = [["window", "long", "9", "9"], *(["block", f"ffffffff80000{at}", "0", instructions, times] for at, instructions, times in (
        ("200", "2", "8"), ("220", "1", "8"), ("100", "4", "8"), ("010", "1", "8"), ("300", "1", "8")))]
    assert costs.cost("brd", names, plugins.Operation(cell, windows), plugins.Operation(cell, blocks)) == costs.Cost(all=10, copies=4, driver=3, user=1, locked=2)


def test_one_line_for_a_device():
    rows = [["brd", way, str(size), "12000", "11000", "900", "0", "10"] for way in costs.WAYS for size in costs.SIZES]
    head, _, line = costs.table(rows)
    assert head == ("| device | 4 KiB: all | driver | user | locked | 64 KiB: all | copies | driver | 1024 KiB: all | copies | driver |")
    assert line == "| brd | 12 000 | 900 | 0 | 10 | 12 000 | 11 000 | 900 | 12 000 | 11 000 | 900 |"


def test_each_device_has_a_title_of_its_own():
    assert len({device.title for device in costs.DEVICES}) == len(costs.DEVICES)
