# SPDX-License-Identifier: GPL-2.0
"""A job in a guest with its progress shown and its log kept, and what stages have passed and failed."""

import re

from . import guest, kernel, say
from .versions import BUILD

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


class Tally:
    """Passed and failed, row by row."""

    def __init__(self):
        self.rows = []
        # How much a long run has tried, in words.
        self.tried = ""

    def add(self, name, passed, failed):
        self.rows.append((name, passed, failed))
        say.note(f"  {name}: {passed} passed, {failed} failed")

    def one(self, title, good):
        """A test that passed or did not."""
        self.add(title, int(bool(good)), int(not good))

    def nothing_wrong(self, title, wrong, good=True):
        """A test that passed if `good` and nothing was `wrong`, whose lines are printed."""
        say.lines(*(f"    {line}" for line in wrong))
        self.one(title, good and not wrong)

    def conclude(self):
        """Raise if a row failed, or if nothing was counted."""
        failed = [name for name, _, failed in self.rows if failed]
        if failed or not self.rows:
            raise AssertionError(f"failed: {', '.join(failed)}" if failed else "nothing was tested")

    def finish(self):
        """Print the sum; the exit status."""
        passed, failed = (sum(row[number] for row in self.rows) for number in (1, 2))
        print(f"\n{passed} passed, {failed} failed")
        return 1 if failed or not passed else 0


def run(title, name, job):
    """Boot guest `name` and run one job."""
    built = kernel.build(name)
    with say.Step(title) as step:
        result = guest.run(built, job, step.hear)
    log = BUILD / "log" / (re.sub(r"\W+", "-", title) + ".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(result.output + "\n--- kernel\n" + "\n".join(result.kernel_log) + "\n")
    say.lines(*(f"    {problem}" for problem in result.problems[:10]))
    if not result.good:
        say.lines(f"    see {log}")
    return result


def counts_of(result):
    """Passed and failed, from the last line of a program; a run that ended badly has a failure."""
    found = COUNTS.search(result.output)
    passed, failed = map(int, found.groups()) if found else (0, 1)
    return passed, failed or int(not result.good)


def last_words(output):
    """The end of a load's output, after the first failure of a process: the other failures follow from it."""
    lines = output.strip().splitlines()
    first = [line for line in lines if " fails: " in line or line.startswith("failure: ")][:2]
    return [f"    {line}" for line in [*(line for line in first if line not in lines[-5:]), *lines[-5:]]]
