# SPDX-License-Identifier: GPL-2.0
"""`make bench ONLY=mesh`: the load of many on each driver."""

import functools
import json

from . import bench, bench_series, guest, kernel, programs, say

HOME = bench.HOME / "mesh"
# The contract suite's mesh: in which guest, on how many CPUs whose time is instructions (0: on the host's time), for
# how many seconds, and what else it is told.
LOADS = (("um", 0, 10, ()), ("x86_64", 2, 2, ("--pace", "4000")), ("x86_64", 2, 3, ()),
         ("x86_64", 1, 3, ("--oneway", "80")))
HEADERS = ("load", "driver", "seed", "calls/s", "refused", "oneway/s", "refused", "p50 µs", "p99 µs", "most µs")


def steps(rounds):
    """Drivers taking turns, each round with other random choices."""
    program = programs.build("tests/contract")
    return [_step(index, driver, turn, program)
            for index in range(len(LOADS)) for turn in range(1, rounds + 1) for driver in bench.DRIVERS]


def _step(index, driver, turn, program):
    load = LOADS[index]
    name, counted_cpus, seconds, words = load
    inputs = [load, turn, bench.identity(name, driver, program, timed=not counted_cpus)]
    title = " ".join(["mesh", name, driver, *words, "round", str(turn)])
    return bench_series.Step(title, HOME / f"{index}-{driver}-{turn}.json", inputs,
                             functools.partial(_measure, title, load, driver, turn, program), 12 + 4 * seconds,
                             bench.conditions)


def _measure(title, load, driver, turn, program):
    name, counted_cpus, seconds, words = load
    argv = ["/lab/contract", "mesh", "--seconds", str(seconds), "--seed", str(turn), "--tolerate", "--json", *words]
    job = guest.Job(argv=argv, driver=driver, files={"/lab/contract": program}, icount=bool(counted_cpus),
                    qemu=("-smp", str(counted_cpus)) if counted_cpus else (),
                    timeout=seconds * (100 if counted_cpus else 1) + 150)
    with say.Step(title):
        result = guest.run(kernel.build(name), job)
    if not result.good:
        why = "; ".join(result.problems) or f"status {result.status}: {result.output[-300:]}"
        raise say.LabError(f"the mesh failed on {driver}: {why}")
    return result.output.strip().splitlines()[-1].encode()


def rows():
    """The lines of the table, from what was measured last."""
    found = []
    for index, load in enumerate(LOADS):
        for path in sorted(HOME.glob(f"{index}-*.json"), key=_place):
            _, driver, turn = path.stem.split("-")
            found.append(row(load, driver, turn, json.loads(path.read_text())))
    return found


def _place(path):
    _, driver, turn = path.stem.split("-")
    return int(turn), bench.DRIVERS.index(driver)


def row(load, driver, turn, outcome):
    """A line of the table; what was accepted has been delivered, or the load has failed."""
    name, counted_cpus, seconds, words = load
    title = " ".join([name, *([f"{counted_cpus} CPUs"] if counted_cpus else []), *words])
    return [title, driver, str(turn), f"{outcome['answered'] / seconds:.0f}", str(outcome["sync_refused"]),
            f"{outcome['accepted'] / seconds:.0f}", str(outcome["oneway_refused"]),
            *(f"{outcome[name]:.0f}" for name in ("p50", "p99", "most"))]
