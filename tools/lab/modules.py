# SPDX-License-Identifier: GPL-2.0
"""Modules loaded and unloaded in guests: ours, and those of tests/ that look at a kernel from inside."""

import re

from . import guest, kernel, module, programs, say
from .run import counts_of, run
from .versions import ROOT

# The kernel's complaints about the faults that tests/watch/ causes. Kernels without CONFIG_DEBUG_BUGVERBOSE name the function, not the file.
_COMPLAINTS = {"pages": r"WARNING: .*(mm/page_alloc\.c|alloc\w*_pages)", "memory": r"BUG: KASAN: ", "call": r"CFI failure at ", "leak": r"unreferenced object ",
               "race": r"BUG: KCSAN: "}


def layouts(tally, name):
    """Check that Rust and C see the same structs of a guest's kernel: only then the module that compares them loads."""
    title, job = f"layouts {name}", _loading(name, "layouts", "layouts_test.ko")
    result = run(title, name, job)
    say.lines(*(f"    {line}" for line in result.kernel_log if "layouts_test" in line and not result.good))
    tally.one(title, result.good)


def watched(tally, name, what="pages"):
    """Check that a run fails in which the kernel complains about a fault that tests/watch/ causes."""
    title, job = f"the watch over the kernel's log, {name} {what}", _loading(name, "watch", "watch_test.ko", f"what={what}")
    with say.Step(title):
        result = guest.run(kernel.build(name), job)
    # The kernel ends the task that makes a call by another type.
    seen = (result.status == 0) == (what != "call") and any(re.search(_COMPLAINTS[what], line) for line in result.problems)
    if not seen:
        say.lines(f"    status {result.status}, {result.problems}")
    tally.one(title, seen)


def _loading(name, folder, made, *words):
    path = module.build(kernel.build(name), ROOT / "tests" / folder, folder, made)
    return guest.Job(argv=["insmod", f"/lab/{made}", *words], driver="none", files={f"/lab/{made}": path}, cpus=1 + ("what=race" in words), leaks="what=leak" in words)


def cycles(tally, name, count):
    """The driver loaded, mounted and unloaded so many times."""
    title = f"load and unload {name} {count} x"
    tally.one(title, run(title, name, guest.Job(argv=["/lab/cycle", str(count)], load=False, cpus=1, timeout=300)).good)


def alone(tally, title, name, *tests):
    """The contract's tests that need the driver for themselves, those of these names in group `unload`: it is unloaded at the moments at which its
    code might still be needed, and loaded without memory."""
    argv = ["/lab/contract", "run", "--driver", "rust", "--timeout", "300", "--module", f"/lab/{guest.MODULES['rust']}.ko",
            *(f"--filter=unload::{test}" for test in tests)]
    title = f"{title} {name}"
    result = run(title, name, guest.Job(argv=argv, files={"/lab/contract": programs.build_for(name, "tests/contract")}, load=False, leaks=True, timeout=600))
    say.lines(*(f"    {line}" for line in result.output.splitlines() if " FAILED " in line or " skipped " in line))
    tally.add(title, *counts_of(result))


def parameters(tally, driver):
    """Try a driver's parameters at its first load."""
    title = f"parameter devices um {driver}"
    result = run(title, "um", guest.Job(argv=["/lab/devices", guest.MODULES[driver]], driver=driver, load=False, cpus=1))
    if not result.good:
        say.lines(result.output)
    tally.one(title, result.good)
