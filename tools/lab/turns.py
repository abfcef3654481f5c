# SPDX-License-Identifier: GPL-2.0
"""Which tests of the contract the debugging guest runs on two CPUs at once, and which on CPUs that take turns.

With a thread of the host for each CPU, a third of what the emulator does is waiting: one CPU spins for a lock of the other, to which
the host does not give time. So it is done where it shows something: in tests whose processes or threads go on by themselves, and meet
in the driver when they like. In all others a thread is told one step after the other, and the next one follows when it is done.
"""

from . import proc, say
from .versions import BUILD

# The beginnings of their names.
AT_ONCE = ("charging::", "containers::", "count_news::", "death_races::", "deaths::", "freeze::", "freeze_links::", "freezer_wakeups::",
           "gaps::", "leaving::", "lessons::", "limits::", "log_files::", "logs::read_in_pieces_while", "many::", "quota::",
           "realtime::", "reclaim::", "retention::", "signals::", "slow::on_and_off_under_load", "strangers::", "tasks::",
           "unload::", "userfault::", "wakeups::")


def named(program, in_turn):
    """A file with the names of the tests of the contract's program that are run on CPUs in turn, or of the others."""
    names = [line.split()[0] for line in proc.output(program, "list").splitlines()]
    for beginning in AT_ONCE:
        if not any(name.startswith(beginning) for name in names):
            raise say.LabError(f"no test of the contract begins with {beginning}: mend tools/lab/turns.py")
    made = BUILD / f"tests-{'in-turn' if in_turn else 'at-once'}"
    made.write_text("".join(f"{name}\n" for name in names if name.startswith(AT_ONCE) != in_turn))
    return made
