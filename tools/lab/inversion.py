# SPDX-License-Identifier: GPL-2.0
"""`make inversion`: the wait of a victim when a stranger loses its CPU in the middle of an operation, on all drivers.

`binder-bench inversion` preempts the stranger all along the operation, in a guest whose clock counts instructions. The victim, the stranger
and the kernel's own work have a CPU each. A row of our driver is worse if that adds more to the median, p99 or worst wait than on the
better of the other drivers. For p99 and the worst wait, more waits must be long as well. The margin is the variation of waits while no task
is preempted.

The kernel's own locks, such as that of all mappings of a file, make a victim wait on every driver, but at a few moments only. A sample of
300 may miss those. So a worse row is measured again at ten times as many, and chance is allowed for.

`random` is three attackers at once, whose operations, moments and hog a seed chooses.
"""

import functools
import json
import math

from . import bench, reports, say
from report import charts, data, page

FIGURES = {"median": 0.5, "p99": 0.99, "worst": 1.0}
# The clock counts the instructions of all CPUs, those of timers, interrupts and workers included: so many may come at any moment.
KERNELS_WORK = 100_000
# Victims that need the attacker to close its device. One that loses its CPU before that delays them with any driver.
_NEED_THE_END = ("notified of the death", "its call to the attacker fails")
RANDOM = "random"
ATTACKERS = {"idle": "SCHED_IDLE", "nice": "nice 19", "cgroup": "starved cgroup", "realtime": "real-time hog", RANDOM: RANDOM}
# The number of preemptions of an attacker, and that for a worse row.
_MOMENTS, _MORE = 300, 3000
# Preemption as on Android: a process of lower rank loses its CPU wherever it is in the kernel.
_BOOT = ("preempt=full",)


def run(only="", attackers="", seed=1, into_docs=False):
    """Measure what was not measured yet, print a table and what is wrong; the exit status. `seed`: of random attackers."""
    if into_docs and (only or attackers or seed != 1):
        raise say.LabError("only all operations of all attackers, with seed 1, go into reports/")
    chosen = tuple(filter(None, attackers.split(","))) or tuple(name for name in ATTACKERS if not only or name != RANDOM)
    if only and RANDOM in chosen:
        raise say.LabError(f"ONLY= names operations, and those of {RANDOM} are chosen by SEED=: leave out one of both")
    rows = collect(chosen, only, seed)
    for attacker, operation, victims in worse(rows):
        rows |= collect([attacker], operation, seed, _MORE, victims)
    wrong = faults(rows)
    print("\n" + "\n".join(page.plain(table(rows))))
    print("".join(f"error: {text}\n" for text in wrong) + f"{len(wrong) or 'no'} rows of our driver are worse than the better of the other drivers")
    if into_docs:
        reports.put("inversion", "Waits for a stranger that loses its CPU", bench.about(bench.COUNTED), table(rows))
    return 1 if wrong else 0


def worse(rows):
    """[(attacker, operation, victims between semicolons)] of which a row of ours is worse."""
    found = {}
    for text in faults(rows):
        shown, operation, victim, *_ = text.split(": ")
        victims = found.setdefault((next(name for name in ATTACKERS if ATTACKERS[name] == shown), operation), [])
        victims += [] if victim in victims else [victim]
    return [(*case, ";".join(victims)) for case, victims in found.items()]


def collect(attackers, operations, seed, moments=_MOMENTS, victims=""):
    """{case: {driver: two series of samples, the first without a hog, as pairs of nanoseconds and number}}."""
    rows = {}
    for attacker in attackers:
        for driver in bench.DRIVERS:
            for cell in json.loads(_step(driver, attacker, operations, seed, moments, victims).result().read_text()):
                rows.setdefault(cell["case"], {}).setdefault(driver, []).append(cell["measured"]["latency"]["histogram"])
    return rows


def _step(driver, attacker, operations, seed, moments, victims=""):
    chosen = f"--seed {seed}" if attacker == RANDOM else f"--attacker {attacker}" + (f" --operations '{operations}'" if operations else "")
    finer = f" --points {moments}" if moments != _MOMENTS else ""
    finer += f" --victims '{victims}'" if victims else ""
    script = f"$b inversion {chosen}{finer} $words --output /out/result.json"
    boot = bench.Boot(f"inversion {driver}, {attacker}", driver, script, cpus=3, timeout=1800, boot=_BOOT)
    return bench.step("inversion", boot, functools.partial(_measured, boot))


def _measured(boot):
    files, problems = boot.run()
    # A complaint of the kernel about another driver is no fault of ours.
    if problems and boot.driver == "rust":
        raise say.LabError("; ".join(problems))
    return json.dumps(json.loads(files["result.json"])["cells"])


def figures(samples):
    """Median, p99 and worst of pairs of nanoseconds and number."""
    pairs = sorted(samples)
    total, found = sum(number for _, number in pairs), {}
    for figure, part in FIGURES.items():
        below = 0
        for nanoseconds, number in pairs:
            below += number
            if below >= part * total:
                found[figure] = nanoseconds
                break
    return found


def added(series):
    """The time that the hog adds to median, p99 and worst, above the median without a hog."""
    calm = figures(series[0])["median"]
    return {figure: max(found - calm, 0) for figure, found in figures(series[1]).items()}


def margin(by_driver):
    """The most that a wait without a hog varies by, in a row, and what ticks and the kernel's own work take."""
    return max(KERNELS_WORK, *(max(series[0])[0] - min(series[0])[0] for series in by_driver.values()))


def faults(rows):
    """The faults of our driver."""
    found = []
    for case, by_driver in rows.items():
        if "rust" not in by_driver:
            found.append(f"{case}: not measured of ours")
            continue
        slack = margin(by_driver)
        adds = {driver: added(series) for driver, series in by_driver.items()}
        for figure, more in adds.pop("rust").items():
            least = min((other[figure] for other in adds.values()), default=more)
            if more > least + slack and not _is_luck(case, figure, by_driver, least + slack if figure != "worst" else slack):
                found.append(f"{case}: a preempted attacker adds {_us(more)} to the {figure} wait, and {_us(least)} on the better of the others")
    return found


def _is_luck(case, figure, by_driver, limit):
    """True if waits of ours are longer by chance: no more of them exceed a limit than three standard deviations allow."""
    if figure == "median":
        return False
    if figure == "worst" and case.endswith(_NEED_THE_END):
        return True
    counts = {driver: _beyond(series, limit) for driver, series in by_driver.items()}
    ours = counts.pop("rust")
    fewest = min(counts.values())
    is_finer = sum(number for _, number in by_driver["rust"][1]) >= _MORE
    return ours - fewest <= (3 * math.sqrt(ours + fewest + 1) if is_finer else 0)


def _beyond(series, limit):
    """The number of waits to which the hog adds more than a limit."""
    calm = figures(series[0])["median"]
    return sum(number for wait, number in series[1] if wait > calm + limit)


def _us(nanoseconds):
    return f"{charts.number(nanoseconds / 1000)} µs"


def table(rows):
    """A line for each case."""
    whose = [driver for driver in bench.DRIVERS if any(driver in by_driver for by_driver in rows.values())]
    lines, wrong = [], faults(rows)
    for case, by_driver in rows.items():
        all_of = {driver: figures(by_driver[driver][1]) for driver in whose if driver in by_driver}
        shown = [" / ".join(charts.number(value / 1000) for value in all_of[driver].values()) if driver in all_of else "–" for driver in whose]
        lines.append([*case.split(": "), *shown, "worse" if any(text.startswith(f"{case}: ") for text in wrong) else ""])
    heads = (f"{data.NAMES[driver]}: median / p99 / worst, µs" for driver in whose)
    return page.Table(("attacker", "its operation", "victim", *heads, "verdict"), lines, (0, 1, 2, 3 + len(whose)))
