# SPDX-License-Identifier: GPL-2.0
"""binderctl in terminals: a load that is known runs in a guest, and tests/terminal looks at the screens."""

import re
import shlex

from . import guest, kernel, programs, say
from .versions import BUILD, ROOT
from report import screens as drawn

# What a terminal and trace events need.
_PREPARE = ("mkdir -p /sys/kernel/tracing; mount -t tracefs tracefs /sys/kernel/tracing; "
            "mount -t devpts devpts /dev/pts; [ -e /dev/ptmx ] || ln -s pts/ptmx /dev/ptmx; exec ")
_SHOWN = "80x24"
_COUNTS = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def run(name, driver):
    """The sessions in a guest on a driver: how many passed and failed, and each screen as JSON by its name."""
    files = {"/lab/terminal": programs.build("tests/terminal"), "/bin/binderctl": programs.build("tools/binderctl")}
    argv = ["/lab/terminal", "run", "--binderctl", "/bin/binderctl", "--pictures", "/out"]
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
    return passed, failed + bool(result.problems), result.files


def pictures(name, driver):
    """The screens of the sessions as pictures for the documentation; an exit status."""
    _, failed, screens = run(name, driver)
    for screen, content in sorted(screens.items()):
        command, _, size = screen.removesuffix(".json").rpartition("-")
        # Those of the large terminal are tested alone: a page has no room for them.
        if size == _SHOWN:
            path = ROOT / "docs/figures" / f"binderctl-{command}.svg"
            path.write_text(drawn.svg(content, f"binderctl {command}"))
            say.note(f"  {path.relative_to(ROOT)}")
    return 1 if failed else 0
