# SPDX-License-Identifier: GPL-2.0
"""The main operations on Debian's own kernel and on ours, side by side: ratios, and what those that differ are made of.

Each kernel has been measured by `make bench`; a result of another driver than the one of now is not taken.
"""

from . import bench_series, kernel, marked, operations, programs, say, stock
from .bench import CRATE
from .bench_summary import number, ratio
from .versions import ROOT

DOCUMENT = ROOT / "docs/performance.md"
KERNELS = (stock.NAMES[0], "x86_64")
# What a driver decides: its own code, and what it has the kernel lock, allocate and search. The kernel does the rest for any driver.
_OWN = ("driver", "locks", "memory", "trees")


def into_docs():
    """Write the tables, if both kernels were measured with this driver."""
    program = programs.build(CRATE)
    found = {name: _measured(kernel.build(name), program) for name in KERNELS}
    lacking = [name for name, contents in found.items() if not contents]
    if lacking:
        say.note(f"docs/performance.md keeps its tables of two kernels: run `make bench GUEST={lacking[0]} DOCS=1` for them")
        return
    marked.put(DOCUMENT, "kernels", tables(*(found[name] for name in KERNELS)))


def _measured(built, program):
    """{driver: what a boot has told}, or nothing if one of them has not been measured."""
    steps = {driver: operations.step(built, driver, program) for driver in ("rust", "c")}
    return {driver: operations.load(step.path) for driver, step in steps.items()} if all(step.kept() for step in steps.values()) else {}


def tables(of_debian, of_ours):
    """Both kernels are {driver: what a boot has told}."""
    return "\n".join([*_counts(of_debian, of_ours), "", *_parts(of_debian, of_ours)]) + "\n"


def _counts(*kernels):
    lines = ["| operation | Debian's: ours | C | ours ÷ C | our kernel: ours | C | ours ÷ C | locked ÷ C, Debian's | our kernel |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    found = [{driver: operations.rows(content) for driver, content in one.items()} for one in kernels]
    for name in found[0]["rust"]:
        pairs = [(one["rust"][name], one["c"][name]) for one in found]
        counts = (f"{number(ours[0])} | {number(base[0])} | {ratio(ours[0], base[0])}" for ours, base in pairs)
        locked = (ratio(ours[1], base[1]) for ours, base in pairs)
        lines.append(f"| {name} | {' | '.join([*counts, *locked])} |")
    return lines


def _parts(*kernels):
    lines = ["| operation | what the driver decides: Debian's, ours | C | ours ÷ C | our kernel, ours | C | ours ÷ C "
             "| all else: Debian's, ours | C | our kernel, ours | C |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    found = [{driver: operations.parts(content) for driver, content in one.items()} for one in kernels]
    for name in found[0]["rust"]:
        own, rest = [], []
        for one in found:
            split = [_split(one[driver][name]) for driver in ("rust", "c")]
            own += [number(split[0][0]), number(split[1][0]), ratio(split[0][0], split[1][0])]
            rest += [number(split[0][1]), number(split[1][1])]
        lines.append(f"| {name} | {' | '.join([*own, *rest])} |")
    return lines


def _split(parts):
    """Instructions for what the driver decides, and for all else."""
    own = sum(parts.get(name, 0) for name in _OWN)
    return own, sum(parts.values()) - own
