# SPDX-License-Identifier: GPL-2.0
"""Where the time of `make test` goes: the wall-clock and CPU time of each stage and of its steps, measured while it runs.

The CPU time of a span is that of the thread it runs in, and of all processes that this thread has started and waited for,
theirs included, as the kernel adds them up. What a process does on after whoever started it has gone is not seen.
"""

import contextlib
import json
import os
import pathlib
import resource
import subprocess
import threading
import time
import tomllib

from .versions import BUILD, ROOT

RECORD = BUILD / "log/times.json"
DOCUMENT = ROOT / "docs/lab.md"
# About how long each stage takes: for their order.
TAKES = pathlib.Path(__file__).parent / "takes.toml"
# What is printed at the end of a run.
SHOWN = 10
# Shorter ones are not worth an order, or a line of the document.
WORTH = 5.0

_TAKES_HEAD = """# SPDX-License-Identifier: GPL-2.0
# Seconds that the stages of `make test` took beside each other, the longest first: `make times DOCS=1` writes this.
"""
_TICK = os.sysconf("SC_CLK_TCK")
_own = threading.local()


class Span:
    """A stage or a step: what it is called, and what it took in seconds."""

    def __init__(self, title):
        self.title, self.wall, self.cpu, self.steps = title, 0.0, 0.0, []

    def plain(self):
        """As it is recorded."""
        return {"title": self.title, "wall": round(self.wall, 2), "cpu": round(self.cpu, 2),
                "steps": [step.plain() for step in self.steps]}


@contextlib.contextmanager
def measure(here):
    """Measure in the span `here` what this thread does meanwhile; it is a part of the span around it, if there is one."""
    around = _spans()
    if around:
        around[-1].steps.append(here)
    around.append(here)
    began, spent = time.monotonic(), time.thread_time()
    try:
        yield
    finally:
        around.pop()
        here.wall = time.monotonic() - began
        here.cpu += time.thread_time() - spent


def _spans():
    if not hasattr(_own, "spans"):
        _own.spans = []
    return _own.spans


class Process(subprocess.Popen):
    """A process whose CPU time counts for the spans that it was started in."""

    def __init__(self, *arguments, **options):
        self._charged = list(_spans())
        super().__init__(*arguments, **options)

    def poll(self):
        self._weigh(os.WNOHANG)
        return super().poll()

    def wait(self, timeout=None):
        if timeout is None:
            self._weigh(0)
            return super().wait()
        deadline = time.monotonic() + timeout
        while not self._weigh(os.WNOHANG) and time.monotonic() < deadline:
            time.sleep(0.01)
        return super().wait(max(deadline - time.monotonic(), 0))

    def _weigh(self, option):
        """Whether it has ended; if so, charge what it took: the kernel knows until it is waited for."""
        if self.returncode is not None:
            return True
        if not os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | option):
            return False
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        # In user and kernel mode, its own, then those of processes that it has waited for.
        spent = sum(map(int, fields[11:15])) / _TICK
        for one in self._charged:
            one.cpu += spent
        self._charged = []
        return True


@contextlib.contextmanager
def counted():
    """Count the processes that any module of the lab starts meanwhile."""
    plain, subprocess.Popen = subprocess.Popen, Process
    try:
        yield
    finally:
        subprocess.Popen = plain


def record(spans, wall, kept=RECORD):
    """Keep what the stages of a run took, and what the run took in all."""
    # Of the lab's own threads, and of all processes, whichever span they were started in.
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    told = {"wall": round(wall, 1), "cpu": round(sum(one.ru_utime + one.ru_stime for one in used), 1),
            "cpus": os.cpu_count(), "stages": [one.plain() for one in spans]}
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(told, indent=1) + "\n")
    return told


def summary(told, kept=RECORD):
    """The lines that end a run: the stages that took most CPU time."""
    stages = sorted(told["stages"], key=lambda stage: -stage["cpu"])
    width = max([len(stage["title"]) for stage in stages[:SHOWN]], default=0)
    lines = [f"  {told['wall'] / 60:.1f} min on {told['cpus']} CPUs, of which they worked {told['cpu'] / 60:.1f} min in all; "
             "most of it in:"]
    lines += [f"  {stage['title']:<{width}} {stage['cpu']:>6.0f} s of CPU in {stage['wall']:>4.0f} s" for stage in stages[:SHOWN]]
    return [*lines, f"  All stages and their steps: {kept.relative_to(ROOT)}" + (", `make times`." if kept == RECORD else ".")]


def takes():
    """About how many seconds each stage takes, by its title; what is not there takes next to none."""
    return tomllib.loads(TAKES.read_text())


def table(told):
    """What the document shows: where the CPU time went, stage by stage, builds apart from what runs."""
    built = sum(step["cpu"] for stage in told["stages"] for step in _builds(stage))
    rows = [("builds of drivers, modules and programs, in whichever stage came first", "", built)]
    rows += [(stage["title"], stage["wall"], stage["cpu"] - sum(step["cpu"] for step in _builds(stage)))
             for stage in told["stages"]]
    rows.sort(key=lambda row: -row[2])
    shown = [row for row in rows if row[2] >= WORTH]
    others = [row for row in rows if row[2] < WORTH]
    lines = ["| stage | CPU, s | wall clock, s |", "|---|---|---|"]
    lines += [f"| {title} | {cpu:.0f} | {wall and f'{wall:.0f}'} |" for title, wall, cpu in shown]
    lines += [f"| {len(others)} others | {sum(row[2] for row in others):.0f} | {sum(row[1] for row in others):.0f} |"]
    lines += [f"| all, with {told['cpus']} CPUs | {told['cpu']:.0f} | {told['wall']:.0f} |"]
    return "\n".join(lines) + "\n"


def _builds(stage):
    """The steps of a stage that are builds; what they consist of is not counted again."""
    found = []
    for step in stage["steps"]:
        found += [step] if step["title"].startswith("building ") else _builds(step)
    return found


def show(into_docs):
    """Print the table of the last whole run; or put it into the document, and the order of stages beside this file."""
    if not RECORD.exists():
        raise FileNotFoundError("no times are recorded in this tree: `make test` does it")
    told = json.loads(RECORD.read_text())
    if not into_docs:
        print(table(told), end="")
        return
    # It tells of failures by `say`, which measures by this file.
    from . import marked

    marked.put(DOCUMENT, "times", table(told))
    seconds = {stage["title"]: round(stage["wall"]) for stage in told["stages"] if stage["wall"] >= WORTH}
    seconds = dict(sorted(seconds.items(), key=lambda item: -item[1]))
    TAKES.write_text(_TAKES_HEAD + "".join(f"{json.dumps(title)} = {took}\n" for title, took in seconds.items()))
