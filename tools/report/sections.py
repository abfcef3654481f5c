# SPDX-License-Identifier: GPL-2.0
"""What the report shows, in which order: sections with their figures and tables, from what was measured."""

import collections
import statistics

from . import data, figures, growth_curves

# A table is (headers, rows of texts, which columns are words and not numbers).
Table = collections.namedtuple("Table", "headers rows words", defaults=((0,),))
Section = collections.namedtuple("Section", "anchor title note figures table flames text", defaults=(None, (), ""))

ECHO = "throughput"
_YARDSTICKS = ("pipe", "seqpacket", "futex", "eventfd")
_SHOWN_ROOMS = 12


def build(times, counts, profiles, memory=None, growth=None, locked=None):
    """All sections for which there is something to show."""
    makers = ((_instructions, counts), (_locked, locked), (_breakdown, profiles), (_ratios, times), (_pairs, times),
              (_payloads, times), (_tails, times), (_memory, memory), (growth_of, growth))
    return [section for make, measured in makers if measured for section in [make(measured)] if section]


def rfc(text):
    """AOSP's tables, which binder-bench has printed."""
    note = ("AOSP's binderThroughputTest and binderRpcBenchmark in the form in which Rust Binder was first proposed: "
            "averages and 99th percentiles next to the C driver's. Averages hold whatever interrupted the machine.")
    return Section("rfc", "AOSP's tables", note, [], text=text)


def number(value):
    return f"{value:,.0f}".replace(",", " ")


def _instructions(counts):
    cells = sorted({cell for cell, _ in counts.counts}, key=lambda cell: cell.order)
    rivals = [d for d in counts.drivers() if d != data.BASE]
    rows, table = [], []
    for cell in cells:
        row = {who: counts.counts[cell, who] for who in [data.BASE, *rivals] if (cell, who) in counts.counts}
        ratios = {who: (r["ratio"],) * 3 + (True,) for who, r in row.items() if r.get("ratio")}
        if ratios:
            rows.append((cell.label, ratios))
        if row:
            table.append([cell.label, *(_count(row.get(who)) for who in [data.BASE, *rivals]),
                          *(_ratio(row.get(who)) for who in rivals)])
    names = [figures.NAMES.get(d, d) for d in counts.drivers()]
    headers = ["operation", *names, *(f"{figures.NAMES.get(r, r)} ÷ C" for r in rivals)]
    panels = [figures.Panel("Instructions, ratio to C", figures.dots(rows, rivals, "÷ C, lower is better", figures.extent(rows)),
                            0.9 + 0.17 * len(rows))]
    note = ("Guest instructions of one operation, all processes and the kernel together, counted exactly under "
            "<code>qemu -icount</code>: no noise, so no interval. Left of the line is less work than the C driver.")
    return Section("instructions", "Instructions per operation", note,
                   [figures.Figure("instructions", "Instructions per operation, ratio to the C driver", panels)],
                   Table(headers, table))


def _locked(locked):
    """From locked operations by driver, [(fields of a cell, how many)]."""
    by_cell = {who: {data.Cell.of(fields): count for fields, count in found} for who, found in locked.items()}
    drivers = [who for who in figures.NAMES if who in by_cell]
    cells = sorted({cell for found in by_cell.values() for cell in found}, key=lambda cell: cell.order)
    bars = [(cell.label, [(who, by_cell[who][cell]) for who in drivers if cell in by_cell[who]]) for cell in cells]
    rivals = [who for who in drivers if who != data.BASE]
    table = [[cell.label, *(_of(by_cell[who].get(cell)) for who in drivers),
              *(_over(by_cell[who].get(cell), by_cell.get(data.BASE, {}).get(cell)) for who in rivals)] for cell in cells]
    headers = ["operation", *(figures.NAMES[who] for who in drivers), *(f"{figures.NAMES[who]} ÷ C" for who in rivals)]
    note = ("Instructions of the kernel with a LOCK prefix in one operation, counted by a QEMU plugin: what other CPUs have to "
            "wait for, or this one for them. The kernel's own are among them.")
    height = 0.75 + 0.11 * len(bars) * (len(drivers) + 0.7)
    panel = figures.Panel("Locked operations", figures.bars(bars, "lower is better"), height)
    return Section("locked", "Locked operations", note,
                   [figures.Figure("locked", "Locked operations of one operation", [panel])], Table(headers, table))


def _of(value):
    return "–" if value is None else number(value)


def _over(value, base):
    return f"{value / base:.3f}" if value is not None and base else "–"


def _count(row):
    return number(row["instructions"]) if row else "–"


def _ratio(row):
    return f"{row['ratio']:.3f}" if row and row.get("ratio") else "–"


def _breakdown(profiles):
    order = {who: index for index, who in enumerate(figures.NAMES)}
    profiles = sorted(profiles, key=lambda p: order.get(p["driver"], 9))
    classes = sorted({c for p in profiles for c in p["classes"]},
                     key=lambda c: -max(p["classes"].get(c, 0) for p in profiles))
    rows = [(c, [(p["driver"], p["classes"].get(c, 0)) for p in profiles]) for c in classes]
    panels = [figures.Panel("By purpose", figures.bars(rows, "instructions, lower is better"),
                            0.6 + 0.105 * len(rows) * (len(profiles) + 0.7))]
    widest = max(max(p["rooms"].values(), default=0) for p in profiles) * 1.15
    for profile in profiles:
        who = profile["driver"]
        top = [(name, [(who, value)]) for name, value in profile["rooms"].items() if value >= 0.5]
        rest = sum(values[0][1] for _, values in top[_SHOWN_ROOMS:])
        top = top[:_SHOWN_ROOMS] + ([("other files", [(who, rest)])] if rest else [])
        title = f"{figures.NAMES[who]}: the driver's files"
        panels.append(figures.Panel(title, figures.bars(top, "instructions", widest), 0.75 + 0.165 * len(top)))
    table = [[c, *(number(p["classes"].get(c, 0)) for p in profiles)] for c in classes]
    table.append(["all", *(number(p["instructions"]) for p in profiles)])
    table.append(["with LOCK prefix", *(number(p["locked"]) for p in profiles)])
    note = ("One null round trip, taken apart by a QEMU plugin that counts every block by its call chain. "
            "Functions of the kernel proper are grouped by what they are for, the driver's by source file; what the "
            "compiler inlined counts where it was inlined. In the flame graphs a frame is as wide as the "
            "instructions under it: click to zoom.")
    headers = ["purpose", *(figures.NAMES[p["driver"]] for p in profiles)]
    return Section("breakdown", "Where one null call goes", note,
                   [figures.Figure("breakdown", "Instructions of one null round trip", panels)],
                   Table(headers, table), [p["driver"] for p in profiles])


def _ratios(times):
    rivals = [d for d in times.drivers() if d != data.BASE]
    rows, table = [], []
    for cell in sorted({cell for cell, who in times.latency if who in rivals}, key=lambda cell: cell.order):
        ratios = {}
        for who in rivals:
            row = times.latency.get((cell, who))
            if row and row["ratios"]:
                ratio = row["ratios"]["p50"]
                ratios[who] = ratio["point"], ratio["low"], ratio["high"], _sure(ratio)
                table.append([cell.label if who == rivals[0] else "", figures.NAMES.get(who, who), f"{row['p50_ns'] / 1000:.2f}",
                              f"{row['p99_ns'] / 1000:.2f}",
                              f"{ratio['point']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]",
                              ratio["verdict"], row["ratios"]["mean"]["verdict"]])
        if ratios:
            rows.append((cell.label, ratios))
    if not rows:
        return None
    half = (len(rows) + 1) // 2 if len(rows) > 24 else len(rows)
    limits = figures.extent(rows)
    panels = [figures.Panel("Median time ÷ C",
                            figures.dots(part, rivals, "95 % interval, lower is better", limits),
                            0.9 + 0.2 * len(part)) for part in (rows[:half], rows[half:]) if part]
    note = ("User Mode Linux at native speed. Bars are 95 % intervals of the ratio of medians (bootstrap over boots "
            "and blocks); cut where they leave the picture, hollow and pale where they do not allow to name a winner, because the interval contains 1, boots are few, or "
            "because pipes and sockets, which know nothing of the driver, differed as well.")
    headers = ["case", "driver", "p50 µs", "p99 µs", "p50 ÷ C [95 %]", "by median", "by average"]
    return Section("time", "Time per operation", note,
                   [figures.Figure("time", "Median time per operation, ratio to the C driver", panels)],
                   Table(headers, table, (0, 1, 5, 6)))


def _sure(ratio):
    return ratio["verdict"].endswith(("faster", "slower"))


def _lines(times, cells, across, figure="p50"):
    """[(who, {x: (middle of all boots, least, most)})] for curves through `cells`, x being `across(cell)`."""
    boots = data.boots(times, f"{figure}_ns")
    lines = []
    for who in [*times.drivers(), *_YARDSTICKS]:
        points = {across(cell): boots[cell, who] for cell in cells if (cell, who) in boots}
        if points:
            lines.append((who, points))
    return lines


def _echo(times):
    return sorted({cell for cell, who in times.latency
                   if cell.workload == ECHO and who in times.drivers() and not cell.parameters})


def _pairs(times):
    # The largest payloads are sent by one pair only.
    many = {cell.size for cell in _echo(times) if cell.pairs > 1}
    cells = [cell for cell in _echo(times) if cell.size in many]
    pairs = sorted({cell.pairs for cell in cells})
    if len(pairs) < 2:
        return None
    panels = []
    for size in sorted({cell.size for cell in cells}):
        lines = _lines(times, [c for c in cells if c.size == size], lambda cell: cell.pairs)
        panels.append(figures.Panel(f"{_payload(size)}: median, µs", figures.curves(
            lines, "clients at the same time", pairs, list(map(str, pairs)))))
    note = ("As many clients and servers as the axis says, each pair on its own, all on one device and one CPU. A boot "
            "stands for the median of its blocks: lines are the middle boot, bands reach from the fastest to the slowest. "
            "Lower is better.")
    return Section("pairs", "Latency over pairs", note,
                   [figures.Figure("pairs", "Median round trip over pairs", panels)])


def _payloads(times):
    cells = [cell for cell in _echo(times) if cell.pairs == 1]
    sizes = sorted({cell.size for cell in cells})
    if len(sizes) < 3:
        return None
    names = list(map(data.bytes_name, sizes))
    panels = [figures.Panel(title, figures.curves(_lines(times, cells, lambda cell: cell.size, figure),
                                                  "payload", sizes, names, log=True))
              for title, figure in (("Median, µs", "p50"), ("99th percentile, µs", "p99"))]
    return Section("payloads", "Latency over payload", "One pair. Lines and bands as above. Lower is better.",
                   [figures.Figure("payloads", "Round trip over payload", panels)])


def _payload(size):
    return data.bytes_name(size) if size else "No payload"


def _tails(times):
    cells = [cell for cell in _echo(times) if cell.pairs == 1]
    panels = []
    for cell in cells:
        points = data.percentiles(times, cell)
        lines = [(who, points[who]) for who in [*times.drivers(), *_YARDSTICKS] if who in points]
        panels.append(figures.Panel(f"{_payload(cell.size)}, µs", figures.percentiles(lines)))
    note = ("Every call of every boot: the share of calls that took at most so long, one step right for each tenth of "
            "calls that remain. On a machine that does other work, the right end tells about that work. Lower is better.")
    return Section("tails", "How slow the slow calls are", note,
                   [figures.Figure("tails", "Percentiles of the round trip", panels)])


def _memory(memory):
    cells = list(dict.fromkeys(cell for cell, _ in memory.memory))
    drivers = memory.drivers()
    rivals = [d for d in drivers if d != data.BASE]
    rows = {cell: {who: memory.memory[cell, who] for who in drivers if (cell, who) in memory.memory} for cell in cells}
    panels = []
    for title, part in (("Processes", [c for c in cells if c.case.startswith("process")]),
                        ("What they have", [c for c in cells if not c.case.startswith("process")])):
        bars = [(cell.case, [(who, row["bytes"]) for who, row in rows[cell].items()]) for cell in part]
        if bars:
            panels.append(figures.Panel(title, figures.bars(bars, "bytes, lower is better"),
                                        0.75 + 0.11 * len(bars) * (len(drivers) + 0.7)))
    table = [[cell.case, *(_bytes(row.get(who)) for who in drivers), *(_ratio(row.get(who)) for who in rivals)]
             for cell, row in rows.items()]
    headers = ["object", *(figures.NAMES.get(d, d) for d in drivers), *(f"{figures.NAMES.get(r, r)} ÷ C" for r in rivals)]
    note = ("Bytes of kernel memory of one object: the slope of a line through more and more of them, in pages that are not "
            "free, ± two standard errors. What the kernel takes for any file and any mapping is left out.")
    return Section("memory", "Memory per object", note,
                   [figures.Figure("memory", "Kernel memory of one object", panels)], Table(headers, table))


def growth_of(growth):
    """What `make growth` measured."""
    cells = list(dict.fromkeys(cell for cell, _ in growth.growth))
    drivers = growth.drivers()
    rivals = [d for d in drivers if d != data.BASE]
    rows = {cell: {who: growth.growth[cell, who] for who in drivers if (cell, who) in growth.growth} for cell in cells}
    ratios = _ratios_of_quantities(rows)
    drawn = [curves] if (curves := growth_curves.figure({cell.case: found for cell, found in rows.items()})) else []
    if ratios:
        dots = figures.dots(ratios, rivals, "÷ C, lower is better", figures.extent(ratios))
        drawn.append(figures.Figure(
            "growth", "Instructions with the most of everything, geometric mean of all phases of a quantity, divided by the C driver's",
            [figures.Panel("Instructions ÷ C", dots, 0.9 + 0.17 * len(ratios))]))
    table = [[cell.case, *(text for who in drivers for text in _grown(found.get(who), _most(found))),
              *(_ratio(found.get(who)) for who in rivals), "; ".join(found.get("rust", {}).get("faults", []))]
             for cell, found in rows.items()]
    names = [figures.NAMES.get(d, d) for d in drivers]
    headers = ["quantity: what is done", *(f"{name} {text}" for name in names for text in ("each", "grows as N to the", "preemption / interrupts off")),
               *(f"{figures.NAMES.get(r, r)} ÷ C" for r in rivals), "faults of ours"]
    note = ("Guest instructions with more and more of everything that user space can have: of each of them, with the most "
            "(or fewer where a driver stops earlier), what one costs taken off; the power of N with which all of them grow; and "
            "the longest stretches with preemption off and with interrupts off that the driver executes, in instructions. "
            "Curves: instructions of one operation over how many there are, and the power of N with which that grows; dots: the geometric "
            "mean of all phases of a quantity.")
    return Section("growth", "How costs grow", note, drawn, Table(headers, table, (0, len(headers) - 1)))


def _ratios_of_quantities(rows):
    """Geometric means of the ratios of all phases of a quantity, in the shape that dots need."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for cell, drivers in rows.items():
        for who, row in drivers.items():
            if row["ratio"]:
                found[cell.case.split(": ")[0]][who].append(row["ratio"])
    mean = statistics.geometric_mean
    return [(quantity, {who: (mean(ratios),) * 3 + (True,) for who, ratios in drivers.items()})
            for quantity, drivers in found.items()]


def _most(drivers):
    """The largest number that any driver has come to."""
    return max((row["each"][-1][0] for row in drivers.values() if row["each"]), default=0)


def _grown(row, most):
    if not row or not row["each"]:
        return "–", "–", "–"
    power = "–" if row["exponent"] is None else f"{row['exponent']:.2f}"
    count, each = row["each"][-1]
    fewer = f" (with {number(count)})" if count < most else ""
    stretches = (number(row[name][0]) if row.get(name) else "–" for name in ("preempt_off", "irqs_off"))
    return number(each) + fewer, power, " / ".join(stretches)


def _bytes(row):
    return f"{number(row['bytes'])} ± {number(row['plus_minus'])}" if row else "–"
