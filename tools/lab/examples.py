# SPDX-License-Identifier: GPL-2.0
"""The worked examples of the documents: their commands are run as they stand there, and print what stands there.

Before a block of commands is the name of the scene in which they are run (`contract example of NAME`; `shell` is just a shell with a mount
namespace of its own). Behind it is a block with their output. Numbers are not compared, nor how wide they make a line.
"""

import re
import shlex

from . import guest, proc, programs
from .versions import BUILD, ROOT

DOCUMENTS = (ROOT / "docs/start/debian.md", ROOT / "docs/binderfs.md", ROOT / "docs/logs-and-traces.md", ROOT / "docs/binderctl.md")
# Commands that need no scene.
_SHELL = "shell"
# Commands for a whole Debian machine (deb_test.py).
MACHINE = "machine"
DRIVERS = ("c", "rust")

_BLOCK = re.compile(r"<!-- example: (\w+)(?: \((\w+) alone\))? -->\n```sh\n(.*?)```\n```text\n(.*?)```\n", re.S)
# The players: in the document a number, in a scene a variable of the environment.
_PLAYER = re.compile(r"^[A-Z]+=\d+\n", re.M)


def text():
    """All documents."""
    return "\n".join(path.read_text() for path in DOCUMENTS)


def blocks(text, driver):
    """The examples of a driver: for each scene the commands and what they print, block by block."""
    found = {}
    for name, alone, commands, printed in _BLOCK.findall(text):
        if alone in ("", driver):
            found.setdefault(name, []).append((_PLAYER.sub("", commands), printed))
    return found


def normal(text):
    """The output without numbers."""
    text = re.sub(r"\b[0-9a-f]{16}\b", "#", text)
    lines = [re.sub(r" +", " ", re.sub(r"\d+", "#", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def tools():
    """The files that the guest needs, by their places."""
    return {"/lab/contract": programs.build("tests/contract"), "/lab/binderctl": programs.build("tools/binderctl")}


def job(name, scene, driver, files):
    """The job that runs all blocks of one scene, in one shell, with the tools."""
    script = "set -e\n" + ("" if name == _SHELL else "cd /dev/binderfs/binder_logs\n")
    for number, (commands, _) in enumerate(scene):
        script += marked(number, commands)
    path = BUILD / "examples" / f"{driver}-{name}.sh"
    proc.write(path, script)
    within = "unshare -m" if name == _SHELL else f"/lab/contract example of {shlex.quote(name)} --"
    look = f"PATH=$PATH:/lab exec {within} /bin/sh /lab/example.sh"
    return guest.Job(argv=["/bin/sh", "-c", look], driver=driver, cpus=1,
                     files={**files, "/lab/example.sh": path})


def marked(number, commands):
    """The commands of a block between lines by which `printed` finds what they print."""
    return f"echo '--- begin {number}'\n{commands}echo '--- end {number}'\n"


def printed(number, output):
    """The output of a block, or None if it did not end."""
    _, _, rest = output.replace("\r\n", "\n").partition(f"--- begin {number}\n")
    said, is_whole, _ = rest.partition(f"--- end {number}\n")
    return said if is_whole else None


def judge(scene, output):
    """The problems, block by block; empty if there are none."""
    wrong = []
    for number, (commands, documented) in enumerate(scene):
        said = printed(number, output)
        if said is None:
            wrong.append(f"did not end: {commands.splitlines()[0]}")
        elif normal(said) != normal(documented):
            wrong.append(f"printed something else: {commands.splitlines()[0]}")
            wrong += [f"  documented  {line}" for line in documented.splitlines()]
            wrong += [f"  printed     {line}" for line in said.splitlines()]
    return wrong
