# SPDX-License-Identifier: GPL-2.0
"""The worked examples of the documents: their commands are run as they stand there, and print what stands there.

Before a block of commands is the name of the scene in which they are run (`contract example of NAME`; `shell` is just a
shell with a mount namespace of its own), and behind it a block with what they print. Numbers are not compared, nor how wide
they make a line.
"""

import re
import shlex

from . import guest, programs
from .versions import BUILD, ROOT

DOCUMENTS = (ROOT / "README.md", ROOT / "docs/binderfs.md", ROOT / "docs/observability.md")
# Commands that need no scene.
_SHELL = "shell"
DRIVERS = ("c", "rust")

_BLOCK = re.compile(r"<!-- example: (\w+)(?: \((\w+) alone\))? -->\n```sh\n(.*?)```\n```text\n(.*?)```\n", re.S)
# Who takes part: in the document a number, in a scene the environment has it.
_PLAYER = re.compile(r"^[A-Z]+=\d+\n", re.M)
# Before and after what a block prints.
_BEGIN, _END = "--- begin {}", "--- end {}"


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
    """What is printed, without numbers."""
    text = re.sub(r"\b[0-9a-f]{16}\b", "#", text)
    lines = [re.sub(r" +", " ", re.sub(r"\d+", "#", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def tools():
    """What the guest needs, by where it is laid."""
    return {"/lab/contract": programs.build("tests/contract"), "/lab/binderctl": programs.build("tools/binderctl")}


def job(name, scene, driver, files):
    """What runs all blocks of one scene, in one shell, with the tools."""
    script = "set -e\n" + ("" if name == _SHELL else "cd /dev/binderfs/binder_logs\n")
    for number, (commands, _) in enumerate(scene):
        script += f"echo '{_BEGIN.format(number)}'\n{commands}echo '{_END.format(number)}'\n"
    path = BUILD / "examples" / f"{driver}-{name}.sh"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    within = "unshare -m" if name == _SHELL else f"/lab/contract example of {shlex.quote(name)} --"
    look = f"PATH=$PATH:/lab exec {within} /bin/sh /lab/example.sh"
    return guest.Job(argv=["/bin/sh", "-c", look], driver=driver, cpus=1,
                     files={**files, "/lab/example.sh": path})


def judge(scene, output):
    """What is wrong, block by block; nothing where nothing is."""
    output = output.replace("\r\n", "\n")
    wrong = []
    for number, (commands, printed) in enumerate(scene):
        begin, end = _BEGIN.format(number) + "\n", _END.format(number) + "\n"
        _, _, rest = output.partition(begin)
        said, is_whole, _ = rest.partition(end)
        if not is_whole:
            wrong.append(f"did not end: {commands.splitlines()[0]}")
        elif normal(said) != normal(printed):
            wrong.append(f"printed something else: {commands.splitlines()[0]}")
            wrong += [f"  documented  {line}" for line in printed.splitlines()]
            wrong += [f"  printed     {line}" for line in said.splitlines()]
    return wrong
