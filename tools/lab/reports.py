# SPDX-License-Identifier: GPL-2.0
"""Measured tables, `reports/NAME.tsv`, and what documents show of them: generated blocks, and the figures in docs/figures.

A file has a comment line, `# title: date, driver, kernel, machine`, then the heads of its columns, then its rows, separated by tabs.
"""

import collections
import re
import statistics

from .versions import ROOT
from report import charts, data

FOLDER, FIGURES = ROOT / "reports", ROOT / "docs/figures"
# Operations that documents show: of each the object whose memory it takes. README's figure shows those in SHORT.
SHOWN = {"null call": "call", "call with 4 KiB": "", "call with 64 KiB": "", "call with 1 MiB": "", "oneway call": "", "call with a file": "",
         "call with an object, held": "node", "new handle, next to no others": "reference", "nested call, depth 8": "",
         "death of a node": "process", "freeze and thaw, notified": "", "death request, withdrawn": "death request"}
SHORT = ("null call", "call with 64 KiB", "oneway call", "call with a file", "call with an object, held", "death of a node")
# Rows above C's by more than this are named; those of growth, which are many, by more than the second.
_MUCH, _MUCH_GROWTH = 1.1, 1.5

# Objects that one process can make for itself or leave behind, with the limit of their number; of memory.tsv, or of retention.tsv.
_LIMITED = {
    "process": "`RLIMIT_NOFILE`", "process, 1 MiB mapped": "`RLIMIT_NOFILE`",
    "thread": "`max_threads`: `limits::threads_of_a_process`; `RLIMIT_NPROC`",
    "node": "`max_nodes`: `limits::nodes_in_a_race`", "reference": "`max_refs`: `limits::refs_of_a_receiver`",
    "death request": "one for a handle", "freeze request": "one for a handle", "call": "one for a thread",
    "oneway call, unread": "the receiver's space, `oneway_quota`: `quota::in_a_race`",
    "oneway call of 4 KiB, unread": "the receiver's space, `oneway_quota`: `quota::in_a_race`",
    "epoll set that watches": "`RLIMIT_NOFILE`, `fs.epoll.max_user_watches`",
    "device of binderfs": "`max_user_devices`: `containers::one_user_has_so_many_devices`", "instance of binderfs": "`fs.mount-max`",
    "thread exits without a word": "`max_threads`: `limits::threads_that_ended`",
    "process of own namespaces killed, node held": "the holder's handles",
    "process killed, node held, its device unread": "the receiver's space, `oneway_quota`: `quota::of_the_dead`"}

# One file: `about` is its date, driver, kernel and machine.
Report = collections.namedtuple("Report", "title headers rows about name")


def put(name, title, about, table):
    """Write the file of a table, and what documents show of all files."""
    (FOLDER / f"{name}.tsv").write_text("\n".join([f"# {title}: {about}", *map("\t".join, [table.headers, *table.rows])]) + "\n")
    for path, text in shown().items():
        path.write_text(text)


def read(name):
    about, headers, *rows = ((FOLDER / f"{name}.tsv").read_text()).splitlines()
    title, _, about = about.removeprefix("# ").partition(": ")
    return Report(title, headers.split("\t"), [row.split("\t") for row in rows], about, name)


def tables():
    """All files, by name."""
    return [read(path.stem) for path in sorted(FOLDER.glob("*.tsv"))]


def complaints():
    """Documents and figures that differ from the files."""
    return [f"{path.relative_to(ROOT)} differs from reports/: make bench DOCS=1" for path, text in shown().items() if path.read_text() != text]


def shown():
    """{path: text} of documents, with all generated blocks that they have, and of figures."""
    blocks = {name: "\n".join(rows()) + "\n" for name, rows in _BLOCKS.items()}
    made = {FIGURES / f"{name}.svg": chart for name, chart in _figures()}
    for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")):
        made[path] = path.read_text()
        for name, rows in blocks.items():
            made[path] = replaced(made[path], name, rows)
    return made


def replaced(text, name, made):
    """The text with `made` between `<!-- begin: NAME -->` and `<!-- end: NAME -->`, if it has these."""
    return re.sub(f"(?<=<!-- begin: {re.escape(name)} -->\n).*?(?=<!-- end: {re.escape(name)} -->)", lambda _: made, text, flags=re.S)


def _number(cell):
    return float(cell.replace(" ", ""))


def _rows(name, what=None):
    """{name of a row: its cells}, of the rows with `what` in the second column, if any."""
    return {row[0]: row for row in read(name).rows if what is None or row[1] == what}


def _ratios(name, column=3):
    """{row: ratio to C}."""
    return {row[0]: _number(row[column]) for row in read(name).rows if row[column] != "–"}


def _operations():
    counted, weighed, timed = _rows("instructions"), _rows("memory"), _rows("time", data.NAMES["rust"])
    yield from ("| operation | instructions ÷ C | time, µs | time ÷ C | memory of | bytes | bytes ÷ C |", "|---|--:|--:|---|---|--:|--:|")
    for name in SHOWN:
        memory = f" {SHOWN[name]} | {weighed[SHOWN[name]][1]} | {weighed[SHOWN[name]][3]} |" if SHOWN[name] else "|||"
        yield f"| {name} | {counted[name][3]} | {timed[name][2]} | {timed[name][-2]} |{memory}"


def _one_kernel():
    """A row for each measurement of two drivers in one kernel."""
    return ["| operation, where | other driver | its µs | this driver, µs | ratio |", "|---|---|--:|--:|---|", *(
        f"| {row[0]}, {row[1]} | {row[-1]} | {row[2]} | {row[3]} | {row[4]} ± {row[7]} |" for row in read("paired").rows)]


def _whole(report, names):
    """A table with all of a report, whose first `names` columns are no numbers."""
    return [f"| {' | '.join(cells)} |" for cells in (report.headers, ["---"] * names + ["--:"] * (len(report.headers) - names), *report.rows)]


def _aosp():
    """Calls per second of AOSP's program with each driver."""
    return _whole(read("aosp"), 1)


def _comparison():
    """Time and instructions of a null call with each driver, and the number of operations that are faster than with C."""
    yield from ("| null call | C | upstream's | this driver | ÷ C | ÷ upstream's |", "|---|--:|--:|--:|---|---|")
    paired = {tuple(row[at] for at in (0, 1, -1)): row for row in read("paired").rows}
    for operation, where, other in paired:
        if operation == "null call" and other == data.NAMES["c"]:
            of_c, of_upstream = (paired[operation, where, data.NAMES[who]] for who in ("c", "upstream"))
            ratios = " | ".join(f"{row[4]} ± {row[7]}" for row in (of_c, of_upstream))
            yield f"| µs, {where} ¹ | {of_c[2]} | {of_upstream[2]} | {of_c[3]} | {ratios} |"
    for name in ("null call", "null call, completion deferred"):
        _, ours, of_c, ratio, *_, of_upstream, to_upstream, _, _ = _rows("instructions")[name]
        yield f"| instructions{name.removeprefix('null call')} ² | {of_c} | {of_upstream} | {ours} | {ratio} | {to_upstream} |"
    code = _rows("code")["null call"]
    for at, what in ((4, "64-byte lines of code"), (1, "of them the driver's")):
        of_c, ours, of_upstream = code[at:at + 3]
        yield f"| {what} ² | {of_c} | {of_upstream} | {ours} | {int(ours) / int(of_c):.3f} | {int(ours) / int(of_upstream):.3f} |"
    timed = [_rows("time", data.NAMES[who]).values() for who in ("rust", "upstream")]
    ours, of_upstream = (f"{sum('faster' in row[-1] for row in rows)} of {len(rows)}" for rows in timed)
    yield f"| operations that are faster than with C ³ | | {of_upstream} | {ours} | | |"


def _compared():
    """(file, title, {row: ratio}) of each comparison with another driver, which is C unless the title names it."""
    ours, upstream = (_rows("time", data.NAMES[who]) for who in ("rust", "upstream"))
    low_ends = {name: float(re.search(r"\[([\d.]+)", row[-2])[1]) for name, row in ours.items()}
    next_to_upstream = {name: _number(row[2]) / _number(upstream[name][2]) for name, row in ours.items()}
    # Of loads with which C spins.
    turns = {row[0]: _number(row[9]) / _number(row[8]) for row in read("lines").rows if _number(row[8]) >= 1}
    return (("instructions", "instructions", _ratios("instructions")),
            ("instructions", "locked operations", _ratios("instructions", 6)),
            ("memory", "memory of an object", _ratios("memory")),
            ("paired", "time in one kernel", {f"{row[0]}, {row[1]}, {row[-1]}": _number(row[4]) for row in read("paired").rows}),
            ("aosp", "time of AOSP's calls", {f"{row[0]}, {row[1]} pairs, {other}": 1 / _number(row[at]) for row in read("aosp").rows
                                              for at, other in ((-2, data.NAMES["c"]), (-1, data.NAMES["upstream"]))}),
            ("time", "time, low end of the interval", low_ends),
            ("time", "time ÷ upstream's", next_to_upstream),
            ("code", "lines of the driver's code", {row[0]: int(row[2]) / int(row[1]) for row in read("code").rows}),
            ("lines", "lines that move", _ratios("lines")),
            ("lines", "turns of spinning", turns),
            ("growth", "growth", _ratios("growth", -2)))


def _behind():
    """The rows of each file in which this driver takes more than another driver."""
    yield from ("| report | rows | above 1 | above 1.1; of growth 1.5 |", "|---|--:|--:|---|")
    for name, title, ratios in _compared():
        above = sorted((row for row in ratios if ratios[row] > 1), key=ratios.get, reverse=True)
        much = _MUCH_GROWTH if name == "growth" else _MUCH
        named = "; ".join(f"{row} {ratios[row]:.2f}" for row in above if ratios[row] > much)
        yield f"| [{title}](../reports/{name}.tsv) | {len(ratios)} | {len(above)} | {named} |"
    for report in tables():
        if report.name.startswith(("growth", "inversion")):
            # Of waits, the first three cells are the row's name.
            worse = [", ".join(row[:1] if report.name == "growth" else row[:3]) for row in report.rows if row[-1]]
            yield f"| [{report.headers[-1]} of {report.name}](../reports/{report.name}.tsv) | {len(report.rows)} | {len(worse)} | {'; '.join(worse)} |"


def _costs():
    """What one process can cost others: an object that it makes, what stays of one that it ends, and delays."""
    yield from ("| one more | unit | C | this driver | upstream's | number limited by |", "|---|---|--:|--:|--:|---|")
    weighed, kept = _rows("memory"), _rows("retention")
    for name, limit in _LIMITED.items():
        row, unit, columns = ((weighed[name], "held / kernel threads", ((2, 7), (1, 6), (4, 8))) if name in weighed else
                              (kept[name], "stay / references", ((1, 2), (3, 4), (5, 6))))
        yield f"| {name} | {unit} | {' | '.join(f'{row[at]} / {row[more]}' for at, more in columns)} | {limit} |"
    yield from ("", "| delay | unit | C | this driver | upstream's | measured by |", "|---|---|--:|--:|--:|---|")
    # Phases in which all drivers have been.
    phases = [row for row in read("growth").rows if "–" not in (row[1], row[4], row[7])]
    for part, what in enumerate(("preemption", "interrupts")):
        longest = (max((_number(row[at].split(" / ")[part].replace("–", "0")), row[0]) for row in phases) for at in (3, 6, 9))
        cells = (f"{charts.number(length)} ({phase})" for length, phase in longest)
        yield f"| {what} off, longest | instructions | {' | '.join(cells)} | `make growth` |"
    for row in read("inversion").rows:
        if row[0] == "random":
            yield f"| beside random attackers: {row[2]} | µs: median / p99 / worst | {' | '.join(row[3:6])} | `make inversion` |"


def _runs():
    report = read("runs")
    yield from _whole(report, 3)
    yield from ("", f"The newest run: {report.about}.")


def _goals():
    """The number of goals with each verdict."""
    counts = collections.Counter(row[-1].split(",")[0] for row in read("goals").rows)
    return [", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + "."]


def _coverage():
    """The covered lines of all files."""
    report = read("coverage")
    _, covered, lines, both, branches, *_ = report.rows[-1]
    shares = (f"{part} of {whole} {what}, {100 * int(part) / int(whole):.1f} %" for part, whole, what in (
        (covered, lines, "lines"), (both, branches, "branches both ways")))
    return [f"{'; '.join(shares)}: {report.about}."]


_BLOCKS = {"coverage": _coverage, "operations": _operations, "runs": _runs, "one kernel": _one_kernel, "aosp": _aosp, "comparison": _comparison, "behind": _behind, "goals": _goals, "costs": _costs}


def _figures():
    """(name, figure) of those in documents."""
    counted = _rows("instructions")
    locked_too = [(f"{name}{what}", {"c": 100, "rust": 100 * _number(counted[name][ours]) / _number(counted[name][ours + 1])})
                  for what, ours in (("", 1), (": locked", 4)) for name in SHORT]
    yield "headline", charts.bars("Instructions, and locked operations, C = 100", locked_too, _note("instructions"))
    yield _dots("front-instructions", "Instructions of an operation ÷ C", "instructions", {name: _number(counted[name][3]) for name in SHOWN})
    intervals = [(f"{row[0]}, {row[1]}", {"rust": tuple(map(_number, row[4:7]))}) for row in read("paired").rows if row[-1] == data.NAMES["c"]]
    yield "front-time", charts.ratios("Time of a call ÷ C, both in one kernel", intervals, _note("paired"))
    yield _dots("front-lines", "Cache lines that move in a call ÷ C", "lines", _ratios("lines"))
    weights = [(row[0], {"c": _number(row[2]), "rust": _number(row[1])}) for row in read("memory").rows if row[2] != "–"]
    yield "memory", charts.bars("Kernel memory of one more object, bytes", weights, _note("memory"))
    phases = collections.defaultdict(list)
    for name, value in _ratios("growth", -2).items():
        phases[name.split(": ")[0]].append(value)
    means = {quantity: statistics.geometric_mean(values) for quantity, values in phases.items()}
    yield _dots("growth", "Instructions with the largest number ÷ C, mean of phases", "growth", means)


def _dots(figure, title, source, found):
    """A figure of ratios to C without intervals."""
    return figure, charts.ratios(title, [(name, {"rust": (value,) * 3}) for name, value in found.items()], _note(source))


def _note(source):
    """Date, driver and kernel of a file, for the line below its figure."""
    return re.match(r"[^)]*\)", read(source).about)[0]
