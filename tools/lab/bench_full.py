# SPDX-License-Identifier: GPL-2.0
"""`make bench FULL=1`: all drivers, boot after boot, and one page of all of it; `ONLY=` for parts.

Turns (A B C, A B C, ...) keep a slow drift of the machine from looking like a difference between
drivers. Every boot is a step that is kept (bench_series.py).
"""

import functools
import json
import subprocess

from . import bench, bench_lines, bench_mesh, bench_series, bench_summary, cache, kernel, operations, packages, programs, say
from .versions import BUILD, ROOT

STAGES = ("time", "count", "memory", "pressure", "mesh", "lines", "profile", "report")
_GUEST = "x86_64"
# About how many seconds a boot of each series takes on a quiet machine.
_TAKES = {"time": 130, "count": 45, "memory": 40, "pressure": 25, "pressure-time": 25}
NEXT = ("make growth           how costs grow with how many there are",
        "make test             everything that must hold")
# A kernel that has to be compiled first, on two CPUs.
_KERNEL = 600


def run(stages, rounds=3, extra=(), to_docs=False, again=False):
    """Go through `stages` and print what came out; the exit status. Stages left out keep their last results, which the
    page shows, too. `extra` are options of `binder-bench run` for times."""
    _announce(stages)
    packages.ensure("report")
    program = programs.build(bench.CRATE)
    steps = {stage: _steps(stage, rounds, program, extra) for stage in stages if stage != "report"}
    made = bench_series.run([step for several in steps.values() for step in several], again)
    for several in steps.values():
        _drop_others(several)
    if steps and not made:
        say.note("all of it was measured before, of the same sources; AGAIN=1 measures it anew")
    for stage in steps:
        print()
        bench_summary.show(_lines(stage, program))
    page = _page(program, to_docs) if "report" in stages else None
    if to_docs and "lines" in stages:
        bench_lines.into_docs()
    print()
    bench_summary.show(_end(page, program))
    return 0


def _announce(stages):
    names = [name for name in ("um", _GUEST) if any(name in _guests(stage) for stage in stages)]
    missing = [name for name in names if not any((cache.root() / "kernel").glob(f"{name}-[0-9a-f]*/.complete"))]
    if missing:
        say.note(f"first {len(missing)} kernels are compiled ({', '.join(missing)}), which are kept: about "
                 f"{bench_series.minutes(_KERNEL * len(missing))} on two CPUs")


def _guests(stage):
    return {"time": ("um",), "pressure": ("um", _GUEST), "mesh": ("um", _GUEST), "report": ()}.get(stage, (_GUEST,))


def _steps(stage, rounds, program, extra):
    """The boots of a stage."""
    if stage == "time":
        return boots("time", "um", rounds, bench.DRIVERS, program, extra)
    if stage == "pressure":
        drivers = ("c", "rust", *bench.CHARGED)
        return [*boots("pressure", _GUEST, 1, drivers, program), *boots("pressure-time", "um", 1, drivers, program)]
    if stage == "mesh":
        return bench_mesh.steps(rounds)
    if stage == "lines":
        return bench_lines.steps()
    if stage == "profile":
        built = kernel.build(_GUEST)
        return [operations.step(built, driver, program) for driver in bench.DRIVERS]
    return boots(stage, _GUEST, 1, bench.DRIVERS, program)


def boots(stage, name, rounds, drivers, program, extra=()):
    """Boots of guest `name` with each driver, `rounds` times."""
    found = []
    for turn in range(1, rounds + 1):
        for driver in drivers:
            title = f"{stage} {driver}, round {turn} of {rounds}"
            inputs = [bench.identity(name, driver, program, timed=stage in bench.TIMED), bench.arguments(stage, extra),
                      list(extra)]
            make = functools.partial(bench.measure, title, name, driver, program, stage, extra)
            found.append(bench_series.Step(title, bench.HOME / stage / f"{driver}-{turn}.json", inputs, make,
                                           _TAKES[stage], bench.conditions))
    return found


def _drop_others(steps):
    """Results of an earlier run with more rounds do not count among those of this one."""
    wanted = {step.path for step in steps}
    for folder in {path.parent for path in wanted}:
        for path in set(folder.glob("*.json")) - wanted:
            path.unlink()


def _lines(stage, program):
    """What is printed of a stage."""
    from report import data

    if stage == "mesh":
        return bench_summary.columns(bench_mesh.HEADERS, bench_mesh.rows())
    if stage == "lines":
        return [*bench_summary.columns(bench_lines.HEADERS, bench_lines.rows()), "",
                *bench_summary.columns(bench_lines.HELD_HEADERS, bench_lines.held_rows())]
    if stage == "pressure":
        return ["calls while memory is taken back: in the page"]
    if stage == "profile":
        ours, base = (_operations()[driver] for driver in ("rust", "c"))
        return [*bench_summary.head(), *_rows(ours, base), "",
                *bench_summary.breakdown(ours["profile"], base["profile"])]
    results = data.load(program, bench.results(stage))
    return {"time": bench_summary.times, "count": bench_summary.counts, "memory": bench_summary.memory}[stage](results)


def _rows(ours, base):
    ours, base = operations.rows(ours), operations.rows(base)
    return [bench_summary.row(name, ours[name], base[name]) for name in ours]


def _operations():
    """What was measured of the main operations, by driver."""
    folder = operations.HOME / _GUEST
    return {driver: operations.load(folder / f"{driver}.json") for driver in bench.DRIVERS
            if (folder / f"{driver}.json").exists()}


def _end(page, program):
    """The last lines: of what was measured, now or before."""
    found = _operations()
    lines = []
    if {"c", "rust"} <= found.keys():
        ours, base = found["rust"], found["c"]
        lines = bench_summary.headline(operations.rows(ours), operations.rows(base), [ours["profile"], base["profile"]])
    from report import data

    if not lines and bench.results("count"):
        lines = bench_summary.count_headline(data.load(program, bench.results("count")))
    if bench.results("time"):
        lines = lines[:4] + bench_summary.time_headline(data.load(program, bench.results("time")))
    return bench_summary.end(lines, page or "nothing new: make bench ONLY=report draws the page",
                             NEXT)


def _page(program, to_docs):
    from report import results_page, sections, write

    paths = {stage: bench.results(stage) for stage in write.MEASURED}
    found = _operations()
    profiles = []
    for driver, content in found.items():
        profiles.append(operations.HOME / _GUEST / "results" / f"profile-{driver}.json")
        profiles[-1].parent.mkdir(parents=True, exist_ok=True)
        profiles[-1].write_text(json.dumps(content["profile"]))
    locked = {driver: content["locked"] for driver, content in found.items()}
    facts = _facts(paths, found)
    with say.Step("drawing the page"):
        shown = write.report(program, paths, profiles, facts, BUILD / "report", locked, more=_more(sections, program))
        if to_docs:
            write.docs(BUILD / "report", ROOT / "docs/figures")
            results_page.write(BUILD / "report", facts)
    return shown


def _more(sections, program):
    """What the page has besides: tables that are too wide for a terminal."""
    found = []
    if mesh := bench_mesh.rows():
        found.append(sections.Section(
            "mesh", "A load of many", "Twenty processes that all call each other, in different guests, at a pace and without.",
            [], sections.Table(list(bench_mesh.HEADERS), mesh, (0, 1))))
    if moved := bench_lines.rows():
        found.append(sections.Section(
            "lines", "Lines that move between CPUs",
            "Cache lines of 64 bytes that a CPU reads after another one has changed them, or writes while others have them, in a call; "
            "those that the driver's own code moves; locked operations on a line that another CPU was the last to write; turns "
            "of the kernel's loops that wait for a lock. CPUs with private caches, in a model; exact.",
            [], sections.Table(list(bench_lines.HEADERS), moved)))
        found.append(sections.Section(
            "holds", "How long spin locks are held",
            "How many spin locks the driver's code takes in a call, and how many instructions its CPU executes on average until it gives one back. "
            "Mutexes are left out.", [], sections.Table(list(bench_lines.HELD_HEADERS), bench_lines.held_rows())))
    pressure = [path for stage in ("pressure", "pressure-time") for path in [bench.results(stage)] if path]
    if pressure:
        texts = [subprocess.run([program, "report", "--markdown", *map(str, paths)], check=False, text=True,
                                capture_output=True).stdout for paths in pressure]
        found.append(sections.Section("pressure", "Calls while memory is taken back",
                                      "Checked calls while the kernel takes memory back, and while it does not.", [],
                                      text="\n".join(texts)))
    return found


def _facts(paths, found):
    """When, of what, and under which load each stage was measured."""
    path = bench.HOME / "facts.json"
    facts = json.loads(path.read_text()) if path.exists() else {}
    stages = {stage: several for stage, several in paths.items() if several and stage != "growth"}
    if found:
        stages["profile"] = [operations.HOME / _GUEST / f"{driver}.json" for driver in found]
    for stage, several in stages.items():
        known = [about for about in map(bench_series.known, several) if about]
        if known:
            facts[stage] = {"began": min(about["began"] for about in known), "loads": [about["load"] for about in known],
                            "rounds": len(several) // len(bench.DRIVERS) or 1,
                            "commit": " / ".join(sorted({about["commit"] for about in known}))}
    return facts
