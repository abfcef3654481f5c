# SPDX-License-Identifier: GPL-2.0
"""`make bench`: our driver next to C on Debian's own kernel, in minutes and exactly, and a page that shows it; no kernel is compiled.

`make bench FULL=1` adds times in User Mode Linux on three drivers, and cache lines that move; `ONLY=` names parts of that.
"""

import os
import platform

from . import bench, emulator, gate, guest, kernel, marked, moves, packages, paired, programs, say
from .versions import BUILD, ROOT
from report import charts, data, page

PARTS = ("count", "time", "lines", "paired")
DOCUMENT = ROOT / "docs/performance.md"
FIGURES = ROOT / "docs/figures"
NEXT = ("make bench FULL=1       times on three drivers, and cache lines that move between CPUs",
        "make contract GUEST=debian  the contract suite on the same kernel",
        "make boot GUEST=debian  a shell on that kernel with our driver, or DRIVER=c")
# For how long each of the 150 or so points is timed in a boot; several boots show more than one long one.
SECONDS, ROUNDS = 0.25, 3
_TIMED = ("c", "rust", "upstream")
# The operations of README's figure, by what gate and page call them.
_MAIN = {
    "throughput size=0 reply=0": "null call", "throughput size=4096 reply=0": "call with 4 KiB",
    "throughput size=65536 reply=0": "call with 64 KiB", "oneway size=0 reply=0": "oneway call",
    "objects transient size=24 reply=0": "call with an object", "fds size=24 reply=0 files=1": "call with a file",
    "death request and clear size=0 reply=0": "death notice, withdrawn", "death nodes die size=0 reply=0 nodes=1": "death of a node",
}


def run(parts=("count",), again=False, into_docs=False):
    """Measure what was not measured yet, print and draw it, in documents, too; the exit status. Parts that are left out keep their last
    results, which the page shows as well."""
    packages.ensure("base", "rust", "x86_64")
    say.note(f"comparing our driver with the C driver on Debian's own kernel ({bench.COUNTED}): exact instructions and locked operations")
    found = {driver: gate.weighed(driver, again=again and "count" in parts) for driver in bench.DRIVERS}
    ours, base = found["rust"], found["c"]
    tables = {"instructions": page.counts(ours["counts"], base["counts"]), "memory": page.memory(ours["memory"], base["memory"])}
    latency = data.report(programs.build(bench.CRATE), _timed(again))["latency"] if "time" in parts else {}
    if latency:
        tables["time"] = page.times(latency)
    moved = moves.measure(again) if "lines" in parts else {}
    if moved:
        tables["lines"] = page.Table(moves.HEADERS, moves.rows(moved))
    for table in tables.values():
        print("\n" + "\n".join(page.plain(table)))
    if "paired" in parts:
        paired.run(into_docs=into_docs)
    if into_docs:
        _documents(tables, found, moved)
    drawn = BUILD / "report/index.html"
    drawn.parent.mkdir(parents=True, exist_ok=True)
    drawn.write_text(page.render(sections(tables, found, latency), headline(ours, base), _facts("time" in parts)))
    following = [f"{'next' if not index else '':<9} {text}" for index, text in enumerate(NEXT)]
    print("\n" + "\n".join([*headline(ours, base), f"open      {drawn}", *following]))
    return 0


def _timed(again):
    """The result files of boots in User Mode Linux. Drivers take turns, so that a slow drift of the machine affects all alike."""
    steps = []
    for turn in range(1, ROUNDS + 1):
        for driver in _TIMED:
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
    names = {name: _MAIN.get(name, name) for name in found["rust"]["counts"]}
    each = lambda index: [(names[name], {who: found[who]["counts"][name][index] for who in bench.DRIVERS}) for name in names if name in _MAIN]
    made = [page.Section("instructions", "Instructions and locked operations",
                         "Exact, on Debian's own kernel: counted by the guest's own clock and by a plugin of QEMU, the same in every run.",
                         (charts.bars("Instructions of an operation", each(0)), charts.bars("Locked operations", each(1))), tables["instructions"]),
            page.Section("memory", "Memory per object", "Bytes of kernel memory of one more object: the slope of a line through many of them.",
                         (charts.bars("Bytes of one more object", memory_rows(found)),), tables["memory"])]
    if latency:
        made.append(page.Section("time", "Time per operation", "User Mode Linux at native speed; no winner is named where the 95 % interval contains 1.",
                                 (charts.ratios("Median time ÷ C, 95 % interval", intervals(latency)),), tables["time"]))
    if "lines" in tables:
        made.append(page.Section("lines", "Lines that move between CPUs",
                                 "Cache lines that a CPU reads after another one has changed them, or writes while others have them, in a "
                                 "call; exact, in a model of caches. Locked: operations on a line that another CPU was the last to write. "
                                 "Turns: of loops that wait for a lock.",
                                 (), tables["lines"]))
    return made


def intervals(latency):
    """Rows for a chart: of each operation the ratio of medians to C, and the ends of its interval."""
    rows = []
    for cell in data.cells(latency):
        measured = {who: row["ratios"]["p50"] for who in ("rust", "upstream") if (row := latency.get((cell, who))) and row["ratios"]}
        rows.append((cell.label, {who: (ratio["point"], ratio["low"], ratio["high"]) for who, ratio in measured.items()}))
    return [row for row in rows if row[1]]


def memory_rows(found):
    return [(name, {who: found[who]["memory"][name] for who in bench.DRIVERS}) for name in found["rust"]["memory"]]


def headline(ours, base):
    """The main figures."""
    return [f"  {title:<24} {ours['counts'][name][0] / base['counts'][name][0]:.3f} × C's instructions, "
            f"{page.over(ours['counts'][name][1], base['counts'][name][1])} × its locked operations" for name, title in list(_MAIN.items())[:4]]


def _facts(timed):
    qemu = emulator.version("x86_64").splitlines()[0].removeprefix("QEMU emulator version ")
    about = bench.known(bench.result_of("weighed", "rust"))
    return [("our driver", about["commit"]), ("counted", f"{about['began']} UTC, {kernel.build(bench.COUNTED).release}, QEMU {qemu}"),
            ("host", f"{bench.processor()}, {os.cpu_count()} CPUs, Linux {platform.release()}"),
            *([("times", f"{ROUNDS} boots of each driver in User Mode Linux")] if timed else [])]


def _documents(tables, found, moved):
    """The tables and figures of documents, of what was measured now."""
    weighed, timed = [bench.result_of("weighed", "rust")], sorted((bench.HOME / "time").glob("*.json"))
    when = {"instructions": weighed, "memory": weighed, "time": timed,
            "lines": [bench.result_of(f"lines-{cpus}-all", "rust") for cpus in moves.LOADS]}
    for name, paths in when.items():
        if name in tables:
            marked.put(DOCUMENT if name != "memory" else ROOT / "docs/memory.md", name, f"{bench.when(paths)}.\n\n{page.markdown(tables[name])}")
    counts = {who: found[who]["counts"] for who in bench.DRIVERS}
    share = lambda name, index: {who: 100 * counts[who][name][index] / counts["c"][name][index] for who in bench.DRIVERS}
    ratio = lambda now, was: {"rust": (now / was,) * 3}
    both = [(f"{title}: {what}", share(name, index)) for index, what in enumerate(("instructions", "locked")) for name, title in _MAIN.items()]
    drawn = {"headline": charts.bars("Exact instructions and locked operations, C = 100", both),
             "front-instructions": charts.ratios("Instructions ÷ C, exact", [
                 (title, ratio(counts["rust"][name][0], counts["c"][name][0])) for name, title in _MAIN.items()]),
             "memory": charts.bars("Bytes of one more object", memory_rows(found))}
    if moved:
        drawn["front-lines"] = charts.ratios("Lines that move ÷ C, exact", [
            (row[0], ratio(float(row[2]), float(row[1]))) for row in tables["lines"].rows if row[3] != "–"])
    for name, chart in drawn.items():
        (FIGURES / f"{name}.svg").write_text(chart)
