# SPDX-License-Identifier: GPL-2.0
"""`make test QUICK=1`: contract, clients and layouts on a kernel of Debian's, as it is: no kernel is compiled. Or, with `GUEST=arm64`,
`riscv64` or others of `kernel.FOREIGN`, on one of ours for that architecture.

What takes longest to get is asked for first: one lane has the kernel's headers prepared while the others compile the
programs.
"""

import functools
import time

from . import kernel, lanes, programs, say, stock, suite, times
from .tally import Tally
from .versions import BUILD

# Not rsbinder's, and libgbinder's, which use its service manager: that takes longer to compile than all of this takes to run.
CLIENTS = ("selftest", "stress")
# Where it runs.
GUESTS = (*stock.NAMES, *kernel.FOREIGN)
CYCLES = 25
SOAK_SECONDS = 10
TIMES = BUILD / "log/times-quick.json"
_NEXT = """next:  make test           all of it, in other kernels, too (compiles three of them)
       make bench          instructions of each operation, next to the C driver's
       make boot GUEST={}  a shell in this kernel, with our driver loaded"""


def test(name):
    """The stages on one kernel, side by side, a table, and what there is to run next; the exit status."""
    of_debian = kernel.GUESTS[name].stock
    say.note(f"contract, clients and layouts on {name}, a kernel of " + ("Debian's: none is compiled" if of_debian else "ours, which is kept"))
    tally = Tally()
    with times.counted():
        tallies, spans = lanes.run(stages(name), Tally, lanes.names())
    for part in tallies:
        tally.take(part)
    status = tally.finish()
    told = times.record(spans, time.monotonic() - say.START, TIMES)
    print("\n".join([*times.summary(told, TIMES), "", _NEXT.format(name)]))
    return status


def stages(name):
    """What is tested, in the order in which it is begun, and of the table."""
    def stage(title, run, **options):
        return lanes.Stage(f"{title} {name}", functools.partial(run, name=name, **options))

    def client(which):
        return stage(f"client {which}", _client, which=which)

    more = [*map(client, CLIENTS)]
    of_ours = not kernel.GUESTS[name].stock
    more += [stage("KUnit", suite.kunit_suites)] if of_ours else []
    narrow = of_ours and programs.has_width(name, 32)
    more += [stage(f"contract {driver} 32-bit", _contract, driver=driver, width=32) for driver in ("rust", "c") if narrow]
    more += [stage(f"the watch over the kernel's log, {what}", suite.watched, what=what) for what in kernel.GUESTS[name].watched]
    if f"{name}-builtin" in kernel.GUESTS:
        more.append(lanes.Stage(f"contract rust {name}-builtin", functools.partial(_builtin, name=f"{name}-builtin")))
    return [stage("layouts", suite.layouts), stage("contract rust", _contract, driver="rust"),
            stage("contract c", _contract, driver="c"), *more,
            stage("soak", suite.soak, seconds=SOAK_SECONDS), stage("the watch over the kernel's log,", suite.watched),
            stage("unload", suite.unloading), stage("load and unload", suite.cycles, count=CYCLES)]


def _contract(tally, name, driver, width=64):
    if driver == "c" and not kernel.build(name).has_c:
        say.note(f"{name} has no C driver")
        return
    title = f"contract {name} {driver}" + (" 32-bit" if width == 32 else "")
    suite.contract(tally, title, name, driver, only=suite.GROUPS_32 if width == 32 else (), width=width)


def _builtin(tally, name):
    suite.contract(tally, f"contract {name} rust", name, "rust", only=suite.GROUPS_BUILTIN)


def _client(tally, name, which):
    """On ours alone: most of them want binderfs, which Debian's C driver has not."""
    suite.real_clients(tally, (which,), name, ("rust",))
