# SPDX-License-Identifier: GPL-2.0
"""`make bench`: our driver next to C and upstream's on Debian's own kernel, in minutes and exactly, and a page that shows it; no kernel is compiled.

`make bench FULL=1` adds times in User Mode Linux, cache lines that move, and the code of a call; `ONLY=` names parts of that.
"""

import os
import platform

from . import aosp, bench, code, emulator, gate, guest, kernel, moves, packages, paired, proc, programs, reports, say
from .versions import BUILD
from report import charts, data, page

PARTS = ("count", "time", "lines", "code", "paired", "aosp")
NEXT = ("make bench FULL=1       times, and cache lines that move between CPUs",
        "make contract GUEST=debian  the contract suite on the same kernel",
        "make boot GUEST=debian  a shell on that kernel with our driver, or DRIVER=c")
# For how long each of the 150 or so points is timed in a boot; several boots show more than one long one.
SECONDS, ROUNDS = 0.25, 3
# The operations of the page's figures, by the names of their cells.
_MAIN = [name for name, title in data.TITLES.items() if title in reports.SHOWN]


def run(parts=("count",), again=False, into_docs=False):
    """Measure what was not measured yet, print and draw it; the exit status. `into_docs`: write files in reports/, too. Parts that are left
    out keep their last results, which the page shows as well."""
    packages.ensure("base", "rust", "x86_64")
    say.note(f"comparing our driver with the C driver and upstream's Rust driver on Debian's own kernel ({bench.COUNTED}): exact instructions and locked operations")
    found = gate.compared(again and "count" in parts)
    ours, base = found["rust"], found["c"]
    compared = lambda what: [found[driver][what] for driver in ("rust", "c", "upstream")]
    tables = {"instructions": page.counts(*compared("counts")), "memory": page.memory(compared("memory"), compared("ends"))}
    latency = data.report(programs.build(bench.CRATE), _timed(again))["latency"] if "time" in parts else {}
    if latency:
        tables["time"] = page.times(latency)
    moved = moves.measure(again) if "lines" in parts else {}
    if moved:
        tables["lines"] = page.Table(moves.HEADERS, moves.rows(moved))
    if "code" in parts:
        tables["code"] = code.table(code.measure(again))
    for table in tables.values():
        print("\n" + "\n".join(page.plain(table)))
    if "paired" in parts:
        paired.run(into_docs=into_docs)
    if "aosp" in parts:
        aosp.throughput(into_docs=into_docs)
    if into_docs:
        _put(tables)
    drawn = BUILD / "report/index.html"
    proc.write(drawn, page.render(sections(tables, found, latency), headline(ours, base), _facts("time" in parts)))
    following = [f"{'next' if not index else '':<9} {text}" for index, text in enumerate(NEXT)]
    print("\n" + "\n".join([*headline(ours, base), f"open      {drawn}", *following]))
    return 0


def _timed(again):
    """The result files of boots in User Mode Linux. Drivers take turns, so that a slow drift of the machine affects all alike."""
    steps = []
    for turn in range(1, ROUNDS + 1):
        for driver in bench.DRIVERS:
            title = f"times of {driver}, round {turn} of {ROUNDS}"
            inputs = [bench.identity(bench.TIMED, driver, timed=True), SECONDS]
            path = bench.HOME / "time" / f"{driver}-{turn}.json"
            steps.append(bench.Step(title, path, inputs, lambda title=title, driver=driver: _time(title, driver)))
    return [step.result(again) for step in steps]


def _time(title, driver):
    argv = ["/lab/binder-bench", "run", "--seconds", str(SECONDS), "--driver", driver, "--output", "/out/result.json"]
    # User Mode Linux stays on one host CPU, or its system calls take either 7 or 50 µs. Interrupts tend to go to the first.
    job = guest.Job(argv=argv, driver=driver, files={"/lab/binder-bench": programs.build(bench.CRATE)}, timeout=1500,
                    pin=max(os.sched_getaffinity(0)))
    return guest.succeed(title, kernel.build(bench.TIMED), job).files["result.json"].decode()


def sections(tables, found, latency):
    """The sections of the page, in their order."""
    weights = [(name, {who: found[who]["memory"][name] for who in bench.DRIVERS}) for name in found["c"]["memory"]]
    each = lambda index: [(data.title(name), {who: found[who]["counts"][name][index] for who in bench.DRIVERS}) for name in _MAIN]
    made = [page.Section("instructions", "Instructions and locked operations",
                         "Exact, on Debian's own kernel: counted by the guest's own clock and by a plugin of QEMU.",
                         (charts.bars("Instructions of an operation", each(0)), charts.bars("Locked operations", each(1))), tables["instructions"]),
            page.Section("memory", "Memory per object", "Bytes of kernel memory of one more object: the slope of a line through many of them. Kernel threads: their "
                         "instructions for each of many objects when the owner is killed.",
                         (charts.bars("Bytes of one more object", weights),), tables["memory"])]
    if latency:
        made.append(page.Section("time", "Time per operation", "User Mode Linux at native speed; no winner is named where the 95 % interval contains 1.",
                                 (charts.ratios("Median time ÷ C, 95 % interval", intervals(latency)),), tables["time"]))
    if "lines" in tables:
        made.append(page.Section("lines", "Lines that move between CPUs",
                                 "Cache lines that a CPU reads after another one has changed them, or writes while others have them, in a "
                                 "call; exact, in a model of caches. Locked: operations on a line that another CPU was the last to write. "
                                 "Turns: of loops that wait for a lock.",
                                 (), tables["lines"]))
    if "code" in tables:
        made.append(page.Section("code", "Code of a call", "Lines of 64 bytes of the kernel's code that at least half of the calls execute, taken branches, and "
                                 "indirect calls and jumps.", (), tables["code"]))
    return made


def intervals(latency):
    """Rows for a chart: of each operation the ratio of medians to C, and the ends of its interval."""
    rows = []
    for cell in data.cells(latency):
        measured = {who: row["ratios"]["p50"] for who in ("rust", "upstream") if (row := latency.get((cell, who))) and row["ratios"]}
        rows.append((cell.label, {who: (ratio["point"], ratio["low"], ratio["high"]) for who, ratio in measured.items()}))
    return [row for row in rows if row[1]]


def headline(ours, base):
    """The main figures."""
    return [f"  {data.title(name):<24} {ours['counts'][name][0] / base['counts'][name][0]:.3f} × C's instructions, "
            f"{page.over(ours['counts'][name][1], base['counts'][name][1])} × its locked operations" for name in _MAIN[:5]]


def _facts(timed):
    qemu = emulator.version("x86_64").splitlines()[0].removeprefix("QEMU emulator version ")
    about = bench.known(bench.result_of("weighed", "rust"))
    return [("our driver", about["commit"]), ("counted", f"{about['began']} UTC, {kernel.build(bench.COUNTED).release}, QEMU {qemu}"),
            ("host", f"{bench.processor()}, {os.cpu_count()} CPUs, Linux {platform.release()}"),
            *([("times", f"{ROUNDS} boots of each driver in User Mode Linux")] if timed else [])]


def _put(tables):
    """Write the files of tables."""
    weighed, timed = [bench.result_of("weighed", "rust")], sorted((bench.HOME / "time").glob("*.json"))
    for name, title, guest_name, paths in (
            ("instructions", "Instructions and locked operations", bench.COUNTED, weighed), ("memory", "Kernel memory of one more object", bench.COUNTED, weighed),
            ("time", "Time of operations, one driver in a boot", bench.TIMED, timed),
            ("lines", "Cache lines that move between CPUs", bench.COUNTED, [bench.result_of(f"lines-{cpus}-all", "rust") for cpus in moves.LOADS]),
            ("code", "Code of a call", bench.COUNTED, [bench.result_of("code", "rust")])):
        if name in tables:
            reports.put(name, title, bench.about(guest_name, paths), tables[name])
