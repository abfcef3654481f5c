# SPDX-License-Identifier: GPL-2.0
"""binderctl in terminals: a load that is known runs in a guest, and tests/terminal looks at the screens."""

import re
import shlex

from . import guest, kernel, programs, say
from .versions import BUILD

# What a terminal and trace events need.
_PREPARE = ("mkdir -p /sys/kernel/tracing; mount -t tracefs tracefs /sys/kernel/tracing; "
            "mount -t devpts devpts /dev/pts; [ -e /dev/ptmx ] || ln -s pts/ptmx /dev/ptmx; exec ")
_COUNTS = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def run(name, driver):
    """The sessions in a guest on a driver: how many passed and failed."""
    files = {"/lab/terminal": programs.build("tests/terminal"), "/bin/binderctl": programs.build("tools/binderctl")}
    argv = ["/lab/terminal", "run", "--binderctl", "/bin/binderctl"]
    job = guest.Job(argv=["/bin/sh", "-c", _PREPARE + shlex.join(argv)], driver=driver, files=files, cpus=1, timeout=300)
    with say.Step(f"binderctl in terminals, {name} {driver}"):
        result = guest.run(kernel.build(name), job)
    log = BUILD / "log" / f"terminal-{name}-{driver}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(result.output)
    found = _COUNTS.search(result.output)
    passed, failed = map(int, found.groups()) if found else (0, 1)
    if failed or not result.good:
        say.lines(*(f"    {line}" for line in [*result.problems, *result.output.splitlines()[-60:]]))
    return passed, failed + bool(result.problems)

