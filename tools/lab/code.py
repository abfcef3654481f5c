# SPDX-License-Identifier: GPL-2.0
"""The kernel's code that a call executes, on each driver: `make bench ONLY=code`. A plugin of QEMU counts (tools/report/code.c).

Instruction counts do not show how many lines of a CPU's cache for code a call needs, nor the jumps that the CPU has to predict.
"""

import functools
import json

from . import bench
from report import page, plugins, symbols

LOADS = {"null call": "throughput --sizes 0 --pairs 1", "call with 64 KiB": "throughput --sizes 65536 --pairs 1", "oneway call": "oneway --sizes 0 --senders 1"}
# Bytes of a line of a CPU's cache.
_LINE = 64
FIGURES = ("lines, driver", "lines, all", "branches", "indirect")
HEADERS = ("of a call", *(f"{figure}: {driver}" for figure in FIGURES for driver in ("C", "Rust Binder", "upstream Rust")))


def measure(again=False):
    """{driver: {title: {figure: number}}}; `of` has for each function of the driver its lines."""
    runs = [f"$b {words} --count $words --output /out/{number}.json" for number, words in enumerate(LOADS.values())]
    boots = {driver: bench.Boot(f"code of {driver}", driver, " && ".join(runs), ("code.c",)) for driver in bench.DRIVERS}
    return {driver: bench.counted("code", boot, _made, again) for driver, boot in boots.items()}


def _made(files):
    cells = [json.loads(files[f"{number}.json"])["cells"][0] for number in range(len(LOADS))]
    names = symbols.Names(bench.functions(bench.COUNTED, files["symbols"]))
    return {title: summary(operation, names) for title, operation in zip(LOADS, plugins.operations(cells, files["seen"]))}


def summary(operation, names):
    """The figures of one operation. A line that fewer than half of the calls execute, such as one of the tick, does not count."""
    count, lines = operation.cell["measured"]["count"], {}
    for kind, *words in operation.seen:
        if kind == "block":
            start, end, times = int(words[0], 16), int(words[1], 16), int(words[3])
            for address in range(start // _LINE * _LINE, end, _LINE):
                lines[address] = max(times, lines.get(address, 0))
    least = count["n2"] * len(count["t1"]) * operation.cell["batch"] / 2
    often = [address for address in sorted(lines) if lines[address] >= least]
    of_driver = [name for name in map(functools.partial(_of_driver, names), often) if name]
    return dict(zip(FIGURES, (len(of_driver), len(often), operation.of_a_unit(1), operation.of_a_unit(2)))) | {
        "of": {name: of_driver.count(name) for name in dict.fromkeys(of_driver)}}


def _of_driver(names, line):
    """The driver's function at the end of a line, where there is one."""
    function = names.function(line + _LINE - 1)
    return function.name if symbols.is_driver(function) else ""


def table(found):
    """A row for each operation: each figure of C, ours and upstream's."""
    return page.Table(HEADERS, [[title, *(f"{found[driver][title][figure]:.0f}" for figure in FIGURES for driver in bench.DRIVERS)] for title in LOADS])
