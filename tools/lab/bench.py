# SPDX-License-Identifier: GPL-2.0
"""`make bench`: boot after boot, the drivers taking turns, and one table of all runs.

Turns (A B C, A B C, ...) keep a slow drift of the machine from looking like a difference between
drivers. The programs of the benchmark say what is measured and how it is judged; here is only who
runs when, and where.
"""

import os
import subprocess

from . import guest, kernel, programs, say
from .versions import BUILD

CRATE = "tools/binder-bench"


def run(name, rounds, icount, extra):
    """Measure in guest `name` and print the table; the exit status."""
    drivers = ["rust"] if kernel.GUESTS[name].builtin else ["c", "rust", "upstream"]
    program = programs.build(CRATE)
    built = kernel.build(name)
    # User Mode Linux must stay on one host CPU, or its system calls take either 7 or 50 µs.
    pin = _quiet_cpu() if built.guest.arch == "um" else None
    results = BUILD / "bench" / (name + ("-icount" if icount else ""))
    results.mkdir(parents=True, exist_ok=True)
    files = []
    for turn in range(1, rounds + 1):
        for driver in drivers:
            argv = ["/lab/binder-bench", "throughput", "--reply", "same", "--driver", driver,
                    "--output", "/out/result.json", *(["--count"] if icount else []), *extra]
            job = guest.Job(argv=argv, driver=driver, files={"/lab/binder-bench": program}, pin=pin,
                            icount=icount, timeout=900)
            with say.Step(f"bench {name} {driver}, round {turn} of {rounds}") as step:
                result = guest.run(built, job, lambda text: step.progress(text.strip()[-60:]))
            if not result.good or "result.json" not in result.files:
                why = "; ".join(result.problems) or f"status {result.status}: {result.output[-300:]}"
                raise say.LabError(f"the benchmark failed on {driver}: {why}")
            path = results / f"{driver}-{turn}.json"
            path.write_bytes(result.files["result.json"])
            files.append(path)
    print()
    report = subprocess.run([program, "report", *map(str, files)])
    say.note(f"the numbers are in {results}")
    return report.returncode


def _quiet_cpu():
    """The last CPU that this process may use: interrupts tend to go to the first."""
    return max(os.sched_getaffinity(0))
