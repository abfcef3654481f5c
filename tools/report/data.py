# SPDX-License-Identifier: GPL-2.0
"""Results by name. `binder-bench report --json` merges them and computes ratios and intervals, so that the rules are written once."""

import dataclasses
import json
import subprocess

from lab import say

NAMES = {"c": "C", "rust": "Rust Binder", "upstream": "upstream Rust"}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One point of the measurement."""

    workload: str
    case: str = ""
    size: int = 0
    reply: int = 0
    pairs: int = 1
    parameters: tuple = ()

    @classmethod
    def of(cls, fields):
        return cls(fields["workload"], fields["case"], fields["size"], fields["reply"], fields["pairs"],
                   tuple(sorted(fields["parameters"].items())))

    @property
    def name(self):
        """A name that no other cell has, for files."""
        words = [self.workload, self.case, *(f"{k}={getattr(self, k)}" for k in ("size", "reply")),
                 f"pairs={self.pairs}" if self.pairs > 1 else "", *(f"{k}={v}" for k, v in self.parameters)]
        return " ".join(filter(None, words))

    @property
    def label(self):
        """A name for people: as short as possible, and still different from other cells'."""
        words = [self.workload, self.case]
        if not self.case and not self.parameters:
            words.append(bytes_name(self.size))
        label = ", ".join([" ".join(filter(None, words)), *(f"{name} {value}" for name, value in self.parameters)])
        return f"{label} × {self.pairs}" if self.pairs > 1 else label


def bytes_name(size):
    """A payload, for people."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def report(program, paths):
    """The output of `binder-bench report` for these result files: {kind: {(cell, driver): row}}."""
    done = subprocess.run([str(word) for word in (program, "report", "--json", *paths)], text=True, capture_output=True)
    if done.returncode:
        raise say.LabError(f"binder-bench cannot use the results, measure again (`make bench`): {done.stderr.strip()}")
    merged = json.loads(done.stdout)
    return {kind: {(Cell.of(row), row["driver"]): row for row in merged[kind]} for kind in ("latency", "growth")}


def cells(rows):
    """The cells of {(cell, driver): row}, in the order of binder-bench's report."""
    return list(dict.fromkeys(cell for cell, _ in rows))
