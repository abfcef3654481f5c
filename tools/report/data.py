# SPDX-License-Identifier: GPL-2.0
"""What the result files of binder-bench say, in the shape that figures need.

Merging, ratios and their intervals come from `binder-bench report --json`: how to judge is written once, there.
What is read from the files themselves are histograms and the spread over boots.
"""

import collections
import dataclasses
import json
import re
import statistics
import subprocess

from lab import say

BASE = "c"
_ORDER = ("throughput", "rpc", "oneway", "nested", "fanin", "objects", "fds", "handles", "freeze", "death", "spam")


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """One point of the measurement, whoever carried the calls."""

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
    def order(self):
        """Where it stands among others: numbers within names count as numbers."""
        place = _ORDER.index(self.workload) if self.workload in _ORDER else len(_ORDER)
        case = [(word.isdigit(), int(word) if word.isdigit() else word) for word in re.split(r"(\d+)", self.case)]
        return place, case, self.parameters, self.size, self.reply, self.pairs

    @property
    def name(self):
        """A name that tells it apart from all others, for files."""
        words = [self.workload, self.case, *(f"{k}={getattr(self, k)}" for k in ("size", "reply")),
                 f"pairs={self.pairs}" if self.pairs > 1 else "", *(f"{k}={v}" for k, v in self.parameters)]
        return " ".join(filter(None, words))

    @property
    def label(self):
        """A name for people, as short as it can be while it tells cells apart."""
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


@dataclasses.dataclass
class Results:
    """All files, and what binder-bench makes of them together."""

    paths: list
    files: list
    latency: dict
    counts: dict
    memory: dict
    growth: dict
    remarks: list

    def drivers(self):
        """Drivers that were measured, C first, then ours."""
        found = {file["driver"] for file in self.files}
        return [d for d in (BASE, "rust", "upstream") if d in found] + sorted(found - {BASE, "rust", "upstream"})

    def workloads(self):
        return {cell.workload for cell, _ in [*self.latency, *self.counts]}


def load(program, paths):
    """Read the result files at `paths`; `program` is binder-bench."""
    merged = json.loads(_report(program, "--json", paths))
    rows = {kind: {(Cell.of(row), _who(row["subject"])): row for row in merged[kind]}
            for kind in ("latency", "counts", "memory", "growth")}
    files = [json.loads(path.read_text()) for path in paths]
    return Results(list(paths), files, rows["latency"], rows["counts"], rows["memory"], rows["growth"],
                   merged["remarks"])


def rfc_tables(program, paths):
    """AOSP's tables as the RFC of Rust Binder had them, as text."""
    return _report(program, "--rfc", paths)


def _report(program, option, paths):
    done = subprocess.run([str(a) for a in (program, "report", option, *paths)], text=True, capture_output=True)
    if done.returncode:
        raise say.LabError(f"binder-bench cannot use the results, measure again (`make bench`): {done.stderr.strip()}")
    return done.stdout


def _who(subject):
    return next(iter(subject.values()))


def _measured(results, kind):
    """(cell, who, what was measured) of every file."""
    for file in results.files:
        for fields in file["cells"]:
            if kind in fields["measured"]:
                carrier = fields["carrier"]
                who = file["driver"] if carrier == "binder" else carrier
                yield Cell.of(fields), who, fields["measured"][kind]


def boots(results, figure):
    """{(cell, who): (middle, least, most)} of boots, in µs; a boot stands for the median of its blocks' `figure`."""
    found = collections.defaultdict(list)
    for cell, who, latency in _measured(results, "latency"):
        if latency["blocks"]:
            found[cell, who].append(statistics.median(b[figure] for b in latency["blocks"]) / 1000)
    return {key: (statistics.median(values), min(values), max(values)) for key, values in found.items()}


def percentiles(results, wanted, least=1e-5):
    """{who: [(fraction of calls at or below, µs)]} of one cell, all boots together, up to where `least` of
    the calls, and ten of them, are left."""
    sums = collections.defaultdict(collections.Counter)
    for cell, who, latency in _measured(results, "latency"):
        if cell == wanted:
            sums[who].update(dict(map(tuple, latency["histogram"])))
    curves = {}
    for who, histogram in sums.items():
        total, seen, points = sum(histogram.values()), 0, []
        for value in sorted(histogram):
            below, seen = seen, seen + histogram[value]
            if total - below < max(10, least * total):
                break
            points.append((below / total, value / 1000))
        curves[who] = points
    return curves


def environment(results):
    """Facts about the boots that are the same in all files, by name, and those that are not as a list."""
    facts = collections.defaultdict(list)
    for file in results.files:
        for name, value in file["environment"].items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            if text not in facts[name]:
                facts[name].append(text)
    return {name: " / ".join(values) for name, values in facts.items() if name != "boot_id"}
