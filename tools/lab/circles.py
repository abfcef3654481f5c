# SPDX-License-Identifier: GPL-2.0
"""Which files of a Rust crate a path leads to, and which nodes of a graph are in a circle."""

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_STRING = re.compile(r'b?"(?:[^"\\]|\\.)*"', re.S)
PATH = re.compile(r"(?<![\w:])\w+(?:::(?:\w+|\*))+")
_INSIDE = re.compile(r"^(?:pub(?:\(\w+\))? )?mod \w+ \{.*?^\}", re.M | re.S)


def circles(after):
    """All sets of more than one node from each of which arrows lead to each other one; `after` says where they lead."""
    def reached(start):
        seen, left = set(), [start]
        while left:
            for to in after.get(left.pop(), ()):
                if to not in seen:
                    seen.add(to)
                    left.append(to)
        return seen

    reach = {node: reached(node) for node in after}
    found = {frozenset(other for other in reach[node] if node in reach.get(other, ())) for node in after}
    return sorted((sorted(circle) for circle in found if len(circle) > 1), key=lambda circle: (-len(circle), circle))


def code(text):
    """A file's text without comments and strings; in a module that stands inside the file, `super` is the file itself."""
    bare = _STRING.sub('""', _COMMENT.sub("", text))
    return _INSIDE.sub(lambda inside: re.sub(r"\bsuper::", "self::", inside[0]), bare)


def end(here, children, path, modules):
    """The file that a path leads to, by the longest part of it that is a module; nothing if it leads out of the crate."""
    first, *rest = path
    if first == "crate":
        base = ()
    elif first == "super":
        base = here[:-1]
        while rest[:1] == ["super"]:
            base, rest = base[:-1], rest[1:]
    elif first == "self":
        base = here
    elif first in children:
        base, rest = here, path
    else:
        return None
    full = (*base, *rest)
    return next((modules[full[:length]] for length in range(len(full), -1, -1) if full[:length] in modules), None)
