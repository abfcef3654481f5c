# SPDX-License-Identifier: GPL-2.0
"""What `make bench` prints: a line for each operation, and ten lines at the end, in 100 columns."""

from . import say

COLUMNS = 100

def head():
    return [f"  {'':<30}{'instructions':^30}   {'locked operations':^26}",
            f"  {'operation':<30}{'ours':>10}{'C':>10}{'ours ÷ C':>10}   {'ours':>8}{'C':>8}{'ours ÷ C':>10}"]


def row(name, ours, base):
    """The line of an operation: `ours` and `base` are (instructions, locked operations)."""
    return (f"  {name:<30}{number(ours[0]):>10}{number(base[0]):>10}{ratio(ours[0], base[0]):>10}   "
            f"{number(ours[1]):>8}{number(base[1]):>8}{ratio(ours[1], base[1]):>10}")


def number(value):
    return f"{value:,.0f}".replace(",", " ")


def ratio(ours, base):
    return f"{ours / base:.3f}" if base > 0.5 else "–"


def alone(driver, name, found):
    """What is said of an operation before the other driver has been there."""
    return f"{driver}: {name}: {number(found[0])} instructions, {number(found[1])} locked"


def breakdown(ours, base, most=9):
    """The lines of where a null call goes, from two profiles: what takes most first."""
    classes = sorted({*ours["classes"], *base["classes"]},
                     key=lambda name: -max(p["classes"].get(name, 0) for p in (ours, base)))
    lines = [f"  {'of a null call':<30}{'ours':>10}{'C':>10}{'ours ÷ C':>10}"]
    for name in classes[:most]:
        pair = [profile["classes"].get(name, 0) for profile in (ours, base)]
        lines.append(f"  {name:<30}{number(pair[0]):>10}{number(pair[1]):>10}{ratio(*pair):>10}")
    return lines


def headline(ours, base, profiles=None):
    """The figures to remember: ratios of the main operations, and of the driver's own part of a null call."""
    lines = []
    for name in ours:
        if name in base and name in _HEADLINES:
            lines.append(f"  {name:<28} {ratio(ours[name][0], base[name][0])} × C's instructions, "
                         f"{ratio(ours[name][1], base[name][1])} × its locked operations")
    if profiles:
        own = [profile["classes"].get("driver", 0) for profile in profiles]
        lines.append(f"  {'the driver in a null call':<28} {ratio(*own)} × C's instructions "
                     f"({number(own[0])}, C {number(own[1])})")
    return lines


_HEADLINES = ("null call", "call with 64 KiB", "oneway call", "call with a file")


def columns(headers, rows):
    """A table as narrow as it can be, its columns as far apart as there is room: the first to the left, all others to the
    right."""
    widths = [max(len(cells[index]) for cells in [headers, *rows]) for index in range(len(headers))]
    gap = "  " if 2 + sum(widths) + 2 * (len(widths) - 1) <= COLUMNS else " "
    return ["  " + gap.join(cell.rjust(width) if index else cell.ljust(width)
                             for index, (cell, width) in enumerate(zip(cells, widths))) for cells in [headers, *rows]]


def times(results):
    """Medians of operations with one client, ours next to C's."""
    from report import data

    rows = []
    for cell in sorted({cell for cell, who in results.latency if who == "rust" and cell.pairs == 1}, key=lambda cell: cell.order):
        ours, base = (results.latency.get((cell, who)) for who in ("rust", data.BASE))
        if ours and base and ours["ratios"]:
            ratio = ours["ratios"]["p50"]
            rows.append([cell.label, f"{ours['p50_ns'] / 1000:.1f}", f"{base['p50_ns'] / 1000:.1f}",
                         f"{ratio['point']:.3f}", f"{ratio['low']:.3f} to {ratio['high']:.3f}", ratio["verdict"]])
    return columns(["median time of one client", "ours µs", "C µs", "ours ÷ C", "95 %", ""], rows)


def time_headline(results):
    """The null call's time."""
    from report import data

    cell = data.Cell("throughput")
    ours, base = (results.latency.get((cell, who)) for who in ("rust", data.BASE))
    if not (ours and base and ours["ratios"]):
        return []
    ratio = ours["ratios"]["p50"]
    return [f"  {'null call, median time':<28} {ratio['point']:.3f} × C's ({ratio['low']:.3f} to {ratio['high']:.3f}): "
            f"{ratio['verdict']}"]


def count_headline(results):
    """The instructions of calls without objects."""
    lines = []
    for cell in sorted({cell for cell, _ in results.counts}, key=lambda cell: cell.order):
        ours = results.counts.get((cell, "rust"))
        if cell.workload in ("throughput", "oneway") and cell.pairs == 1 and ours and ours["ratio"]:
            lines.append(f"  {cell.label:<28} {ours['ratio']:.3f} × C's instructions")
    return lines[:4]


def counts(results):
    """Instructions of all operations."""
    return _of_drivers(results, results.counts, "instructions", "instructions")


def memory(results):
    """Bytes of all objects."""
    return _of_drivers(results, results.memory, "bytes", "bytes of kernel memory")


def _of_drivers(results, found, field, title):
    drivers = results.drivers()
    rivals = [driver for driver in drivers if driver != "c"]
    rows = []
    for cell in sorted({cell for cell, who in found if who in rivals}, key=lambda cell: cell.order):
        each = {who: found[cell, who] for who in drivers if (cell, who) in found}
        name = cell.case if field == "bytes" else cell.label
        rows.append([name, *(number(each[who][field]) if who in each else "–" for who in drivers),
                     *(f"{each[who]['ratio']:.3f}" if who in each and each[who].get("ratio") else "–" for who in rivals)])
    names = {"c": "C", "rust": "ours", "upstream": "upstream"}
    return columns([title, *(names.get(who, who) for who in drivers), *(f"{names.get(who, who)} ÷ C" for who in rivals)], rows)


def end(lines, page, following, note=""):
    """Ten lines at most: headlines, what to open, what to run next."""
    said = [*([note] if note else []), *lines, f"open      {page}", *(f"{'next' if not index else '':<9} {text}" for index, text in enumerate(following))]
    return [fit(line) for line in said[:10]]


def fit(line):
    """A line that is too long is a mistake here; it is cut, and not wrapped."""
    return line if len(line) <= COLUMNS else line[:COLUMNS - 1] + "…"


def show(lines):
    say.lines(*map(fit, lines))
