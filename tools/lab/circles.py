# SPDX-License-Identifier: GPL-2.0
"""Which files of a Rust crate use each other in a circle, so that none of them can be read or changed alone.

An arrow leads from a file to each other one that it names in a `use` declaration or a path, tests included. `mod x;` is
no arrow: it says where a file stands and not that anything of it is used.
"""

import re

from .versions import ROOT

CRATES = ("tools/binder-bench/src", "tools/binderctl/src")

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_STRING = re.compile(r'b?"(?:[^"\\]|\\.)*"', re.S)
MOD = re.compile(r"\bmod\s+(\w+)\s*;")
_TREE = re.compile(r"(?<![\w:])((?:\w+::)+)\{([^{}]*)\}")
PATH = re.compile(r"(?<![\w:])\w+(?:::(?:\w+|\*))+")
_INSIDE = re.compile(r"^(?:pub(?:\(\w+\))? )?mod \w+ \{.*?^\}", re.M | re.S)


def complaints(root=ROOT):
    """The circles of each crate's files, each as a line."""
    return [f"{crate}: {len(circle)} files use each other in a circle: {', '.join(circle)}"
            for crate in CRATES for circle in circles(arrows(root / crate))]


def arrows(source):
    """Which files each file under `source` uses: {name: set of names}."""
    texts = {str(path.relative_to(source)): code(path.read_text()) for path in sorted(source.rglob("*.rs"))}
    modules = {_module(name): name for name in texts}
    found = {}
    for name, text in texts.items():
        children = set(MOD.findall(text))
        ends = (end(_module(name), children, path.split("::"), modules) for path in paths(text))
        found[name] = {end for end in ends if end} - {name}
    return found


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


def _module(name):
    """A file's place in the crate as a tuple of modules; the root's is empty."""
    parts = name.removesuffix(".rs").split("/")
    return tuple(parts[:-1] if parts[-1] in ("mod", "main", "lib") else parts)


def paths(text):
    """All paths of a file, those in braces written out."""
    while tree := _TREE.search(text):
        leaves = ", ".join(tree[1] + leaf.strip() for leaf in tree[2].split(",") if leaf.strip())
        text = f"{text[:tree.start()]} {leaves} {text[tree.end():]}"
    return set(PATH.findall(text))


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
