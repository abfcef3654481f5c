# SPDX-License-Identifier: GPL-2.0
"""Stages of `make test` side by side: each lane runs its own stages one after another, in a thread of its own.

What is built for a guest is built under `build/` in a folder of that guest, so all stages of a guest are in one lane.
What both lanes need from the cache they get under its locks.
"""

import dataclasses
import threading
import traceback
import typing

from . import say

_interrupted = threading.Event()


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of `make test`: `run(tally)` does it. Failing to get that far is one failure under its title."""

    lane: str
    title: str
    run: typing.Callable
    # Whether that failure counts.
    counts: bool = True


def run(stages, make_tally):
    """Run all stages and give their tallies in the order of the stages, whichever ended first."""
    tallies = [make_tally() for _ in stages]
    work = [*zip(stages, tallies)]
    # Not `join`: Python 3.11 takes a thread for ended if an interrupt came while it was waited for.
    ended = {name: threading.Event() for name in sorted({stage.lane for stage in stages})}
    _interrupted.clear()
    try:
        for name, event in ended.items():
            own = [(stage, tally) for stage, tally in work if stage.lane == name]
            threading.Thread(target=_lane, args=(name, own, event), daemon=True).start()
        for event in ended.values():
            event.wait()
    except KeyboardInterrupt:
        _interrupted.set()
        for event in ended.values():
            event.wait(10)  # a guest ends within a second; what is being built ends with us
        raise
    return tallies


def go_on():
    """Called by what takes its time in a lane: an interrupt of the whole ends it, too."""
    if _interrupted.is_set():
        raise KeyboardInterrupt


def attempt(tally, title, step, counts=True):
    """Do a step of that title; if it cannot even be done, that is one failure, and not the end of what comes after it."""
    try:
        step(tally)
    except say.LabError as error:
        say.lines(f"error: {error}")
        tally.add(title, 0, 1, counts)
    except Exception:
        say.lines(traceback.format_exc())
        tally.add(title, 0, 1, counts)


def _lane(name, work, ended):
    try:
        with say.lane(name):
            for stage, tally in work:
                attempt(tally, stage.title, stage.run, stage.counts)
                go_on()
            say.note("nothing left to do")
    except KeyboardInterrupt:
        pass
    finally:
        ended.set()
