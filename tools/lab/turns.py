# SPDX-License-Identifier: GPL-2.0
"""Which tests of the contract guests run on two CPUs at once, and which on one CPU, or on CPUs that take turns.

With a thread of the host for each CPU, a third of what the emulator does is waiting, and on a busy host three quarters of what User Mode
Linux does: one CPU spins for a lock of the other, to which the host does not give time. So it is done where it shows something: in
tests whose processes or threads go on by themselves, and meet in the driver when they like. In all others a thread is told one step
after the other, and the next one follows when it is done.
"""

import dataclasses
import threading

from . import proc, say
from .versions import BUILD

# The beginnings of their names.
AT_ONCE = ("charging::", "containers::", "count_news::", "death_races::", "deaths::", "freeze::", "freeze_links::", "freezer_wakeups::",
           "gaps::", "leaving::", "lessons::", "limits::", "log_files::", "logs::read_in_pieces_while", "many::", "quota::",
           "realtime::", "reclaim::", "retention::", "signals::", "slow::on_and_off_under_load", "strangers::", "tasks::",
           "unload::", "userfault::", "wakeups::")

# What asks for two CPUs, and is content if they take turns.
OF_TWO_CPUS = ("logs::last_ones_of_two_cpus", "placement::")


@dataclasses.dataclass(frozen=True)
class Part:
    """Some of the tests: those whose names begin with one of `beginnings`, or all but those; and what the guest's job has for them."""

    title: str
    beginnings: tuple
    others: bool
    options: dict

    @property
    def cpus(self):
        """How many CPUs of the host it keeps busy."""
        return 1 if self.others else 2


PARTS = {
    "um": (Part("one CPU", AT_ONCE + OF_TWO_CPUS, True, {"cpus": 1}),
           Part("two CPUs", AT_ONCE + OF_TWO_CPUS, False, {})),
    "x86_64-debug": (Part("CPUs in turn", AT_ONCE, True, {"in_turn": True}),
                     Part("CPUs at once", AT_ONCE, False, {})),
}


def named(program, part):
    """A file with the names of the tests of the contract's program that are a part of them."""
    names = [line.split()[0] for line in proc.output(program, "list").splitlines()]
    for beginning in part.beginnings:
        if not any(name.startswith(beginning) for name in names):
            raise say.LabError(f"no test of the contract begins with {beginning}: mend tools/lab/turns.py")
    made = BUILD / f"tests-{part.title.replace(' ', '-')}"
    # Another lane may read it.
    written = made.with_suffix(f".{threading.get_ident()}")
    written.write_text("".join(f"{name}\n" for name in names if name.startswith(part.beginnings) != part.others))
    return written.rename(made)
