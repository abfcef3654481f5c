# SPDX-License-Identifier: GPL-2.0
"""Stages of `make test` side by side: each lane, a thread of its own, takes the next stage when it is done with one.

What two stages need, whether in the cache or under `build/`, they get under locks.
"""

import dataclasses
import functools
import os
import threading
import traceback
import typing

from . import say, times

_interrupted = threading.Event()


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of `make test`: `run(tally)` does it. Failing to get that far is one failure under its title."""

    title: str
    run: typing.Callable
    # About how long it takes, in seconds: what takes longest is not what all others wait for at the end.
    takes: int = 0
    # What others need, which takes its time where it is not cached; and what this one needs of that.
    makes: str = ""
    needs: str = ""
    # How many CPUs it keeps busy.
    cpus: int = 1


def names():
    """One lane more than there are CPUs, for tests wait a good part of their time."""
    return [f"lane {number}" for number in range(1, (os.cpu_count() or 2) + 2)]


def run(stages, make_tally, among):
    """Run all stages in the lanes `among`, the longest first of those that need nothing that is still being made, and give their
    tallies and times in the order of the stages, whichever ended first."""
    tallies = [make_tally() for _ in stages]
    spans = [times.Span(stage.title) for stage in stages]
    work = _Work(zip(stages, tallies, spans), len(among))
    together([functools.partial(_lane, name, work) for name in among])
    return tallies, spans


class _Work:
    """Stages, each with its tally and its time, and which of them no lane has begun. What keeps several CPUs busy takes the place of
    as many stages, and is alone in that: beside another such one, CPUs of guests would wait for each other."""

    def __init__(self, stages, lanes):
        self._left = sorted(stages, key=lambda one: -one[0].takes)
        self._unmade = {one[0].makes for one in self._left} - {""}
        self._lanes = lanes
        self._running = []
        self._changed = threading.Condition()

    def next(self):
        """The longest that nobody has begun and that can go on at once, or else the longest; nothing if there is nothing left."""
        with self._changed:
            while self._left:
                number = self._choice()
                if number is not None:
                    one = self._left.pop(number)
                    self._running.append(one[0])
                    return one
                self._changed.wait(1.0)
                go_on()
            return None

    def _choice(self):
        """Which one is next; none, if that has to wait for one that is running."""
        ready = [number for number, one in enumerate(self._left) if one[0].needs not in self._unmade] or [0]
        if not any(stage.cpus > 1 for stage in self._running):
            # Whatever is next is waited for, for else it would never have its turn.
            return ready[0] if self._fits(ready[0]) else None
        return next((number for number in ready if self._left[number][0].cpus == 1 and self._fits(number)), None)

    def _fits(self, number):
        wanted = min(self._left[number][0].cpus, self._lanes)
        return wanted + sum(stage.cpus for stage in self._running) <= self._lanes

    def ended(self, stage):
        """What a stage makes is there, or cannot be made; and its place is free."""
        with self._changed:
            self._unmade.discard(stage.makes)
            self._running.remove(stage)
            self._changed.notify_all()


def together(jobs):
    """Do all `jobs` in threads of their own, and wait for them; an interrupt ends what looks after it."""
    # Not `join`: Python 3.11 takes a thread for ended if an interrupt came while it was waited for.
    ended = [threading.Event() for _ in jobs]
    _interrupted.clear()
    try:
        for job, event in zip(jobs, ended):
            threading.Thread(target=_to_its_end, args=(job, event), daemon=True).start()
        for event in ended:
            event.wait()
    except KeyboardInterrupt:
        _interrupted.set()
        for event in ended:
            event.wait(10)  # a guest ends within a second; what is being built ends with us
        raise


def _to_its_end(job, ended):
    try:
        job()
    except KeyboardInterrupt:
        pass
    finally:
        ended.set()


def go_on():
    """Called by what takes its time in a lane: an interrupt of the whole ends it, too."""
    if _interrupted.is_set():
        raise KeyboardInterrupt


def attempt(tally, title, step):
    """Do a step of that title; if it cannot even be done, that is one failure, and not the end of what comes after it."""
    try:
        step(tally)
    except say.LabError as error:
        say.lines(f"error: {error}")
        tally.add(title, 0, 1)
    except Exception:
        say.lines(traceback.format_exc())
        tally.add(title, 0, 1)


def _lane(name, work):
    with say.lane(name):
        while one := work.next():
            stage, tally, span = one
            with times.measure(span):
                attempt(tally, stage.title, stage.run)
            work.ended(stage)
            go_on()
        say.note("nothing left to do")
