# SPDX-License-Identifier: GPL-2.0
"""Cache lines that move between CPUs in an operation, on each driver, exactly: `make bench ONLY=lines`, and a stage of `make test`.

A plugin of QEMU with a model of caches (tools/report/lines.c) counts them. Nothing moves where there is one CPU, so that is not measured.
"""

import functools
import json

from . import bench
from report import lines, plugins

# Pairs of processes that share nothing, each on a CPU of its own.
_PAIRS = "throughput --sizes 0 --pairs {} --placement same"
_CLIENTS = "fanin --clients {0} --threads {0} --placement same"
_SENDERS = "oneway --sizes 0 --senders {} --placement other"
_NULL = ("null call to another CPU", "throughput --sizes 0 --pairs 1 --placement other")
_TWO_PAIRS = ("2 pairs, a CPU each", _PAIRS.format(2))
# Loads by the number of CPUs: title, and words for binder-bench.
LOADS = {
    2: (_NULL, ("oneway to another CPU", _SENDERS.format(1)), _TWO_PAIRS, ("2 clients, 2 threads", _CLIENTS.format(2))),
    4: (("4 pairs, a CPU each", _PAIRS.format(4)), ("4 clients, 4 threads", _CLIENTS.format(4)), ("3 oneway senders", _SENDERS.format(3))),
    8: (("8 pairs, a CPU each", _PAIRS.format(8)), ("8 clients, 8 threads", _CLIENTS.format(8)), ("7 oneway senders", _SENDERS.format(7))),
}
HEADERS = ("of a call", *(text for what in ("moved", "driver", "locked", "turns") for text in (f"{what}: C", "Rust Binder", *["÷ C"] * (what == "moved"))),
           "moved: upstream Rust", "turns: upstream Rust")
# The known moves of each call of the workload `sharing`: lines that move by being read and by being written, locked operations on lines
# that the other CPU wrote last, and different lines that move.
KNOWN = {"hand over": (2, 2, 0, 1), "two counters in a line": (4, 4, 0, 2), "counters in lines of their own": (2, 2, 0, 1),
         "a line that both read": (2, 2, 0, 1), "one counter, locked": (2, 4, 2, 2)}
_SHARING = ("known cases", "sharing --placement other --windows 10,20")
# The figures that the gate holds, by their names in `figures`.
GATED = ("pair on two CPUs: lines", "independent pairs: shared lines")


def _measured(kind, driver, cpus, loads, again=False):
    """The summaries of `loads`, [(title, words)], as [[title, summary]]."""
    runs = [f"$b {words} --together --count $words --output /out/{number}.json" for number, (_, words) in enumerate(loads)]
    boot = bench.Boot(f"lines that move, {driver}, {cpus} CPUs", driver, " && ".join(runs),
                      ("lines.c", f"turn={lines.TURN}", f"seed={lines.SEED}"), cpus)
    return bench.counted(kind, boot, functools.partial(_made, loads, driver), again)


def _made(loads, _driver, files):
    titled = [(title, cell) for number, (title, _) in enumerate(loads) for cell in json.loads(files[f"{number}.json"])["cells"]]
    functions = bench.functions(bench.COUNTED, files["symbols"])
    operations = plugins.operations([cell for _, cell in titled], files["seen"])
    return [[title, lines.summary(operation, functions)] for (title, _), operation in zip(titled, operations)]


def measure(again=False):
    """{driver: {title: summary}} of all loads."""
    return {driver: {title: found for cpus, loads in LOADS.items() for title, found in _measured(f"lines-{cpus}-all", driver, cpus, loads, again)}
            for driver in bench.DRIVERS}


def _short():
    """[[title, summary]] of one boot of ours on two CPUs: known cases, and what is held."""
    return _measured("lines-2", "rust", 2, (_SHARING, _TWO_PAIRS, _NULL))


def known_cases():
    """Check that the plugin finds the known counts: (how many cases, [complaint])."""
    return len(KNOWN), judge([data for title, data in _short() if title == _SHARING[0]])


def held():
    """Figures of `GATED`, of ours next to C's."""
    found = figures({"rust": dict(_short()), "c": dict(_measured("lines-2", "c", 2, (_NULL,)))}, pairs=_TWO_PAIRS[0])
    return {name: found[name] for name in GATED}


def figures(by_driver, pairs="8 pairs, a CPU each"):
    """Figures by name, for goals: of `pairs` that share nothing, how many lines of the driver move in a call."""
    found, (ours, base) = {}, (by_driver[driver] for driver in ("rust", "c"))
    for title, name in ((_NULL[0], "pair on two CPUs"), ("8 clients, 8 threads", "8 clients, 8 CPUs")):
        if title in ours and title in base:
            found[f"{name}: lines"] = lines.moved(ours[title]) / lines.moved(base[title])
            turns = [data[title]["unit"][lines.PAUSE] for data in (ours, base)]
            found[f"{name}: spins"] = turns[0] / turns[1] if turns[1] else turns[0]
    if pairs in ours:
        found["independent pairs: shared lines"] = ours[pairs]["distinct"].get(lines.DRIVER, 0)
    return found


def judge(measured):
    """The wrong figures of the workload `sharing`."""
    wrong = []
    for data in measured:
        of_user = data["owners"].get(lines.USER, {})
        mine = [line for line in data["lines"] if any(owner == lines.USER for _, _, _, owner, _ in line)]
        seen = (*(round(of_user.get(what, 0), 6) for what in (*lines.MOVES, lines.LOCKED)), len(mine))
        if seen != KNOWN[data["case"]]:
            wrong.append(f"{data['case']}: read, written, locked, lines are {seen}, and not {KNOWN[data['case']]}")
    missing = KNOWN.keys() - {data["case"] for data in measured}
    return wrong + [f"{case}: was not measured" for case in sorted(missing)]


def rows(by_driver):
    """The table's lines: ours next to C's, and upstream's."""
    found = []
    for title, base in by_driver["c"].items():
        both = base, by_driver["rust"][title]
        moved, own = ([lines.moved(data, owner) for data in both] for owner in (None, lines.DRIVER))
        locked, turns = ([data["unit"][what] for data in both] for what in (lines.LOCKED, lines.PAUSE))
        ratio = f"{moved[1] / moved[0]:.2f}" if moved[0] >= 0.5 else "–"
        upstream = by_driver["upstream"][title]
        found.append([title, *(f"{value:.1f}" for value in moved), ratio, *(f"{value:.1f}" for pair in (own, locked, turns) for value in pair),
                      f"{lines.moved(upstream):.1f}", f"{upstream['unit'][lines.PAUSE]:.1f}"])
    return found
