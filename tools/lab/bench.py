# SPDX-License-Identifier: GPL-2.0
"""Boots in which binder-bench measures, and what is known of when and of what.

The programs of the benchmark say what is measured and how it is judged; here is only who runs, and where. `make bench` is in
bench_quick.py and bench_full.py.
"""

import datetime
import json
import math
import os
import pathlib
import platform
import subprocess

from . import cache, emulator, guest, kernel, module, programs, proc, say
from .versions import BUILD, ROOT

CRATE = "tools/binder-bench"
DRIVERS = ("c", "rust", "upstream")
# How long each of the 150 or so points is measured in a boot; several boots say more than one long one.
SECONDS = 0.25
# What binder-bench is told in each series. Memory is weighed where one run is like the next, too.
_WORDS = {"time": ["run"], "count": ["run", "--count"], "exact": ["run", "--count"], "memory": ["memory"],
          "retention": ["retention"], "boots": ["throughput"],
          "pressure": ["pressure", "--count"], "pressure-time": ["pressure"]}
TIMED = ("time", "pressure-time", "boots")
# Only our driver can charge the pages of buffers to the cgroup of their owner, by a parameter: its name then, and
# what to load and to boot with.
CHARGED = {"rust-charged": ("rust", ("parameters=charge_buffers=1",))}
HOME = BUILD / "bench"
# What ours may keep of something that has ended, in bytes and more than the C driver. Of a process of which others hold
# nodes: its record, by whose lock those are guarded, and its struct pid. Of a thread: its struct pid, and what it has ready for
# its next call. Of anything else: nothing.
KEPT = {"process": 1280, "device": 1280, "thread": 512}
KEPT_OTHERWISE = 64
# For `make test`.
FEW_ENDINGS = ("receiver-killed", "callee-killed", "dead-released", "thread-exits", "oneway-served", "unloaded")


def retention():
    """Weigh what each driver keeps of what has ended, and print it; the exit status: ours may keep no more than
    the C driver and what `KEPT` says."""
    program = programs.build(CRATE)
    series("retention", "x86_64", 1, DRIVERS, program, ("--steps", "16"))
    print()
    subprocess.run([program, "report", "--markdown", *map(str, results("retention"))], check=False)
    too_much = kept_too_much(*((HOME / "retention" / f"{driver}-1.json").read_bytes() for driver in ("c", "rust")))
    for line in too_much:
        say.note(line)
    say.note(f"{len(too_much) or 'nothing'} of what has ended keeps more memory than it may")
    return 1 if too_much else 0


def retention_of_few():
    """The same for `make test`, of a few that were once kept, or are likely to be: (how many, what is wrong)."""
    program = programs.build(CRATE)
    words = ["--endings", ",".join(FEW_ENDINGS), "--steps", "16"]
    key = cache.key(str(kernel.build("x86_64").folder), cache.content(program), words)

    def weigh(driver):
        return measure(f"what {driver} keeps of a few", "x86_64", driver, program, "retention", words)

    base = cache.entry(f"bench/c-retention-{key}.json", lambda part: part.write_bytes(weigh("c")))
    return len(FEW_ENDINGS), kept_too_much(base.read_bytes(), weigh("rust"))


def kept_too_much(base, ours):
    """What ours keeps too much of, from two result files. What both may be wrong by counts for ours."""
    base, ours = _kept(base), _kept(ours)
    found = []
    for ending, (kept, doubt) in ours.items():
        of_base, doubt_of_base = base.get(ending, (0, 0))
        allowed = KEPT.get(ending.split(" ")[0], KEPT_OTHERWISE)
        if kept > of_base + allowed + math.hypot(doubt, doubt_of_base):
            found.append(f"{ending}: {kept:.0f} bytes, which is more than C's {of_base:.0f} and {allowed}")
    return found


def _kept(content):
    """Bytes by ending, and what the measurement may be wrong by."""
    cells = json.loads(content)["cells"]
    weighed = {cell["case"]: cell["measured"]["memory"] for cell in cells}
    return {ending: (memory["bytes"], memory["plus_minus"]) for ending, memory in weighed.items()}


def results(stage):
    """The result files of the last series."""
    return sorted((HOME / stage).glob("*-*.json"))


def series(stage, name, rounds, drivers, program, extra=()):
    """Boot guest `name` with each driver `rounds` times; the result files, in place of those of the last series."""
    folder = HOME / stage
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for turn in range(1, rounds + 1):
        for driver in drivers:
            path = folder / f"{driver}-{turn}.json"
            path.write_bytes(measure(f"{stage} {driver}, round {turn} of {rounds}", name, driver, program, stage, extra))
            made.append(path)
    for old in set(results(stage)) - set(made):
        old.unlink()
    return made


def measure(title, name, driver, program, stage, extra=(), qemu=()):
    """The result file of one boot; `extra` are more options of binder-bench, `qemu` of QEMU."""
    built = kernel.build(name)
    argv = ["/lab/binder-bench", *arguments(stage, extra), "--driver", driver, "--output", "/out/result.json", *extra]
    # User Mode Linux must stay on one host CPU, or its system calls take either 7 or 50 µs.
    pin = quiet_cpu() if built.guest.arch == "um" else None
    driver, boot = CHARGED.get(driver, (driver, ()))
    if stage == "retention" and driver == "rust":
        # The only one that can be unloaded.
        argv += ["--module", f"/lab/{guest.MODULES[driver]}.ko"]
    job = guest.Job(argv=argv, driver=driver, files={"/lab/binder-bench": program}, pin=pin,
                    icount=stage not in TIMED, timeout=1500, boot=boot, qemu=qemu)
    with say.Step(title) as step:
        result = guest.run(built, job, step.hear)
    if not result.good or "result.json" not in result.files:
        why = "; ".join(result.problems) or f"status {result.status}: {result.output[-300:]}"
        raise say.LabError(f"the benchmark failed on {driver}: {why}\n"
                           f"try it alone: make exec GUEST={name} DRIVER={driver} "
                           f"RUN='{program} {_WORDS[stage][0]} --driver {driver}'")
    return result.files["result.json"]


def arguments(stage, extra=()):
    """What binder-bench is told."""
    return _WORDS[stage] + ([] if stage != "time" or "--seconds" in extra else ["--seconds", str(SECONDS)])


def identity(name, driver, program, timed):
    """All that a measurement in guest `name` depends on besides its options; times depend on the machine, too."""
    built = kernel.build(name)
    driver, boot = CHARGED.get(driver, (driver, ()))
    ours = [cache.content(module.build(built))] if driver == "rust" else []
    machine = [processor(), platform.node()] if timed else []
    qemu = [] if built.guest.arch == "um" else [emulator.version(built.guest.arch).splitlines()[0]]
    return [str(built.folder), driver, boot, ours, cache.content(program), machine, qemu]


def conditions():
    """What is written down of a boot."""
    return {"load": os.getloadavg()[0], "commit": commit()}



def processor():
    """The host's, by its name."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")


def remember(stage, **facts):
    """Keep when and from what a stage was measured."""
    path = HOME / "facts.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known[stage] = facts | {"commit": commit()}
    path.write_text(json.dumps(known, indent=1))


def commit():
    """What is measured now."""
    if not (pathlib.Path(ROOT) / ".git").exists():
        return "not in git"
    changed = proc.output("git", "-C", ROOT, "status", "--porcelain", "-uno").strip()
    return proc.output("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip() + (" and changes" if changed else "")


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")


def quiet_cpu():
    """The last CPU that this process may use: interrupts tend to go to the first."""
    return max(os.sched_getaffinity(0))
