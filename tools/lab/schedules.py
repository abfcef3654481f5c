# SPDX-License-Identifier: GPL-2.0
"""The driver under random schedules: at its locks and atomic operations a task lets others run, as a seed says."""

import functools
import re
import shutil

from . import cache, module, say
from .versions import ROOT

_SOURCES = ROOT / "tests/schedules"
_PLACES = re.compile(r"^(?:BEFORE|AFTER)\((\w+)\)$", re.M)
# In front of a command line in the guest. Its last lines are the counts.
COUNTED = ("/bin/sh", "-c", '"$@"; status=$?; cd /sys/module/binder_rust/parameters; grep . passed yielded orders; exit $status', "sh")
_COUNTS = re.compile(r"^(passed|yielded|orders):(\d+)$", re.M)


def linked(kernel):
    """The word for kbuild by which the driver's calls of the functions in tests/schedules go through those there."""
    if kernel.guest.arch != "um":
        # On x86-64, objtool rejects a module with an object that it has already checked.
        raise say.LabError("random schedules need a guest of User Mode Linux, such as GUEST=um")
    made = module.build(kernel, _SOURCES, "schedules", "schedules.ko", ("KBUILD_MODPOST_WARN=1",)).with_suffix(".o")
    # A new name for new contents, since kbuild compares command lines.
    named = made.with_name(f"{cache.content(made)[:12]}.o")
    shutil.copy2(made, named)
    flags = [*(f"--wrap={name}" for name in _PLACES.findall((_SOURCES / "schedules.c").read_text())), str(named)]
    return f"LDFLAGS_binder_rust.o={' '.join(flags)}"


@functools.cache
def build(kernel):
    """Our driver with random schedules."""
    # The objects are those of the driver as it is.
    plain = module.build(kernel).parent
    folder = plain.with_name("module-schedules")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(plain, folder, symlinks=True)
    return module.build(kernel, name=folder.name, arguments=(linked(kernel),))


def tried(outputs):
    """What the schedules of some runs were, in words; fails without any."""
    runs = [{name: int(count) for name, count in _COUNTS.findall(output)} for output in outputs]
    switches, places = (sum(run.get(name, 0) for run in runs) for name in ("yielded", "passed"))
    assert switches, "no task has let others run"
    return f"{len(runs)} seeds, {switches} switches at {places} places, up to {max(run.get('orders', 0) for run in runs)} orders"
