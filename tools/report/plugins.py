# SPDX-License-Identifier: GPL-2.0
"""Plugins of QEMU: compiling one, and reading the file that it writes.

binder-bench marks the start of a short or a long window of calls by NOPs with an operand of its own. A long window less
a short one, divided by the calls that it has more, is what a call costs.
"""

import dataclasses
import pathlib
import re
import subprocess
import typing

from lab import say

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("short", "long")
# The tolerance between a plugin's count and that of binder-bench by the guest's clock.
AGREED = 0.01


def sources(name):
    """The files that plugin `name` is made of."""
    wanted, found = [name], []
    while wanted:
        path = HERE / wanted.pop()
        if path not in found:
            found.append(path)
            wanted += re.findall(r'^#include "(.+)"', path.read_text(), re.M)
    return sorted(found)


def compiled(name, folder, *words):
    """Options of QEMU for plugin `name`, which is made in `folder`, and the file that it writes."""
    made, seen = folder / "plugin.so", folder / "seen"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-o", made, HERE / name], check=True)
    return ("-plugin", ",".join([str(made), f"out={seen}", *words])), seen


def parts(text):
    """The lines that a plugin has written of each thing that was measured, as words."""
    found, part = [], []
    for line in text.splitlines():
        if line == "end":
            found.append(part)
            part = []
        else:
            part.append(line.split())
    return found


@dataclasses.dataclass
class Operation:
    """One thing that was measured: the fields that binder-bench gave its cell, and what a plugin saw."""

    cell: dict
    seen: typing.Any

    @property
    def calls(self):
        """The number of calls that all long windows have more than all short ones."""
        count = self.cell["measured"]["count"]
        return (count["n2"] - count["n1"]) * len(count["t1"]) * self.cell["pairs"]

    def of_a_unit(self, index):
        """From windows, [KIND, INSTRUCTIONS, LOCKED]: how many of one of these a unit has."""
        count = self.cell["measured"]["count"]
        short, long = (undisturbed_mean([int(window[index]) for _, *window in self.seen if window[0] == kind]) for kind in KINDS)
        return (long - short) / (count["n2"] - count["n1"]) / self.cell["batch"]


def undisturbed_mean(values):
    """The mean of all but the highest quarter, as binder-bench takes it: a tick in a window hardly counts."""
    lower = sorted(values)[:len(values) - len(values) // 4]
    return sum(lower) / len(lower)


def operations(cells, text):
    """The operations that binder-bench measured, each with the plugin's counts of it."""
    seen = parts(text)
    if len(seen) != len(cells):
        raise say.LabError(f"binder-bench measured {len(cells)} things, and the plugin saw {len(seen)}")
    return [Operation(cell, each) for cell, each in zip(cells, seen)]


def count(cells, text):
    """Put the instructions and locked operations of a unit that locked.c saw into each cell's count."""
    for operation in operations(cells, text):
        count = operation.cell["measured"]["count"]
        instructions = operation.of_a_unit(1)
        if abs(instructions / count["instructions"] - 1) > AGREED:
            raise say.LabError(f"the plugin counts {instructions:.0f} instructions, and binder-bench {count['instructions']:.0f} for "
                               f"{operation.cell['workload']} {operation.cell['case']}: one of them is wrong")
        count |= {"instructions": instructions, "locked": operation.of_a_unit(2)}
