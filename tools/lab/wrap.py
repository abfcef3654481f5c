# SPDX-License-Identifier: GPL-2.0
"""Comments of the driver in Rust, wrapped to the width that the kernel's checkpatch allows: rustfmt leaves comments as they are.

Only paragraphs change that have a line which is too long. Blocks of code, tables and headings stay.
"""

import re
import textwrap

from . import say
from .versions import ROOT

WIDTH = 100
_LINE = re.compile(r"^(\s*)(//[/!]?) ?(.*)$")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")
_KEPT = ("```", "#", "|")


def run():
    """Wrap what is too long; says which files that were."""
    for path in sorted([*ROOT.glob("drivers/android/**/*.rs"), *ROOT.glob("rust/kernel/**/*.rs")]):
        text = path.read_text()
        wrapped = wrap(text)
        if wrapped != text:
            path.write_text(wrapped)
            say.note(f"{path.relative_to(ROOT)} is wrapped")


def wrap(text):
    """The text with its comments wrapped."""
    lines, found, fenced = text.split("\n"), [], False
    while lines:
        line = _LINE.match(lines[0])
        fenced = bool(line) and fenced ^ line[3].startswith("```")
        paragraph = [lines.pop(0)]
        if not line or fenced or not _is_prose(line[3]):
            found += paragraph
        else:
            while lines and (more := _LINE.match(lines[0])) and more.groups()[:2] == line.groups()[:2] and _is_prose(more[3]) \
                    and not _ITEM.match(more[3]):
                paragraph.append(lines.pop(0))
            found += _filled(paragraph) if any(len(one) > WIDTH for one in paragraph) else paragraph
    return "\n".join(found)


def _is_prose(words):
    return bool(words.strip()) and not words.startswith(_KEPT)


def _filled(paragraph):
    """The lines of a paragraph at the right width; of an item of a list, those after the first are indented."""
    indent, mark, first = _LINE.match(paragraph[0]).groups()
    lead = re.match(r"\s*(?:(?:[-*]|\d+\.) )?", first)[0]
    words = " ".join(_LINE.match(line)[3].strip() for line in paragraph).removeprefix(lead.strip()).strip()
    filled = textwrap.wrap(words, WIDTH - len(indent + mark) - 1, initial_indent=lead, subsequent_indent=" " * len(lead),
                           break_on_hyphens=False, break_long_words=False)
    return [f"{indent}{mark} {line}" for line in filled]
