# SPDX-License-Identifier: GPL-2.0
"""The two load generators of the contract's program: valid traffic of many processes, and random commands on two drivers."""

import difflib
import json
import os

from . import cache, guest, kernel, module, programs, say
from .run import last_words, run
from .versions import ROOT

# The drivers that are compared, and what each calls its filesystem.
_DRIVERS = {"c": "binder", "rust": "binder-rust"}
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
    """Compare the drivers' traces of `count` seeds, which run in one guest on one driver after the other."""
    program = programs.build("tests/contract")
    ours = sorted(path for folder in (module.DRIVER, ROOT / "rust", ROOT / "include") for path in folder.rglob("*") if path.is_file())
    built = kernel.build(name)

    def traces(first, count, *more, drivers=_DRIVERS):
        """The lines that these seeds print on drivers."""
        return _traces(built, program, drivers, first, count, *more)

    def kept(first, count):
        """The lines that they have printed, perhaps in an earlier run."""
        made_of = [str(built.folder), cache.content(program, *ours), first, count]
        return json.loads(cache.entry(f"fuzz/{cache.key(made_of)}.json", lambda path: path.write_text(json.dumps(traces(first, count)))).read_text())

    made = traces if count <= _PART else kept
    lines = [line for start in range(first, first + count, _PART) for line in made(start, min(_PART, first + count - start))]
    if len(lines) != count * len(_DRIVERS):
        raise say.LabError(f"{count} seeds on {len(_DRIVERS)} drivers, but {len(lines)} traces")
    on_c, on_ours = (lines[at::len(_DRIVERS)] for at in range(len(_DRIVERS)))
    different = [a.split()[1] for a, b in zip(on_c, on_ours) if a != b]
    died = [line for line in lines if " died: " in line]
    for line in died:
        say.note(f"  {line}")
    for seed in different[:3]:
        def shown(*words):
            return [traces(seed, 1, "--trace", *words, drivers=[driver]) for driver in _DRIVERS]

        both = shown()
        same = len(os.path.commonprefix(both))
        steps = [line.split()[1] for line in both[0][:same + 1] if line.startswith("step ")]
        steps = fewest(steps, lambda steps: len(set(map(tuple, shown("--steps", ",".join(steps))))) > 1)
        print(f"seed {seed}, steps {','.join(steps)}:")
        print("\n".join(list(difflib.unified_diff(*shown("--steps", ",".join(steps)), *_DRIVERS, "", "", lineterm=""))[:_SHOWN]))
    commands = sum(int(line.split()[-1]) for line in on_c if " died: " not in line)
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


def _traces(built, program, drivers, first, count, *more):
    """The lines that the seeds print on drivers; all of them are loaded."""
    words = ",".join(f"{driver}={_DRIVERS[driver]}" for driver in drivers)
    script = (f"insmod /lab/binder_linux.ko && insmod /lab/binder_rust.ko name={_DRIVERS['rust']}"
              f" && exec /lab/contract fuzz --drivers {words} --seed {first} --count {count} {' '.join(more)}")
    files = {"/lab/contract": program, "/lab/binder_linux.ko": built.module("c")}
    job = guest.Job(argv=["/bin/sh", "-c", script], load=False, files=files, cpus=1, timeout=120 + 8 * count)
    result = guest.succeed(f"{count} seeds on {' and '.join(drivers)}", built, job)
    return [line for line in result.output.splitlines() if line]
