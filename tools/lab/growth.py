# SPDX-License-Identifier: GPL-2.0
"""`make growth`: how costs grow with how many there are, in exact instructions, on every driver; and for how long
others have to wait meanwhile.

What is measured, and when growth is a fault, is in tools/binder-bench (src/growth, src/report/growth.rs). Here a
plugin of QEMU is added, which counts, and sees how long preemption and interrupts are off (tools/report/stretches.c).
Each quantity has a boot of its own, so that its figures do not depend on what was measured before, and a run that was cut
off goes on where it stopped.
"""

import json
import pathlib
import re
import subprocess
import tempfile

from . import bench, cache, guest, kernel, module, packages, proc, programs, say
from .versions import ROOT

DRIVERS = bench.DRIVERS
STAGE = "growth"
_GUEST = "x86_64"
_PLUGIN = ROOT / "tools/report/stretches.c"
# What the figures depend on besides the kernel and our driver.
_SOURCES = ("tools/report/stretches.c", "tools/report/plugin.h", "tools/report/marks.h", "tools/binder-sys/src", "Cargo.toml",
            "Cargo.lock",
            *(f"tools/binder-bench/src/{name}" for name in ("growth", "clock.rs", "marks.rs", "registry.rs", "talk.rs")))
_TIMEOUT = 2400
# A driver of others may not come to an end with many of something. After so many seconds it is measured with fewer.
_PATIENCE = {"upstream": 300}
# What ours does on purpose, with the reason in docs/growth.md: ends of phases' names, and what is said of them.
_ACCEPTED = ((": call a third process", "faster than C"),)
# For `make test`: where growth was once a fault, or is likely to become one; all four
# sizes, for three give two differences, and memory that is given back in pieces bends a line through two points.
SHORT = ("own nodes, weak then strong", "depth of nesting", "oneway calls, frozen", "files of one call")
SHORT_STEPS = 4


def run(only="", drivers=DRIVERS, steps=None, to_docs=False):
    """Measure what was not measured yet, print a table, and say what grows too fast; the exit status. `to_docs`: the whole
    goes into docs/growth.md, too."""
    whole = not only and steps is None
    if to_docs and not (whole and drivers == DRIVERS):
        raise say.LabError("only all quantities at all sizes on all drivers go into the docs")
    packages.ensure("report")
    program = programs.build(bench.CRATE)
    quantities = _chosen(program, only, steps)
    began = bench.now()
    paths, problems = collect(program, drivers, quantities, whole)
    if whole:
        bench.remember(STAGE, began=began)
    print()
    subprocess.run([program, "report", *map(str, paths)], check=False)
    found = faults(program, paths)
    for text in problems + found:
        print(f"error: {text}")
    print(f"\n{'no' if not found else len(found)} phases of ours grow too fast or let others wait too long")
    if to_docs:
        from report import growth_page

        growth_page.write(program, paths, began[:10], bench.commit())
    return 1 if problems or found else 0


def short(drivers=("c", "rust")):
    """A few quantities, for `make test`: (how many phases of ours, what is wrong)."""
    program = programs.build(bench.CRATE)
    paths, problems = collect(program, drivers, {";".join(SHORT): SHORT_STEPS})
    rows = _report(program, paths)
    return len(rows), problems + _faults(rows)


def faults_kept():
    """What is wrong with ours, if all of it was measured of the very drivers and kernel of now; None if it was not."""
    program = programs.build(bench.CRATE)
    quantities, drivers = _chosen(program), ("c", "rust")
    ours = module.build(kernel.build(_GUEST))
    parts = (_place(driver, quantity, steps, ours if driver == "rust" else None)
             for driver in drivers for quantity, steps in quantities.items())
    if not all(path.exists() for path in parts):
        return None
    return faults(program, collect(program, drivers, quantities)[0])


def collect(program, drivers, quantities, whole=False):
    """Of quantities, {name: how many numbers}, the result files of the drivers, and what was wrong with boots. A part must not take the place of the whole."""
    folder = bench.HOME / STAGE
    folder.mkdir(parents=True, exist_ok=True)
    paths, problems = [], []
    for driver in drivers:
        parts, ours = [], module.build(kernel.build(_GUEST)) if driver == "rust" else None
        for quantity, steps in quantities.items():
            content, wrong = json.loads(_part(driver, program, quantity, steps, ours).read_text())
            parts.append(content)
            # What a kernel says of another driver is no fault of ours.
            said = [f"{driver}, {quantity}: {text}" for text in wrong]
            if driver not in _PATIENCE:
                problems += said
            elif said:
                say.lines("\n".join(said))
        path = folder / (f"{driver}-1.json" if whole else f"{driver}.part")
        path.write_text(json.dumps(parts[0] | {"cells": [cell for part in parts for cell in part["cells"]]}) + "\n")
        paths.append(path)
    return paths, problems


def _part(driver, program, quantity, steps, ours=None):
    """What one quantity came to on a driver, or several between semicolons, measured unless that was done already. `ours`
    is our module, which is built anew again and again, and does not belong into the cache of all checkouts."""
    path = _place(driver, quantity, steps, ours)

    def make(part):
        part.write_text(json.dumps(_measured(driver, program, quantity, steps, ours)))

    if not ours:
        return cache.entry(f"growth/{path.name}", make)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".unfinished")
        make(part)
        part.rename(path)
    return path


def _place(driver, quantity, steps, ours=None):
    """Where that is kept."""
    text = cache.content(ours) if ours else ""
    key = cache.key(str(kernel.build(_GUEST).folder), text, _digest(), quantity, steps)
    folder = bench.HOME / STAGE / "parts" if ours else cache.root() / "growth"
    return folder / f"{driver}-{re.sub('[^a-z]+', '-', quantity)[:60]}-{key}.json"


def _digest():
    """A name for the state of the sources."""
    files = [file for name in _SOURCES for path in [ROOT / name]
             for file in (sorted(path.rglob("*.rs")) if path.is_dir() else [path])]
    return cache.content(*files)


def _chosen(program, only="", steps=None):
    """{name: how many numbers} of the quantities whose names contain one of the words, between commas."""
    listed = [line.split("\t") for line in proc.output(program, "growth", "--driver", "none", "--list").splitlines()]
    wanted = {name: min(int(numbers), steps or int(numbers)) for numbers, name in listed if any(word in name for word in only.split(","))}
    if not wanted:
        raise say.LabError(f"no quantity is called {only}; there are:\n" + "\n".join(name for _, name in listed))
    return wanted


class Unfinished(say.LabError):
    """A driver has not come to an end in the time that it has."""


def _measured(driver, program, quantity, steps, ours):
    """The result of the boot that goes as far as the driver does in its time."""
    for fewer in range(steps, 0, -1):
        try:
            content, wrong = measure(driver, program, quantity, fewer, ours)
        except Unfinished as error:
            if driver not in _PATIENCE or fewer == 1:
                raise
            say.note(str(error))
            continue
        if fewer < steps:
            for cell in content["cells"]:
                cell["measured"]["growth"]["stopped"] = f"no end in {_PATIENCE[driver]} s with more"
        return content, wrong


def measure(driver, program, quantity, steps, ours=None):
    """The result of one boot, with what the plugin saw in it, and what was wrong with the boot."""
    built = kernel.build(_GUEST)
    with tempfile.TemporaryDirectory() as folder:
        plugin, seen = pathlib.Path(folder) / "stretches.so", pathlib.Path(folder) / "seen"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-o", plugin, _PLUGIN], check=True)
        words = ["growth", "--driver", driver, "--steps", str(steps), "--output", "/out/result.json",
                 "--quantities", quantity]
        line = "grep '\\[' /proc/kallsyms >/out/symbols; exec /lab/binder-bench \"$@\""
        job = guest.Job(argv=["/bin/sh", "-c", line, "sh", *words], driver=driver, icount=True,
                        timeout=_PATIENCE.get(driver, _TIMEOUT), files={"/lab/binder-bench": program}, module=ours,
                        qemu=("-plugin", f"{plugin},out={seen},{_addresses(built)}"))
        with say.Step(f"growth {driver}, {quantity}") as step:
            result = guest.run(built, job, step.hear)
        if "result.json" not in result.files and any(text.startswith("the guest hung") for text in result.problems):
            raise Unfinished(f"growth of {quantity} on {driver} has not come to an end with {steps} steps")
        if "result.json" not in result.files:
            why = "; ".join(result.problems) or f"status {result.status}: {result.output[-300:]}"
            raise say.LabError(f"growth could not be measured on {driver}: {why}")
        phases = read_phases(seen.read_text(), result.files["symbols"].decode())
    return add_phases(json.loads(result.files["result.json"]), phases), result.problems


def _addresses(built):
    """What the plugin has to know of the kernel."""
    wanted = {"__preempt_count": "count", "entry_SYSCALL_64": "entry"}
    lines = (line.split() for line in (built.folder / "System.map").read_text().splitlines())
    found = {name: address for address, _, name in lines if name in wanted}
    return ",".join(f"{key}={found[name]}" for name, key in wanted.items())


def read_phases(text, kallsyms):
    """(instructions, longest with preemption off, with interrupts off) of all phases in their order; a longest stretch comes
    with the driver's function, or is None."""
    from report import symbols

    functions = symbols.read(kallsyms)

    def stretch(instructions, address):
        if instructions == "0":
            return None
        return {"instructions": int(instructions), "function": _name(functions, int(address, 16))}

    rows = (line.split() for line in text.splitlines())
    return [(int(row[0]), stretch(*row[1:3]), stretch(*row[3:])) for row in rows]


def _name(functions, address):
    below = [function.name for function in functions if function.address <= address]
    return below[-1] if below else f"{address:#x}"


def add_phases(result, phases):
    """The result with what the plugin saw: of repetitions, the fewest instructions and the longest stretches. What a phase
    takes in which nothing happens is taken off; those come before all others."""
    points = [point for cell in result["cells"] for point in cell["measured"]["growth"]["points"]]
    first = min((place for point in points for place in point["places"]), default=0)
    nothing = min((instructions for instructions, _, _ in phases[:first]), default=0)
    for point in points:
        instructions, *stretches = zip(*(phases[place] for place in point["places"]))
        point["instructions"] = max(min(instructions) - nothing, 0)
        for name, seen in zip(("preempt_off", "irqs_off"), stretches):
            point[name] = max(filter(None, seen), key=lambda stretch: stretch["instructions"], default=None)
    return result


def faults(program, paths):
    """What is wrong with ours."""
    return _faults(_report(program, paths))


def _report(program, paths):
    """Rows of ours."""
    report = json.loads(proc.output(program, "report", "--json", *paths))
    return [row for row in report["growth"] if row["subject"].get("driver") == "rust"]


def _faults(rows):
    """What is wrong, but for what is accepted."""
    found = ((row["case"], [fault for fault in row["faults"] if not any(
        row["case"].endswith(phase) and fault == said for phase, said in _ACCEPTED)]) for row in rows)
    return [f"{case}: {', '.join(faults)}" for case, faults in found if faults]
