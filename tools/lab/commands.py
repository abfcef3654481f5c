# SPDX-License-Identifier: GPL-2.0
"""The commands that README and the documents show, and what runs each of them.

A block of commands is fenced as `sh`, or as `console` with what they print, and the line before it is a comment that says which test runs it as it stands there:

    example: SCENE         make test, in a guest (examples.py)
    bpftrace while: LOAD   make test, in a guest (bpftrace.py)
    make test: STAGE       that stage, in its own words
    make: TARGET           that target, in its own words
    clean machine          make clean-machine, line by line (clean_machine.py)
    not run: REASON        nothing
"""

import dataclasses
import re

from .versions import ROOT

_FENCE = re.compile(r"^(```+)(\w*)$")
_MARK = re.compile(r"^<!-- (example|bpftrace while|make test|make|clean machine|not run)(?:: (.+?))? -->$")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")
# Commands alone, and with what they print.
_COMMANDS = ("sh", "console")
# What is no command: what programs print or read, and sketches.
_NO_COMMANDS = ("text", "ini", "toml", "json", "rust", "c")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, its text, and what the comment before it says."""

    place: str
    language: str
    text: str
    mark: str
    words: str


def documents():
    """README and all documents."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def blocks(path):
    """All fenced blocks of a document."""
    found, begins, before, text = [], None, "", []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if begins is None and fence:
            begins, text = (number, fence, _MARK.match(before)), []
        elif begins is not None and fence and fence[1] == begins[1][1] and not fence[2]:
            at, opened, mark = begins
            found.append(Block(f"{path.relative_to(ROOT)}:{at}", opened[2], "".join(text), mark[1] if mark else "",
                               mark[2] or "" if mark else ""))
            begins = None
        elif begins is not None:
            text.append(line + "\n")
        before = line
    return found


def indented(path):
    """Where a document has a block that is only indented, outside of lists and fences."""
    found, within, last, gap = [], False, "", True
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if _FENCE.match(line):
            within = not within
        elif not within and gap and line.startswith("    ") and not _ITEM.match(last) and not last.startswith(" "):
            found.append(f"{path.relative_to(ROOT)}:{number}")
        gap = not line.strip()
        last = line if line.strip() else last
    return found


def complaints():
    """Blocks of which nobody knows whether they work."""
    from . import suite  # it runs the checks

    stages = {stage.title for stage in suite.stages()}
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M)
    wrong = []
    for path in documents():
        wrong += [f"{place}: a block without a fence" for place in indented(path)]
        for block in blocks(path):
            if block.language in _NO_COMMANDS:
                continue
            if block.language not in _COMMANDS:
                wrong.append(f"{block.place}: a fence says what is in it: {', '.join(_COMMANDS + _NO_COMMANDS)}")
            elif not block.mark:
                wrong.append(f"{block.place}: nothing says what runs these commands (tools/lab/commands.py)")
            elif block.mark == "make test" and block.words not in stages:
                wrong.append(f"{block.place}: make test has no stage {block.words}")
            elif block.mark == "make" and block.words not in targets:
                wrong.append(f"{block.place}: there is no make {block.words}")
            elif block.mark == "not run" and not block.words:
                wrong.append(f"{block.place}: the reason is missing why nothing runs these commands")
    return wrong


def of_clean_machine():
    """(where it stands, command) for each line that a clean machine runs, in the order of the documents, README first."""
    found = []
    for path in sorted(documents(), key=lambda path: (path.name != "README.md", path)):
        for block in blocks(path):
            if block.mark == "clean machine":
                found += [(block.place, command) for command in lines(block.text)]
    return found


def lines(text):
    """The commands of a block, one a line, without remarks."""
    return [command for line in text.splitlines() if (command := re.sub(r"(^|\s+)# .*", "", line).strip())]
