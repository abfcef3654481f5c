# SPDX-License-Identifier: GPL-2.0
"""Which folder of the driver may use which: what docs/architecture.md says, and what the sources do.

A unit is a file with the folder of its name, or a folder whose `mod.rs` is more than a list of modules. An arrow leads
from a unit to another one that it names in a `use` declaration or a path. What one file adds to a type of another
(`impl Process` outside of `process.rs`) no arrow shows, so that is allowed within a folder only.
"""

import dataclasses
import re

from . import circles, say
from .versions import ROOT

TABLE = "docs/architecture.md"
DRIVER, KERNEL = "drivers/android", "rust/kernel"
# The crate's root, and what the driver calls rust/kernel/.
CRATE, BELOW = "rust_binder.rs", "kernel_ext"
MOST_IN_CIRCLE, MOST_UPWARD = 10, 3

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_USE = re.compile(r"\buse\s+((?:crate|super|self)\s*::[^;]*);")
_PATH = re.compile(r"\b((?:crate|super)(?:::\w+)+)")
_TYPE = re.compile(r"\b(?:struct|enum|union|trait|type)\s+(\w+)")
_IMPL = re.compile(r"^impl(?:<[^{;]*?>)?\s+(\w+)(?:<[^{;]*?>)?\s*(?:where[^{]*)?\{", re.M)


@dataclasses.dataclass(frozen=True)
class Rules:
    """The tables: folders from top to bottom with those that each may use, the circle, and arrows that lead up."""

    folders: dict
    circle: set
    upward: set


def rules(text):
    """What the document's three tables say."""
    folders = {}
    for name, _, uses in _rows(text, "layers"):
        folders[_name(name)] = {_name(word) for word in re.findall(r"`[^`]+`", uses)}
    circle = {_name(row[0]) for row in _rows(text, "circle")}
    upward = {(_name(row[0]), _name(row[1])) for row in _rows(text, "upward")}
    return Rules(folders, circle, upward)


def _rows(text, marker):
    """The cells of a table between two marks, without its head."""
    found = re.search(rf"<!-- {marker} -->\n(.*?)<!-- end -->", text, re.S)
    lines = found[1].strip().splitlines()[2:] if found else []
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _name(cell):
    return re.search(r"`([^`]+)`", cell)[1].rstrip("/")


class Sources:
    """The driver's files, and the arrows between its units."""

    def __init__(self, root):
        self._root = root
        driver = root / DRIVER
        self.entries = len(list(driver.iterdir()))
        self._texts = {str(path.relative_to(driver)): _COMMENT.sub("", path.read_text())
                       for path in sorted(driver.rglob("*.rs"))}
        self._modules = {_module(name): name for name in self._texts}
        tops = {BELOW, *(module.split("::")[0] for module in self._modules if module)}
        self._texts[CRATE] = _from_crate(self._texts[CRATE], "|".join(sorted(tops)))
        self.units = {self.unit(name) for name in self._texts}
        # {(from, to)}, a file of rust/kernel/ named in full.
        self.arrows = set()
        for name, text in self._texts.items():
            for path in _paths(text):
                to = self._target(name, path)
                if to and self.unit(name) != to:
                    self.arrows.add((self.unit(name), to))
        for path in sorted((root / KERNEL).rglob("*.rs")):
            for named in _paths(_COMMENT.sub("", path.read_text())):
                if named[0] == "crate" and named[1:2] != [BELOW]:
                    self.arrows.add((str(path.relative_to(root)), self._target(CRATE, named)))

    def unit(self, name):
        """The unit that a file belongs to, by the file that opens it."""
        parts = name.removesuffix(".rs").split("/")
        for depth in range(1, len(parts)):
            front = "/".join(parts[:depth])
            if f"{front}.rs" in self._texts:
                return f"{front}.rs"
            if self._has_code(f"{front}/mod.rs"):
                return f"{front}/mod.rs"
        return name

    def _has_code(self, name):
        code = re.sub(r"#!?\[[^\]]*\]|\b(?:pub(?:\(\w+\))? )?mod \w+;", "", self._texts.get(name, ""))
        return bool(code.strip())

    def _target(self, name, path):
        """The unit that a path leads to from a file, nothing if it stays in the file."""
        front, *rest = path
        if front == "super":
            base = _module(name).split("::")[:-1]
            while rest[:1] == ["super"]:
                base, rest = base[:-1], rest[1:]
            rest = [part for part in base if part] + rest
        if rest[:1] == [BELOW]:
            return KERNEL
        for depth in range(len(rest), 0, -1):
            if (found := self._modules.get("::".join(rest[:depth]))) is not None:
                return self.unit(found)
        return CRATE if front == "crate" else None

    def strangers(self):
        """Files that add functions to a type of another folder: (file, type, where that is at home)."""
        homes = {}
        for name, text in self._texts.items():
            for kind in _TYPE.findall(text):
                homes.setdefault(kind, set()).add(name)
        for name, text in self._texts.items():
            for kind in _IMPL.findall(text):
                at = homes.get(kind)
                if at and folder(self.unit(name)) not in {folder(self.unit(home)) for home in at}:
                    yield name, kind, sorted(at)[0]


def _from_crate(text, tops):
    """The root's text, in which paths may begin with a module as they are; with all of these beginning in the crate."""
    parts = re.split(r"(\buse\s[^;]*;)", text)
    parts[::2] = [re.sub(rf"(?<![\w:])(?=(?:{tops})::)", "crate::", part) for part in parts[::2]]
    # Of a declaration, nothing but the front begins a path: in `entry::{ffi::Devices}`, `ffi` is no module of the root.
    parts[1::2] = [re.sub(rf"^use\s+(?=(?:{tops})::)", "use crate::", part) for part in parts[1::2]]
    return "".join(parts)


def _module(name):
    """A file's path in the crate; the root's is empty."""
    path = name.removesuffix(".rs").removesuffix("/mod")
    return "" if name == CRATE else path.replace("/", "::")


def _paths(text):
    """All paths in a file that begin in the crate or above the file, each as a list of names."""
    found = []
    for tree in _USE.findall(text):
        found += [path.split("::") for path in leaves(re.sub(r"\s+", "", tree.replace(" as ", "@")))]
    found += [path.split("::") for path in _PATH.findall(_USE.sub("", text))]
    return [[part.split("@")[0] for part in path] for path in found if path[0] != "self"]


def leaves(tree):
    """The paths of a `use` declaration without spaces, each written out."""
    found = re.fullmatch(r"((?:\w+::)*)\{(.*)\}", tree, re.S)
    if not found:
        return [tree]
    parts, depth = [""], 0
    for letter in found[2]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [found[1] + leaf for part in parts if part for leaf in leaves(part)]


def folder(unit):
    """Where a unit stands: a folder, `.` for the driver's own, or the unit itself if it has a row of its own."""
    if unit.startswith(KERNEL):
        return KERNEL
    if unit in (CRATE, "range_alloc.rs"):
        return unit
    return unit.split("/")[0] if "/" in unit else "."


def complaints(root=ROOT):
    """What the sources do that the document does not allow; says how many arrows there are, and where they lead."""
    allowed = rules((root / TABLE).read_text())
    sources = Sources(root)
    wrong = []
    order = list(allowed.folders)
    places = {folder(unit) for unit in sources.units}
    wrong += [f"{TABLE} has no row for {place}" for place in sorted(places - set(order))]
    wrong += [f"{TABLE} has a row for {name}, which there is not" for name in order if name not in places | {KERNEL}]
    for name, uses in allowed.folders.items():
        wrong += [f"{TABLE}: {name} may use {other}, which is not below it"
                  for other in sorted(uses) if other not in order[order.index(name) + 1:]]
    upward, used = set(), set()
    for start, to in sorted(sources.arrows):
        here, there = folder(start), folder(to)
        if here == there or here not in order or there not in order:
            continue
        used.add((here, there))
        if order.index(there) < order.index(here):
            upward.add((start, to))
        elif there not in allowed.folders[here]:
            wrong.append(f"{start} uses {to}: {TABLE} does not let {here} use {there}")
    wrong += [f"{TABLE}: {name} may use {other}, and does not"
              for name, uses in allowed.folders.items() for other in sorted(uses) if (name, other) not in used]
    wrong += [f"{start} uses {to}, which is above it" for start, to in sorted(upward - allowed.upward)]
    wrong += [f"{TABLE} has an arrow up from {start} to {to}, which there is not"
              for start, to in sorted(allowed.upward - upward)]
    if len(upward) > MOST_UPWARD:
        wrong.append(f"{len(upward)} arrows lead up, {MOST_UPWARD} may")
    # What is listed as leading up is counted there.
    after = {unit: {to for start, to in sources.arrows - allowed.upward if start == unit} for unit in sources.units}
    found = circles.circles(after)
    wrong += _circle(found, allowed.circle)
    wrong += [f"{name} has functions of {kind}, whose home is {home}" for name, kind, home in sources.strangers()]
    say.note(f"{DRIVER}: {sources.entries} entries, {len(sources.arrows)} arrows between {len(sources.units)} units, "
             f"{len(upward)} lead up, circles: "
             + (", ".join(str(len(circle)) for circle in found) or "none"))
    return wrong


def _circle(found, allowed):
    wrong, met = [], set()
    for circle in found:
        met |= set(circle)
        if strangers := sorted(set(circle) - allowed):
            wrong.append(f"a circle of {len(circle)} files, of which {TABLE} does not allow {', '.join(strangers)}: "
                         + ", ".join(circle))
        if len(circle) > MOST_IN_CIRCLE:
            wrong.append(f"a circle of {len(circle)} files, {MOST_IN_CIRCLE} may be")
    wrong += [f"{TABLE} allows {name} in the circle, which is not in it" for name in sorted(allowed - met)]
    return wrong
