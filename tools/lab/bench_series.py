# SPDX-License-Identifier: GPL-2.0
"""A long measurement in steps that are kept: what was measured of the same is not measured again.

A result lies in a file, and next to it what it is of: everything that it depends on, by content. Where that is the same, the
result is; so a measurement that was interrupted goes on where it stopped, and one of which nothing changed is there at once.
"""

import dataclasses
import json
import pathlib
import time
import typing

from . import cache, say
from .versions import ROOT


@dataclasses.dataclass(frozen=True)
class Step:
    """One boot, as a rule: `make()` gives the content of file `path`. `inputs` is all that it depends on, `takes` about how
    many seconds it takes on a quiet machine, and `facts()` says under which conditions it was made."""

    title: str
    path: pathlib.Path
    inputs: typing.Any
    make: typing.Callable
    takes: int = 30
    facts: typing.Callable = dict

    @property
    def key(self):
        return cache.key(self.inputs)

    def kept(self):
        """What is known of its result, if there is one of the same inputs."""
        about = _about(self.path)
        known = json.loads(about.read_text()) if about.exists() and self.path.exists() else {}
        return known if known.get("key") == self.key else None


def _about(path):
    return path.with_name(f".{path.name}.about")


def known(path):
    """Under which conditions a result was made; nothing where that was not written down."""
    about = _about(path)
    return json.loads(about.read_text()) if about.exists() else {}


def run(steps, again=False, clock=time.monotonic):
    """Go through the steps that have no result yet (`again`: through all), and say how far it is; how many were made. Two of a
    tree at the same time would measure each other, and the same: the second waits, and finds what the first has left."""
    with cache.lock(f"measurements in {ROOT}"):
        return _run(steps, again, clock)


def _run(steps, again, clock):
    todo = [step for step in steps if again or not step.kept()]
    if todo:
        kept = len(steps) - len(todo)
        say.note(f"{len(todo)} steps, about {minutes(sum(step.takes for step in todo))}"
                 + (f"; {kept} more are there already" if kept else ""))
        say.note("interrupt it whenever you like: a second start goes on with what is not there yet")
    pace = Pace(clock)
    for number, step in enumerate(todo, 1):
        left = pace.rest(todo[number - 1:])
        say.note(f"step {number} of {len(todo)}: {step.title} ({minutes(pace.elapsed)} since the start, "
                 f"about {minutes(left)} left)")
        began = clock()
        keep(step)
        pace.took(step, clock() - began)
    return len(todo)


def keep(step):
    """Make a step's result, and write down what it is of."""
    began = time.time()
    content = step.make()
    put(step.path, content, key=step.key, began=time.strftime("%Y-%m-%d %H:%M", time.gmtime(began)),
        took=round(time.time() - began, 1), **step.facts())


def put(path, content, **facts):
    """Lay down a result, and what is known of it: of what it is (`key`), and under which conditions it was made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # What says that a result is there goes first and comes last.
    _about(path).unlink(missing_ok=True)
    _write(path, content)
    _write(_about(path), json.dumps(facts).encode())


def _write(path, content):
    """Whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.rename(path)


class Pace:
    """How long the rest will take, by how long what is done took next to what was thought."""

    def __init__(self, clock=time.monotonic):
        self._clock, self._start = clock, clock()
        self._thought = self._took = 0.0

    @property
    def elapsed(self):
        return self._clock() - self._start

    def took(self, step, seconds):
        self._thought += step.takes
        self._took += seconds

    def rest(self, steps):
        # The first step alone says little: one that was thought of counts for it.
        slower = (self._took + 60) / (self._thought + 60)
        return slower * sum(step.takes for step in steps)


def minutes(seconds):
    """A time for people."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
