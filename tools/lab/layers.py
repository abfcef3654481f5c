# SPDX-License-Identifier: GPL-2.0
"""Checks the dependencies between folders of the driver: those that docs/architecture.md allows, and those in the sources.

A file uses another one that it names in a `use` declaration or a path; all may name items of the crate's root. Items that one file adds
to a type of another (`impl Process` outside of `process.rs`) are not seen, so they are allowed within a folder only.
"""

import re

from . import say
from .versions import ROOT

TABLE = "docs/architecture.md"
DRIVER, KERNEL = "drivers/android", "rust/kernel"
# The crate's root, and what the driver calls rust/kernel/.
CRATE, BELOW = "rust_binder.rs", "kernel_ext"
# Files that have a row of their own.
_ALONE = (CRATE, "range_alloc.rs", "defs.rs")

_ROWS = re.compile(r"<!-- layers -->\n.*\n.*\n((?:\|.*\n)*)<!-- end -->")
_TYPE = re.compile(r"\b(?:struct|enum|union|trait|type)\s+(\w+)")
_IMPL = re.compile(r"^impl(?:<[^{;]*?>)?\s+(\w+)(?:<[^{;]*?>)?\s*(?:where[^{]*)?\{", re.M)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_STRING = re.compile(r'b?"(?:[^"\\]|\\.)*"', re.S)
_MOD = re.compile(r"\bmod\s+(\w+)\s*[;{]")
_TREE = re.compile(r"(?<![\w:])((?:\w+::)+)\{([^{}]*)\}")
_PATH = re.compile(r"(?<![\w:])\w+(?:::(?:\w+|\*))+")
_INSIDE = re.compile(r"^(?:pub(?:\(\w+\))? )?mod \w+ \{.*?^\}", re.M | re.S)


def complaints(root=ROOT):
    """The uses in the sources that the document does not allow; prints how often files use others."""
    rows = [[re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:4]] for line in _ROWS.search((root / TABLE).read_text())[1].splitlines()]
    allowed = {name.rstrip("/"): [other.rstrip("/") for other in uses] for [name], _, uses in rows}
    texts = {str(path.relative_to(root / DRIVER)): code(path) for path in sorted((root / DRIVER).rglob("*.rs"))}
    below = {str(path.relative_to(root)): code(path) for path in sorted((root / KERNEL).rglob("*.rs"))}
    place = {name: _place(name, texts) for name in texts} | dict.fromkeys([*below, KERNEL], KERNEL)
    modules = {_module(name): name for name in texts if name != CRATE} | {(BELOW,): KERNEL}
    order = list(allowed)

    wrong = [f"{TABLE} has no row for {folder}" for folder in sorted({*place.values()} - allowed.keys())]
    wrong += [f"{TABLE} has a row for {folder}, which there is not" for folder in order if folder not in place.values()]
    wrong += [f"{TABLE}: {folder} may use {other}, which is not below it"
              for folder, uses in allowed.items() for other in uses if other not in order[order.index(folder) + 1:]]
    used = {(name, to) for name, text in (texts | below).items() for to in _used(name, text, modules) if place[name] != place[to]}
    wrong += [f"{name} uses {to}: {TABLE} does not let {place[name]} use {place[to]}"
              for name, to in sorted(used) if place[to] not in allowed.get(place[name], [place[to]])]
    seen = {(place[name], place[to]) for name, to in used}
    wrong += [f"{TABLE}: {folder} may use {other}, and does not" for folder, uses in allowed.items() for other in uses if (folder, other) not in seen]

    homes = {}
    for name, text in texts.items():
        for kind in _TYPE.findall(text):
            homes.setdefault(kind, []).append(name)
    wrong += [f"{name} has functions of {kind}, whose home is {homes[kind][0]}" for name, text in texts.items() for kind in _IMPL.findall(text)
              if kind in homes and place[name] not in {place[home] for home in homes[kind]}]
    say.note(f"{DRIVER}: {len(used)} uses of other folders' files by {len(texts)} files")
    return wrong


def _place(name, texts):
    """The row that a file belongs to: its folder, or `.` with the folders of files there."""
    front, *rest = name.split("/")
    unit = f"{front}.rs" if rest else front
    if rest and unit not in texts:
        return front
    return unit if unit in _ALONE else "."


def _module(name):
    """A file's place in the crate as a tuple of modules; the root's is empty."""
    path = name.removesuffix(".rs").removesuffix("/mod").replace(KERNEL, BELOW)
    return () if name == CRATE else tuple(path.split("/"))


def code(path):
    """A file's text without comments and strings; in a module that stands inside the file, `super` is the file itself."""
    bare = _STRING.sub('""', COMMENT.sub("", path.read_text()))
    return _INSIDE.sub(lambda inside: re.sub(r"\bsuper::", "self::", inside[0]), bare)


def paths(text):
    """The paths in a text; those in braces are written out."""
    while tree := _TREE.search(text):
        leaves = ", ".join(tree[1] + leaf.strip() for leaf in tree[2].split(",") if leaf.strip())
        text = f"{text[:tree.start()]} {leaves} {text[tree.end():]}"
    return set(_PATH.findall(text))


def _used(name, text, modules):
    """The files that the paths of a file lead to, each by the longest part of it that is a module."""
    here, children = _module(name), set(_MOD.findall(text))
    for path in paths(text):
        words = path.split("::")
        if words[0] not in ("crate", "self", "super", *children):
            continue
        base = () if words[0] == "crate" else here
        while words and words[0] in ("crate", "self", "super"):
            base = base[:-1] if words.pop(0) == "super" else base
        full = (*base, *words)
        found = next((modules[full[:length]] for length in range(len(full), 0, -1) if full[:length] in modules), None)
        if found:
            yield found
