# SPDX-License-Identifier: GPL-2.0
"""A stage's run in a guest, and what all stages have passed and failed."""

import collections
import re

from . import guest, kernel, say
from .versions import BUILD

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


class Tally:
    """Passed and failed, for each suite and in all."""

    def __init__(self):
        self.rows = []
        # What was said of each row that failed.
        self.reasons = []
        # How often the kernel called what it calls of our driver, in the debugging guest.
        self.calls = collections.Counter()

    def add(self, name, passed, failed, counts=True):
        self.rows.append((name, passed, failed, counts))
        reasons = say.take_recent()
        if failed and counts:
            self.reasons.append((name, reasons))
        extra = "" if counts else " (for comparison, not counted)"
        say.note(f"  {name}: {passed} passed, {failed} failed{extra}")

    def one(self, title, good):
        """A test that passed or did not."""
        self.add(title, int(bool(good)), int(not good))

    def nothing_wrong(self, title, wrong, good=True):
        """A test that passed if `good` and nothing was `wrong`, whose lines are printed."""
        for line in wrong:
            say.lines(f"    {line}")
        self.one(title, good and not wrong)

    def take(self, other):
        """What another one has counted comes after what this one has."""
        self.rows += other.rows
        self.reasons += other.reasons
        self.calls.update(other.calls)

    def finish(self):
        """Print the table, what failed and the sum; the exit status."""
        width = max((len(row[0]) for row in self.rows), default=0)
        print()
        for name, passed, failed, counts in self.rows:
            extra = "" if counts else "   for comparison, not counted"
            print(f"  {name:<{width}} {passed:>5} passed {failed:>5} failed{extra}")
        for name, reasons in self.reasons:
            print(f"\n  {name} failed:")
            for line in reasons:
                print(f"    {line.strip()}")
        passed = sum(row[1] for row in self.rows if row[3])
        failed = sum(row[2] for row in self.rows if row[3])
        print(f"\n{passed} passed, {failed} failed")
        return 1 if failed or not passed else 0


def run(title, name, job):
    """Boot and run one job with its progress shown, its log kept and its problems printed."""
    built = kernel.build(name)
    with say.Step(title) as step:
        result = guest.run(built, job, step.hear)
    log = BUILD / "log" / (re.sub(r"\W+", "-", title) + ".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(result.output + "\n--- kernel\n" + "\n".join(result.kernel_log) + "\n")
    for problem in result.problems[:10]:
        say.lines(f"    {problem}")
    if not result.good:
        say.lines(f"    see {log}")
    return result


def last_words(output):
    """The end of a load's output, after what the first of its processes said that failed: the others fail of that."""
    lines = output.strip().splitlines()
    first = [line for line in lines if " fails: " in line or line.startswith("failure: ")][:2]
    return [f"    {line}" for line in [*(line for line in first if line not in lines[-5:]), *lines[-5:]]]
