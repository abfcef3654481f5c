# SPDX-License-Identifier: GPL-2.0
"""The tree of modules of the driver's crate, and which files a file cannot be compiled without.

A file is declared by a `mod x;` in another one. It needs each file that a path in it leads to; that it declares another one is no need,
because such a line can be left out. Who uses a trait does not name the file that implements it for a type of a third file: so the file of
the trait needs that one.
"""

import pathlib
import re

from . import circles, layers

ROOT = "drivers/android/rust_binder.rs"
# A declaration with its documentation, its attributes and the comments behind them.
DECLARATION = re.compile(r"^((?:[ \t]*(?:///|#\[[^\n]*\])[^\n]*\n)*)[ \t]*(?:pub(?:\([\w ]+\))? )?mod (\w+);[^\n]*\n", re.M)
_PATH = re.compile(r'#\[path = "([^"]+)"\]')
_TRAIT, _TYPE = re.compile(r"\btrait (\w+)"), re.compile(r"\b(?:struct|enum|union|type) (\w+)")
_IMPL = re.compile(r"^impl(?:<[^{;]*?>)? (?:\w+::)*(\w+)(?:<[^{;]*?>)? for (?:\w+::)*(\w+)", re.M)
_USE = re.compile(r"\buse\s+([^;]*);")


def declared(name, text):
    """What a file declares: {module: the file that it is in}."""
    return {found[2]: _file_of(name, found[2], found[1]) for found in DECLARATION.finditer(text)}


def _file_of(name, module, attributes):
    here = pathlib.PurePosixPath(name)
    path = _PATH.search(attributes)
    if path:
        return _normal(here.parent / path[1])
    if name == ROOT or here.name == "mod.rs":
        return str(here.parent / module)
    return str(here.with_suffix("") / module)


def _normal(path):
    parts = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


class Modules:
    """The files of a crate by their modules. `texts`: {name of a file: its text}, the root among them."""

    def __init__(self, texts):
        self._texts, self._modules, self.parents = texts, {(): ROOT}, {}
        left = [((), ROOT)]
        while left:
            path, name = left.pop()
            for module, stem in declared(name, texts[name]).items():
                below = self.file(stem)
                if below:
                    self._modules[(*path, module)] = below
                    self.parents.setdefault(below, name)
                    left.append(((*path, module), below))
        self.needs = {name: set() for name in self.parents}
        for trait, name in _implemented_elsewhere({name: circles.code(texts[name]) for name in self.needs}):
            self.needs[trait].add(name)
        for path, name in self._modules.items():
            if name != ROOT:
                children = set(declared(name, texts[name]))
                ends = {circles.end(path, children, one, self._modules) for one in _paths(circles.code(texts[name]))}
                self.needs[name] |= ends - {name, None}

    def file(self, stem):
        """The file that a declaration leads to, nothing if it is not there."""
        return next((file for file in (stem, f"{stem}.rs", f"{stem}/mod.rs") if file in self._texts), None)

    def compiled(self, there):
        """Which of the files that are there can be compiled, if nothing else is."""
        found = set(there) & self.needs.keys()
        while True:
            lacking = {name for name in found if self.needs[name] - found - {ROOT} or self.parents[name] not in found | {ROOT}}
            if not lacking:
                return found
            found -= lacking


def _implemented_elsewhere(texts):
    """(the file of a trait, a file that implements it for a type that is neither's). Traits below rust/kernel/ are for types that
    are not known there."""
    traits = {trait: name for name, text in texts.items() if name.startswith("drivers/") for trait in _TRAIT.findall(text)}
    for name, text in texts.items():
        own = set(_TYPE.findall(text))
        for trait, of in _IMPL.findall(text):
            if trait in traits and traits[trait] != name and of not in own and of not in _TYPE.findall(texts[traits[trait]]):
                yield traits[trait], name


def _paths(code):
    """All paths of a file, as lists of names; those of `use` declarations written out."""
    found = [leaf for tree in _USE.findall(code) for leaf in layers.leaves(re.sub(r"\s+", "", tree.replace(" as ", "@")))]
    found += circles.PATH.findall(_USE.sub("", code))
    return [[name.split("@")[0] for name in path.split("::")] for path in found]
