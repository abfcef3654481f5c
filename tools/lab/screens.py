# SPDX-License-Identifier: GPL-2.0
"""binderctl in terminals: a load that is known runs in a guest, and tests/terminal looks at the screens."""

import shlex

from . import guest, programs, run as runner, say
from .versions import ROOT
from report import screens as drawn

# What a terminal and trace events need.
_PREPARE = ("mkdir -p /sys/kernel/tracing; mount -t tracefs tracefs /sys/kernel/tracing; "
            "mount -t devpts devpts /dev/pts; [ -e /dev/ptmx ] || ln -s pts/ptmx /dev/ptmx; exec ")


def run(name, driver):
    """The sessions in a guest on a driver: how many passed and failed, and each screen as JSON by its name."""
    files = {"/lab/terminal": programs.build("tests/terminal"), "/bin/binderctl": programs.build("tools/binderctl")}
    argv = ["/lab/terminal", "run", "--binderctl", "/bin/binderctl", "--pictures", "/out"]
    job = guest.Job(argv=["/bin/sh", "-c", _PREPARE + shlex.join(argv)], driver=driver, files=files, cpus=1, timeout=300)
    result = runner.run(f"binderctl in terminals, {name} {driver}", name, job)
    passed, failed = runner.counts_of(result)
    say.lines(*(f"    {line}" for line in result.output.splitlines()[-60:] if failed))
    return passed, failed, result.files


def pictures(name, driver):
    """The screens of the sessions as pictures for the documentation; an exit status."""
    _, failed, screens = run(name, driver)
    # Those of the large terminal are tested alone: a page has no room for them.
    for screen, content in sorted(screens.items()):
        if screen.endswith("-80x24.json"):
            command = screen.removesuffix("-80x24.json")
            (ROOT / f"docs/figures/binderctl-{command}.svg").write_text(drawn.svg(content, f"binderctl {command}"))
    return 1 if failed else 0
