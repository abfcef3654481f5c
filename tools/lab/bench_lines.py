# SPDX-License-Identifier: GPL-2.0
"""`make bench ONLY=lines`: cache lines that move between CPUs in an operation, on each driver, exactly.

What counts them is a plugin of QEMU with a model of caches (tools/report/lines.c), by way of tools/report/lines.py. Nothing moves
where there is one CPU, so that is not measured.
"""

import functools
import json

from . import bench, bench_series, cache, kernel, programs
from .versions import ROOT

HOME = bench.HOME / "lines"
_GUEST = "x86_64"
# Pairs of processes that have nothing to do with each other, each on a CPU of its own.
_PAIRS = "throughput --sizes 0 --pairs 2 --placement same"
_NULL = ("null call to another CPU", "throughput --sizes 0 --pairs 1 --placement other")
_TWO_PAIRS = ("2 pairs, a CPU each", _PAIRS)
# On how many CPUs: what is measured, and words for binder-bench.
LOADS = {
    2: (_NULL,
        ("oneway to another CPU", "oneway --sizes 0 --senders 1 --placement other"),
        _TWO_PAIRS,
        ("2 clients, 2 threads", "fanin --clients 2 --threads 2 --placement same")),
    4: (("4 pairs, a CPU each", "throughput --sizes 0 --pairs 4 --placement same"),
        ("4 clients, 4 threads", "fanin --clients 4 --threads 4 --placement same"),
        ("3 oneway senders", "oneway --sizes 0 --senders 3 --placement other")),
    8: (("8 pairs, a CPU each", "throughput --sizes 0 --pairs 8 --placement same"),
        ("8 clients, 8 threads", "fanin --clients 8 --threads 8 --placement same"),
        ("7 oneway senders", "oneway --sizes 0 --senders 7 --placement other")),
}
_TAKES = {2: 60, 4: 60, 8: 90}
# What the figures depend on besides the kernel, the driver and binder-bench.
_SOURCES = ("lines.c", "caches.h", "decode.h", "marks.h", "plugin.h", "stacks.h", "windows.h", "counted.py", "lines.py",
            "profile.py", "symbols.py")
HEADERS = ("of a call", "moved: C", "ours", "÷ C", "driver: C", "ours", "locked: C", "ours", "turns: C", "ours")
HELD_HEADERS = ("of a call", "spin locks: C", "ours", "held, instructions: C", "ours")
# What each call of the workload `sharing` does to lines: how many move by being read and by being written, how many locked operations
# are on what the other CPU wrote last, and how many different lines move.
KNOWN = {"hand over": (2, 2, 0, 1), "two counters in a line": (4, 4, 0, 2), "counters in lines of their own": (2, 2, 0, 1),
         "a line that both read": (2, 2, 0, 1), "one counter, locked": (2, 4, 2, 2)}
# What `make test` and the gate measure, in one boot of two CPUs: what is known beforehand, and what is held.
_SHARING = "sharing --placement other --windows 10,20"
_HELD_LOADS = (_TWO_PAIRS, _NULL)
# By which names of `figures` that is held.
HELD = ("pair on two CPUs: lines", "independent pairs: shared lines")


def steps():
    """A boot for each driver and number of CPUs."""
    return [step for several in _steps().values() for step in several.values()]


def kept():
    """Where the results are that were measured of what there is now, by driver and number of CPUs."""
    return {driver: {cpus: step.path for cpus, step in several.items() if step.kept()} for driver, several in _steps().items()}


def _steps():
    built, program = kernel.build(_GUEST), programs.build(bench.CRATE)
    return {driver: {cpus: _step(built, driver, cpus, program) for cpus in LOADS} for driver in bench.DRIVERS}


def _step(built, driver, cpus, program):
    inputs = [LOADS[cpus], bench.identity(_GUEST, driver, program, timed=False), _sources()]
    return bench_series.Step(f"lines that move, {driver}, {cpus} CPUs", HOME / f"{driver}-{cpus}.json", inputs,
                             functools.partial(_measure, built, driver, cpus, program), _TAKES[cpus], bench.conditions)


def _sources():
    return cache.content(*(ROOT / "tools/report" / name for name in _SOURCES))


def _measure(built, driver, cpus, program, loads=None):
    from report import lines

    words = loads or [words for _, words in LOADS[cpus]]
    return json.dumps(lines.measure(built, driver, program, words, cpus)).encode()


def last():
    """Where the last results are, of whatever they are."""
    paths = {driver: {cpus: HOME / f"{driver}-{cpus}.json" for cpus in LOADS} for driver in bench.DRIVERS}
    return {driver: {cpus: path for cpus, path in several.items() if path.exists()} for driver, several in paths.items()}


def found(paths):
    """What was measured: {driver: {title: figures}}, the titles in their order."""
    return {driver: {title: data for cpus, path in several.items()
                     for (title, _), data in zip(LOADS[cpus], json.loads(path.read_text()))}
            for driver, several in paths.items()}


def rows():
    """The table's lines: ours next to C's, of all that was measured on both."""
    return [row(*each) for each in _on_both()]


def held_rows():
    """The same of spin locks: how many the driver takes, and for how many instructions it has one on average."""
    from report import lines_page

    found = [(title, [lines_page.held(data) for data in (base, ours)]) for title, ours, base in _on_both()]
    return [[title, *(f"{times:.1f}" for times, _, _ in both), *(f"{mean:.0f}" if times else "–" for times, mean, _ in both)]
            for title, both in found]


def _on_both():
    by_driver = found(last())
    return [(title, by_driver["rust"][title], base) for title, base in by_driver["c"].items() if title in by_driver["rust"]]


def into_docs():
    """The last results go into docs/performance.md."""
    from report import lines_page

    paths = last()
    lines_page.write(found(paths), measured([bench_series.known(path) for path in paths["rust"].values()]))


def measured(known):
    """When, and of which driver, by what is known of results of ours."""
    commits = " / ".join(f"`{commit}`" for commit in sorted({about["commit"] for about in known}))
    return f"{min(about['began'] for about in known)[:10]}, our driver of {commits}"


def row(title, ours, base):
    from report import lines, profile

    moved = [lines.moved(data) for data in (base, ours)]
    drivers = [lines.moved(data, profile.DRIVER) for data in (base, ours)]
    locked, turns = ([data["unit"][what] for data in (base, ours)] for what in (lines.LOCKED, lines.PAUSE))
    ratio = f"{moved[1] / moved[0]:.2f}" if moved[0] >= 0.5 else "–"
    return [title, *(f"{value:.1f}" for value in moved), ratio, *(f"{value:.1f}" for pair in (drivers, locked, turns) for value in pair)]


def figures(by_driver, pairs="8 pairs, a CPU each"):
    """Figures by name, for goals: of `pairs` that have nothing to do with each other, how many lines of the driver move in a call."""
    from report import lines

    figures = {}
    ours, base = by_driver["rust"], by_driver["c"]
    for title, name in (("null call to another CPU", "pair on two CPUs"), ("8 clients, 8 threads", "8 clients, 8 CPUs")):
        if title in ours and title in base:
            figures[f"{name}: lines"] = lines.moved(ours[title]) / lines.moved(base[title])
            turns = [data[title]["unit"][lines.PAUSE] for data in (ours, base)]
            figures[f"{name}: spins"] = turns[0] / turns[1] if turns[1] else turns[0]
    if pairs in ours:
        figures["independent pairs: shared lines"] = _shared(ours[pairs])
    return figures


def known_cases():
    """Whether the plugin counts what is known beforehand, and pairs of ours that have nothing to do with each other share no line, for
    `make test`: (how many cases, what is wrong)."""
    measured = _short()
    known = [data for data in measured if data["workload"] == "sharing"]
    return len(KNOWN) + 1, judge(known) + judge_pairs(measured[len(known):][:1])


def held():
    """Figures of `HELD`, of ours next to C's."""
    titles = [title for title, _ in _HELD_LOADS]
    ours = dict(zip(titles, _short()[-len(titles):]))
    (base,) = json.loads(_base().read_text())
    found = figures({"rust": ours, "c": {_NULL[0]: base}}, pairs=_TWO_PAIRS[0])
    return {name: found[name] for name in HELD}


def _short():
    """What one boot of ours on two CPUs came to. It is exact, so one of the same driver, kernel, binder-bench and plugin is kept."""
    built, program = kernel.build(_GUEST), programs.build(bench.CRATE)
    loads = [_SHARING, *(words for _, words in _HELD_LOADS)]
    step = bench_series.Step("lines that move, ours", bench.HOME / "gate" / "lines-rust.json",
                             [loads, bench.identity(_GUEST, "rust", program, timed=False), _sources()],
                             functools.partial(_measure, built, "rust", 2, program, loads), 20, bench.conditions)
    if not step.kept():
        bench_series.keep(step)
    return json.loads(step.path.read_text())


def _base():
    """A null call of C's, which changes with the kernel, binder-bench and the plugin only."""
    built, program, loads = kernel.build(_GUEST), programs.build(bench.CRATE), [_NULL[1]]
    key = cache.key(loads, bench.identity(_GUEST, "c", program, timed=False), _sources())
    return cache.entry(f"bench/c-lines-{key}.json", lambda part: part.write_bytes(_measure(built, "c", 2, program, loads)))


def judge_pairs(measured):
    """What is wrong with figures of pairs that have nothing to do with each other."""
    if not measured:
        return ["pairs were not measured"]
    shared = max(_shared(data) for data in measured)
    return [f"pairs that have nothing to do with each other both write {shared} lines of the driver"] if shared else []


def _shared(data):
    """How many lines the driver moves in a call."""
    from report import profile

    return data["distinct"].get(profile.DRIVER, 0)


def judge(measured):
    """What is wrong with figures of the workload `sharing`."""
    from report import lines, profile

    wrong = []
    for data in measured:
        of_user = data["owners"].get(profile.USER, {})
        mine = [line for line in data["lines"] if any(owner == profile.USER for _, _, _, owner, _ in line["by"])]
        seen = (*(round(of_user.get(what, 0), 6) for what in (*lines.MOVES, lines.LOCKED)), len(mine))
        if seen != KNOWN[data["case"]]:
            wrong.append(f"{data['case']}: read, written, locked, lines are {seen}, and not {KNOWN[data['case']]}")
    missing = KNOWN.keys() - {data["case"] for data in measured}
    return wrong + [f"{case}: was not measured" for case in sorted(missing)]
