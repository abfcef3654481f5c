# SPDX-License-Identifier: GPL-2.0
"""`make boots`: how far boots of one driver lie apart, and whether one of them is slower throughout. Many boots of the C driver and
of ours in turns, each of which times nothing but null calls, on one CPU of the host.
"""

import json
import statistics

from . import bench, marked, programs, say
from .versions import ROOT

DOCUMENT = ROOT / "docs/performance.md"
DRIVERS = ("c", "rust")
# Only its boots stay on one CPU of the host (bench.measure).
GUEST = "um"
# A boot that is slower than the middle one of its driver by more than this is told.
APART = 0.10
_CALLS = ("--sizes", "0", "--pairs", "1", "--carriers", "binder")
_NAMES = {"c": "C", "rust": "ours"}


def run(boots, seconds, into_docs=False):
    """So many boots of each driver, `seconds` of calls in each, and a table."""
    if into_docs:
        marked.must_have(DOCUMENT, "boots")
    program = programs.build(bench.CRATE)
    found = {driver: [] for driver in DRIVERS}
    for boot in range(1, boots + 1):
        # Who comes first is last in the next.
        for driver in DRIVERS if boot % 2 else DRIVERS[::-1]:
            content = bench.measure(f"boot {boot} of {boots}, {driver}", GUEST, driver, program, "boots", (*_CALLS, "--seconds", str(seconds)))
            found[driver].append(median(content))
    text = table(found)
    print("\n" + text)
    slow = {driver: slower(of_driver) for driver, of_driver in found.items()}
    say.note("; ".join(f"{_NAMES[driver]}: {len(numbers) or 'no'} boot{'s' * (len(numbers) != 1)} slower than the middle one by more than "
                       f"{APART:.0%}" for driver, numbers in slow.items()))
    if into_docs:
        marked.put(DOCUMENT, "boots", text)
    return 0


def median(content):
    """The middle one of the medians of a boot's blocks, in nanoseconds, from what binder-bench wrote."""
    (cell,) = json.loads(content)["cells"]
    return statistics.median(block["p50_ns"] for block in cell["measured"]["latency"]["blocks"])


def slower(times):
    """The numbers, from 1, of the boots that are slower than the middle one by more than `APART`."""
    most = statistics.median(times) * (1 + APART)
    return [number for number, time in enumerate(times, 1) if time > most]


def table(found):
    """A line for each driver; `found` is {driver: the median of each boot, in nanoseconds}."""
    lines = ["| driver | boots | fastest, µs | middle | slowest | slowest ÷ middle | each, in their order |", "|---|--:|--:|--:|--:|--:|---|"]
    for driver, times in found.items():
        middle = statistics.median(times)
        each = " ".join(f"{time / 1000:.1f}" for time in times)
        lines.append(f"| {_NAMES[driver]} | {len(times)} | {min(times) / 1000:.1f} | {middle / 1000:.1f} | {max(times) / 1000:.1f} "
                     f"| {max(times) / middle:.2f} | {each} |")
    return "\n".join(lines) + "\n"
