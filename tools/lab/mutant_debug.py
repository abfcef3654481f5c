# SPDX-License-Identifier: GPL-2.0
"""Faults that live in User Mode Linux, in the guest that watches locks, lifetimes and memory.

There the driver has KUnit's suites, which run whenever it is loaded, and the contract suite can make allocations fail
and hold user space's pages back. Booting that guest takes long, loading a module does not: one guest loads the driver
with one fault after the other, until the kernel complains of one: it does so once.
"""

import dataclasses
import json
import re
import tempfile

from . import guest, kernel, kmsg, kunit, mutant_module, say
from .mutant_runs import STAGES, End, Stage

# As KUnit's suites run: numbers start near their ends.
STAGE = Stage("debugging", near_limits=True)
# How many tests a fault is tried on: of those that User Mode Linux runs too, and of those that only this guest runs.
_SOME, _OWN = 6, 6
_PATIENCE, _LIMIT, _SILENCE = 8, 60, 240
_KUNIT = "KUnit "
_KUNIT_FAILURE = re.compile(r"^<\d+>\s*not ok \d+ (?P<name>\S+)")


class _Complained(Exception):
    """The kernel has complained: what the guest does from here on matters no more."""


class Debugging:
    """The guest, with a module that has no more than the faults that it is asked about."""

    def __init__(self, runs, sites):
        self._runs = runs
        self._kernel = kernel.build(kunit.GUEST)
        self._mutants = mutant_module.build(self._kernel, "survivors", [site["key"] for site in sites],
                                            arguments=kunit.SWITCHES)

    def each(self, numbers):
        """Try faults one by one: each number with its end, as it is known."""
        self._runs.learn_in(STAGE, self._kernel, self._mutants, self._runs.skipped)
        tests = {number: self._tests(number) for number in numbers}
        left = list(numbers)
        while left:
            with say.Step(f"the debugging guest, {len(left)} faults") as step:
                ended = self._guest({number: tests[number] for number in left}, step.progress)
            if not ended:
                raise say.LabError("the debugging guest did not come to load a module with a fault")
            left = [number for number in left if number not in ended]
            for number, end in ended.items():
                if end.killed and not self._is_caused(end, tests[number]):
                    end = End(False)
                yield number, dataclasses.replace(end, by=f"{kunit.GUEST} {end.by}".strip() if end.killed else "")

    def _tests(self, number):
        """What a fault is tried on."""
        everywhere = self._runs.reaching(STAGES[0], number)[:_SOME]
        return everywhere + self._runs.reaching(STAGE, number)[:_OWN]

    def _is_caused(self, end, tests):
        """Whether what a fault was seen by is silent without it. Of KUnit's suites and of what the kernel complains of
        all runs of this guest tell that; what a test waits for in vain may be the machine's doing."""
        if end.by.startswith(_KUNIT) or not end.by and "hung" not in end.why:
            return True
        return not self._guest({0: [end.by] if end.by else tests})[0].killed

    def _guest(self, tests, progress=lambda text: None):
        """One guest: how those faults ended that it came to. None after the first of which the kernel complains."""
        ends, words = {}, _Words()

        def hear(text):
            for line in words.lines(text):
                kind, *rest = line.split()
                if kind == "fault":
                    words.number = int(rest[0])
                elif kind == "end":
                    ends.setdefault(words.number, End(False))
                    words.number = None
                    progress(f"{len(ends)} tried")
                end = _judged(line)
                if end:
                    ends.setdefault(words.number, end)
                if end and not end.by:
                    raise _Complained

        argv = ["/lab/faults", *self._runs.argv(STAGE), "--json", "--stop-at-first-failure",
                "--patience", str(_PATIENCE), "--timeout", str(_LIMIT)]
        with tempfile.NamedTemporaryFile("w", suffix=".faults") as faults:
            faults.writelines(f"{number} {' '.join(names)}\n" for number, names in tests.items())
            faults.flush()
            files = {"/lab/contract": self._runs.program, "/lab/faults-list": faults.name}
            job = guest.Job(argv=argv, module=self._mutants.module, load=False, files=files, silence=_SILENCE,
                            timeout=120 + 60 * len(tests))
            try:
                result = guest.run(self._kernel, job, hear)
            except _Complained:
                return ends
        if not result.good and words.number is not None:
            ends.setdefault(words.number, End(True, "", (result.problems or ["a bad exit status"])[0]))
        return ends


class _Words:
    """What a guest says, in lines, and which fault is there."""

    def __init__(self):
        self.number, self._rest = None, ""

    def lines(self, text):
        *lines, self._rest = (self._rest + text).split("\n")
        return [line for line in lines if line.strip()]


def _judged(line):
    """What a line of a guest's says of the fault that is there, if it does."""
    if line.startswith('{"test"'):
        record = json.loads(line)
        return End(True, record["test"], record["why"]) if record["result"] == "failed" else None
    failure = _KUNIT_FAILURE.match(line)
    if failure:
        return End(True, _KUNIT + failure["name"], line.split(">", 1)[1].strip())
    complaints = kmsg.complaints([line]) if line.startswith("<") else []
    return End(True, "", complaints[0]) if complaints else None
