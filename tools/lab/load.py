# SPDX-License-Identifier: GPL-2.0
"""The two load generators of the contract's program: valid traffic of many processes, and random commands on two drivers."""

import difflib
import json
import os
from concurrent import futures

from . import cache, guest, kernel, module, programs, say
from .run import last_words, run
from .versions import ROOT

_DRIVERS = ("c", "rust")
# Lines of a trace that are shown from where it begins to differ.
_SHOWN = 30
# A run of more seeds keeps what so many at a time have printed, and goes on from there the next time.
_PART = 500


def run_load(tally, name, driver, seconds, *words, cpus=2, icount=False):
    """Traffic for so many seconds; `words`: its options. With `icount` the guest's time is its instructions, and it has one CPU."""
    title = " ".join(["load", name, driver, f"{seconds} s", *words])
    argv = ["/lab/contract", "load", "--driver", driver, "--seconds", str(seconds), *words]
    job = guest.Job(argv=argv, driver=driver, files={"/lab/contract": programs.build_for(name, "tests/contract")}, icount=icount,
                    cpus=1 if icount else cpus, leaks=name == "um", timeout=seconds * (100 if icount else 3) + 200)
    result = run(title, name, job)
    say.lines(*last_words(result.output))
    tally.one(title, result.good)


def fuzz(tally, name, first, count):
    """Compare the drivers' traces of `count` seeds."""
    program = programs.build("tests/contract")
    ours = sorted(path for folder in (module.DRIVER, ROOT / "rust", ROOT / "include") for path in folder.rglob("*") if path.is_file())
    # C's driver comes with the kernel.
    sources = {"c": [program], "rust": [program, *ours]}

    def traces(driver, first, count, *more):
        """The lines that these seeds print on a driver."""
        return _traces(name, driver, program, first, count, *more)

    def kept(driver, first, count):
        """The lines that they have printed, perhaps in an earlier run."""
        made_of = [driver, str(kernel.build(name).folder), cache.content(*sources[driver]), first, count]
        return json.loads(cache.entry(f"fuzz/{cache.key(made_of)}.json", lambda path: path.write_text(json.dumps(traces(driver, first, count)))).read_text())

    def all_of(driver):
        made = traces if count <= _PART else kept
        return [line for start in range(first, first + count, _PART) for line in made(driver, start, min(_PART, first + count - start))]

    def of_both(lines, *more):
        with futures.ThreadPoolExecutor() as pool:
            return [*pool.map(lambda driver: lines(driver, *more), _DRIVERS)]

    lines = of_both(all_of)
    different = [a.split()[1] for a, b in zip(*lines) if a != b]
    died = [line for driver in lines for line in driver if " died: " in line]
    for line in died:
        say.note(f"  {line}")
    if len(lines[0]) != count or len(lines[1]) != count:
        raise say.LabError(f"{count} seeds, but {len(lines[0])} and {len(lines[1])} traces")
    for seed in different[:3]:
        both = of_both(traces, seed, 1, "--trace")
        same = len(os.path.commonprefix(both))
        steps = [line.split()[1] for line in both[0][:same + 1] if line.startswith("step ")]

        def shown(steps):
            return of_both(traces, seed, 1, "--trace", "--steps", ",".join(steps))

        steps = fewest(steps, lambda steps: len(set(map(tuple, shown(steps)))) > 1)
        print(f"seed {seed}, steps {','.join(steps)}:")
        print("\n".join(list(difflib.unified_diff(*shown(steps), *_DRIVERS, "", "", lineterm=""))[:_SHOWN]))
    commands = sum(int(line.split()[-1]) for line in lines[0] if " died: " not in line)
    tally.tried = f"{commands} commands"
    print(f"\n{count - len(different)} of {count} seeds with {tally.tried} the same on {' and '.join(_DRIVERS)}")
    tally.add(f"seeds {first} to {first + count - 1} {name}", count - len(different), len(different) + len(died))


def fewest(steps, differs):
    """Some of these steps that differ, too: half of them is left out, then smaller parts."""
    size = len(steps)
    while size := size // 2:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size:]
            if fewer and differs(fewer):
                steps = fewer
            else:
                at += size
    return steps


def _traces(name, driver, program, first, count, *more):
    """The lines that the seeds print on a driver."""
    argv = ["/lab/contract", "fuzz", "--driver", driver, "--seed", str(first), "--count", str(count), *more]
    job = guest.Job(argv=argv, driver=driver, files={"/lab/contract": program}, cpus=1, timeout=120 + 4 * count)
    result = guest.succeed(f"{count} seeds on {driver}", kernel.build(name), job)
    return [line for line in result.output.splitlines() if line]
