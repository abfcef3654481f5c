# SPDX-License-Identifier: GPL-2.0
"""Results by name. `binder-bench report --json` merges them and computes ratios and intervals, so that the rules are written once."""

import dataclasses
import json
import subprocess
import tomllib

from lab import say
from lab.versions import ROOT

NAMES = {"c": "C", "rust": "Rust Binder", "upstream": "upstream Rust"}
# The names of operations, by those of their cells: those of goals, and of others.
TITLES = {key: goal["row"] for key, goal in tomllib.loads((ROOT / "tools/binder-bench/limits.toml").read_text())["goals"]["instructions"]["goals"].items()}
TITLES |= {f"{key} size={size}": title for key, size, title in (
    ("handles", "0 reply=24 refs=100000", "new handle, next to 100 000"), ("freeze freeze and thaw", "0 reply=0", "freeze and thaw"),
    ("death nodes die", "0 reply=0 nodes=1", "death of a node"),
    *(("fanin", f"0 reply=0 threads={count}", f"call to a pool of {count} thread{'s' * (count > 1)}") for count in (1, 4)),
    *(("nested", f"4 reply=0 depth={depth}", f"nested call, depth {depth}") for depth in (1, 2, 4)),
    *(("spam", f"0 reply=0 outstanding={count}", f"oneway call, {count} outstanding") for count in (0, 64, 400)))}


def title(name):
    """An operation's name for people, by that of its cell."""
    return TITLES.get(name, name.partition(" size=")[0])


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
        """The operation's name for people, and the number of pairs."""
        alone = dataclasses.replace(self, pairs=1).name
        words = [self.workload, self.case or ("" if self.parameters else bytes_name(self.size))]
        label = TITLES.get(alone) or ", ".join([" ".join(filter(None, words)), *(f"{name} {value}" for name, value in self.parameters)])
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
