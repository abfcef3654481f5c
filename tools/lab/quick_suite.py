# SPDX-License-Identifier: GPL-2.0
"""`make test QUICK=1`: contract, clients and layouts on a kernel of Debian's, as it is: no kernel is compiled.

What takes longest to get is asked for first: one lane has the kernel's headers prepared while the others compile the
programs.
"""

import functools
import resource
import time

from . import clients, kernel, lanes, say, suite
from .tally import Tally

CYCLES = 25
SOAK_SECONDS = 10
_NEXT = """next:  make test           all of it, in other kernels, too (compiles four of them)
       make bench          instructions of each operation, next to the C driver's
       make boot GUEST={}  a shell in this kernel, with our driver loaded"""


def test(name):
    """The stages on a stock kernel, side by side, a table, and what there is to run next; the exit status."""
    say.note(f"contract, clients and layouts on {name}, a kernel of Debian's: none is compiled")
    tally = Tally()
    tallies, _ = lanes.run(stages(name), Tally, lanes.names())
    for part in tallies:
        tally.take(part)
    status = tally.finish()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    busy = sum(one.ru_utime + one.ru_stime for one in used)
    print(f"in {(time.monotonic() - say.START) / 60:.1f} minutes, {busy / 60:.1f} of CPU time; logs are in build/log\n\n"
          f"{_NEXT.format(name)}")
    return status


def stages(name):
    """What is tested, in the order in which it is begun, and of the table."""
    def stage(title, run, **options):
        return lanes.Stage(f"{title} {name}", functools.partial(run, name=name, **options))

    def client(which):
        return stage(f"client {which}", _client, which=which)

    return [stage("layouts", suite.layouts), stage("contract rust", _contract, driver="rust"), client("rsbinder"),
            stage("contract c", _contract, driver="c"), *(client(which) for which in clients.NAMES if which != "rsbinder"),
            stage("soak", suite.soak, seconds=SOAK_SECONDS), stage("the watch over the kernel's log,", suite.watched),
            stage("unload", suite.unloading), stage("load and unload", suite.cycles, count=CYCLES)]


def _contract(tally, name, driver):
    if driver == "c" and not kernel.build(name).has_c:
        say.note(f"{name} has no C driver")
        return
    suite.contract(tally, f"contract {name} {driver}", name, driver)


def _client(tally, name, which):
    """On ours alone: most of them want binderfs, which Debian's C driver has not."""
    suite.real_clients(tally, (which,), name, ("rust",))
