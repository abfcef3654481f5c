# SPDX-License-Identifier: GPL-2.0
"""Which folder of the driver may use which: what docs/architecture.md says, and what the sources do.

A unit is a file with the folder of its name, or a folder whose `mod.rs` is more than a list of modules. An arrow leads
from a unit to another one that it names in a `use` declaration or a path. What one file adds to a type of another
(`impl Process` outside of `process.rs`) no arrow shows, so that is allowed within a folder only.
"""

import re

from . import say
from .versions import ROOT

TABLE = "docs/architecture.md"
DRIVER, KERNEL = "drivers/android", "rust/kernel"
# The crate's root, and what the driver calls rust/kernel/.
CRATE, BELOW = "rust_binder.rs", "kernel_ext"
MOST_IN_CIRCLE, MOST_UPWARD = 10, 3

_TYPE = re.compile(r"\b(?:struct|enum|union|trait|type)\s+(\w+)")
_IMPL = re.compile(r"^impl(?:<[^{;]*?>)?\s+(\w+)(?:<[^{;]*?>)?\s*(?:where[^{]*)?\{", re.M)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_STRING = re.compile(r'b?"(?:[^"\\]|\\.)*"', re.S)
MOD = re.compile(r"\bmod\s+(\w+)\s*;")
_TREE = re.compile(r"(?<![\w:])((?:\w+::)+)\{([^{}]*)\}")
PATH = re.compile(r"(?<![\w:])\w+(?:::(?:\w+|\*))+")
_INSIDE = re.compile(r"^(?:pub(?:\(\w+\))? )?mod \w+ \{.*?^\}", re.M | re.S)


def _rows(text, marker):
    """The cells of a table between two marks, without its head."""
    found = re.search(rf"<!-- {marker} -->\n(.*?)<!-- end -->", text, re.S)
    return [line.strip("|").split("|") for line in (found[1].strip().splitlines()[2:] if found else [])]


def _names(cell):
    """What stands in backticks."""
    return [name.rstrip("/") for name in re.findall(r"`([^`]+)`", cell)]


class Sources:
    """The driver's files, and the arrows between its units."""

    def __init__(self, root):
        self._texts = {str(path.relative_to(root / DRIVER)): code(path.read_text()) for path in sorted((root / DRIVER).rglob("*.rs"))}
        self.units = {self._unit(name) for name in self._texts}
        modules = {_module(name): self._unit(name) for name in self._texts} | {(BELOW,): KERNEL}
        below = {str(path.relative_to(root)): code(path.read_text()) for path in sorted((root / KERNEL).rglob("*.rs"))}
        # {(from, to)}, a file of rust/kernel/ named in full.
        self.arrows = set()
        for name, text in (self._texts | below).items():
            start, children = self._unit(name), set(MOD.findall(text))
            ends = {end(_module(name), children, path.split("::"), modules) for path in paths(text)}
            self.arrows |= {(start, end) for end in ends - {start, None} if folder(start) != KERNEL or end != KERNEL}

    def _unit(self, name):
        """The unit that a file belongs to, by the file that opens it."""
        parts = name.removesuffix(".rs").split("/")
        for depth in range(1, len(parts)):
            front = "/".join(parts[:depth])
            if f"{front}.rs" in self._texts:
                return f"{front}.rs"
            if re.sub(r"#!?\[[^\]]*\]|\b(?:pub(?:\(\w+\))? )?mod \w+;", "", self._texts.get(f"{front}/mod.rs", "")).strip():
                return f"{front}/mod.rs"
        return name

    def strangers(self):
        """Files that add functions to a type of another folder: (file, type, where that is at home)."""
        homes = {}
        for name, text in self._texts.items():
            for kind in _TYPE.findall(text):
                homes.setdefault(kind, []).append(name)
        return [(name, kind, homes[kind][0]) for name, text in self._texts.items() for kind in _IMPL.findall(text)
                if kind in homes and folder(self._unit(name)) not in {folder(self._unit(home)) for home in homes[kind]}]


def _module(name):
    """A file's place in the crate as a tuple of modules; the root's is empty."""
    path = name.removesuffix(".rs").removesuffix("/mod").replace(KERNEL, BELOW)
    return () if name == CRATE else tuple(path.split("/"))


def folder(unit):
    """Where a unit stands: a folder, `.` for the driver's own, or the unit itself if it has a row of its own."""
    if unit.startswith(KERNEL):
        return KERNEL
    if unit in (CRATE, "range_alloc.rs"):
        return unit
    return unit.split("/")[0] if "/" in unit else "."


def complaints(root=ROOT):
    """What the sources do that the document does not allow; prints how many arrows there are, and where they lead."""
    text = (root / TABLE).read_text()
    folders = {_names(name)[0]: set(_names(uses)) for name, _, uses in _rows(text, "layers")}
    allowed_circle = {_names(row[0])[0] for row in _rows(text, "circle")}
    allowed_up = {(_names(row[0])[0], _names(row[1])[0]) for row in _rows(text, "upward")}
    sources, order = Sources(root), list(folders)
    places = {folder(unit) for unit in sources.units} | {KERNEL}
    wrong = [f"{TABLE} has no row for {place}" for place in sorted(places - set(order))]
    wrong += [f"{TABLE} has a row for {name}, which there is not" for name in order if name not in places]
    wrong += [f"{TABLE}: {name} may use {other}, which is not below it"
              for name, uses in folders.items() for other in sorted(uses) if other not in order[order.index(name) + 1:]]

    arrows = [(start, to, folder(start), folder(to)) for start, to in sorted(sources.arrows) if {folder(start), folder(to)} <= set(order)]
    upward = {(start, to) for start, to, here, there in arrows if order.index(there) < order.index(here)}
    wrong += [f"{start} uses {to}: {TABLE} does not let {here} use {there}"
              for start, to, here, there in arrows if order.index(there) > order.index(here) and there not in folders[here]]
    wrong += [f"{TABLE}: {name} may use {other}, and does not" for name, uses in folders.items()
              for other in sorted(uses - {there for _, _, here, there in arrows if here == name})]
    wrong += [f"{start} uses {to}, which is above it" for start, to in sorted(upward - allowed_up)]
    wrong += [f"{TABLE} has an arrow up from {start} to {to}, which there is not" for start, to in sorted(allowed_up - upward)]
    wrong += [f"{len(upward)} arrows lead up, {MOST_UPWARD} may"] if len(upward) > MOST_UPWARD else []

    # An arrow that the table has as leading up is counted there.
    after = {unit: {to for start, to in sources.arrows - allowed_up if start == unit} for unit in sources.units}
    found = circles(after)
    for circle in found:
        if strangers := sorted(set(circle) - allowed_circle):
            wrong.append(f"a circle of {len(circle)} files, of which {TABLE} does not allow {', '.join(strangers)}: {', '.join(circle)}")
        if len(circle) > MOST_IN_CIRCLE:
            wrong.append(f"a circle of {len(circle)} files, {MOST_IN_CIRCLE} may be")
    wrong += [f"{TABLE} allows {name} in the circle, which is not in it" for name in sorted(allowed_circle.difference(*found))]
    wrong += [f"{name} has functions of {kind}, whose home is {home}" for name, kind, home in sources.strangers()]
    say.note(f"{DRIVER}: {len(sources.arrows)} arrows between {len(sources.units)} units, {len(upward)} lead up, circles: "
             + (", ".join(str(len(circle)) for circle in found) or "none"))
    return wrong


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
