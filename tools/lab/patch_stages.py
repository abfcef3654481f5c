# SPDX-License-Identifier: GPL-2.0
"""What a kernel tree has after each patch of the series, made of what it has after the last one.

After the last patch each file is as tools/lab/install.py lays it. Before, a file that names others names those alone that are there:
`mod` lines of modules that cannot be compiled yet are missing, objects in the Makefile, `#include` lines, and what Kconfig and Makefile
have about suites. So the tree builds after each patch, and the compiler sees a file as soon as all that it uses is there.
"""

import re

from . import install, patch_beside, patch_list, patch_modules, say
from .versions import ROOT

_KCONFIG, _MAKEFILE = "drivers/android/Kconfig.rust_binder", "drivers/android/Makefile.rust_binder"
PARTS_KCONFIG = "drivers/android/Kconfig.rust_binder_parts"
_HELPERS = "drivers/android/rust_binder_helpers.c"
_TREE_KCONFIG, _TREE_MAKEFILE = "drivers/android/Kconfig", "drivers/android/Makefile"
_INDEX, PAGE = "Documentation/admin-guide/index.rst", "Documentation/admin-guide/rust_binder.rst"
# What tools/lab/install.py does not touch.
ALONE = {_INDEX, PAGE, "MAINTAINERS"}
_UPSTREAM = "drivers/android/binder"
# The symbol under which the parts are compiled, and the one that the driver has.
PARTS, WHOLE = "ANDROID_BINDER_IPC_RUST_PARTS", "ANDROID_BINDER_IPC_RUST"
# Patches by which more than their own files change.
_WHOLE, _SUITES, _CHOICE = "enable", "kunit", "choice"
_OBJECT = re.compile(r"^\t(\S+)\.o(?:\t\\)?\n", re.M)
_PROCESSES, _EDGE = "drivers/android/process.rs", "drivers/android/entry/ffi.rs"
_OF_PROCESSES = re.compile(r"^// Until the entry points are there\.\n(.*?\n)// End\.\n\n", re.M | re.S)
_MODULES_MARK = "// The modules.\n"


def touched():
    """The files of a kernel tree that are no new ones, and that the series reads or changes; folders end with a slash."""
    return (_TREE_KCONFIG, _TREE_MAKEFILE, "rust/bindings/bindings_helper.h", _INDEX, "MAINTAINERS", patch_beside.C_DRIVER, patch_beside.PARAMETERS,
            f"{_UPSTREAM}/")


class Stages:
    """The series for one tree. `base`: {name: text} of what that tree has of `touched()`."""

    def __init__(self, flavour, base, sender, ours=None):
        self.base, self._sender, self._beside = base, sender, flavour == "beside"
        self._ours = ours or of_flavour(flavour)
        self.patches = patch_list.series(flavour, sorted(self._ours))
        self._at = {patch.name: number for number, patch in enumerate(self.patches)}
        self._owner = {name: number for number, patch in enumerate(self.patches) for name in patch.files}
        self._linked = {name: max(number, self._at.get(patch.linked, 0))
                        for number, patch in enumerate(self.patches) for name in patch.files}
        self._modules = patch_modules.Modules({name: text for name, text in self._ours.items() if name.endswith(".rs")})
        self._compiled = [self._modules.compiled({name for name, at in self._owner.items() if at <= number})
                          for number in range(len(self.patches))]

    def trees(self):
        """What has changed after each patch: [(patch, {name: its text, or nothing if it goes})]."""
        found, before = [], dict(self.base)
        for number, patch in enumerate(self.patches):
            now = self._tree(number)
            changed = {name: now.get(name) for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)}
            if not changed:
                raise say.LabError(f"{patch_list.LIST}: patch {patch.name} changes nothing")
            found.append((patch, changed))
            before = now
        return found

    def compiled_later(self):
        """{patch: the patch with which the files of Rust that it adds are compiled, or its files of C are linked}, where that is another one."""
        found = {}
        for number, patch in enumerate(self.patches):
            rust = [name for name in patch.files if name in self._modules.needs]
            when = max((next(at for at, there in enumerate(self._compiled) if name in there) for name in rust), default=number)
            if when > number:
                found[patch.name] = self.patches[when].name
        return found

    def _tree(self, number):
        there = {name: self._text(name, number) for name, at in self._owner.items() if at <= number}
        for name, text in self.base.items():
            edited = self._edited(name, text, number)
            if edited is not None:
                there[name] = edited
        if not self._is(number, _WHOLE):
            there[PARTS_KCONFIG] = (patch_list.FOLDER / "stage.Kconfig").read_text()
        if self._is(number, "documentation"):
            there[PAGE] = page(self._beside)
        return there | (patch_beside.added() if self._is(number, _CHOICE) else {})

    def _is(self, number, name):
        """Whether a patch is there."""
        return name in self._at and number >= self._at[name]

    def _text(self, name, number):
        """One of our files as it is after a patch."""
        text = self._ours[name]
        if name == patch_modules.ROOT and not self._is(number, _WHOLE):
            return self._root(number)
        if name.endswith(".rs"):
            return self._with_modules(name, text, number)
        if name == _HELPERS:
            return re.sub(r'^#include "\.\./\.\./([^"]+)"\n',
                          lambda line: line[0] if self._owner[line[1]] <= number else "", text, flags=re.M)
        if name in (_KCONFIG, _MAKEFILE) and not self._is(number, _SUITES):
            text = _without_suites(text) if name == _KCONFIG else _without_paragraphs(text, "KUNIT_TEST")
        return self._with_objects(text, number) if name == _MAKEFILE else text

    def _root(self, number):
        """The crate's root before the driver is whole: the modules that can be compiled, and no initialisation."""
        text = (patch_list.FOLDER / "stage.rs").read_text()
        # The edge to C implements a trait for processes, without which their methods do not compile.
        compiled = self._compiled[number]
        text = _OF_PROCESSES.sub(r"\1\n" if _PROCESSES in compiled and _EDGE not in compiled else "", text)
        declared = "".join(found[0] for found in patch_modules.DECLARATION.finditer(self._ours[patch_modules.ROOT]))
        return text.replace(_MODULES_MARK, self._with_modules(patch_modules.ROOT, declared, number))

    def _with_modules(self, name, text, number):
        """A file without the declarations of modules that cannot be compiled yet."""
        stems = patch_modules.declared(name, self._ours[name])
        files = {module: self._modules.file(stem) for module, stem in stems.items()}
        return patch_modules.DECLARATION.sub(
            lambda found: found[0] if files[found[2]] in self._compiled[number] else "", text)

    def _with_objects(self, text, number):
        """The Makefile with the objects that can be linked, and a list of those that are only compiled."""
        listed = _OBJECT.findall(text)
        linked = [name for name in listed if self._linked_at(name) <= number]
        alone = [name for name in listed if name not in linked and self._owner[self._source(name)] <= number]
        lines = "".join(f"\t{name}.o\t\\\n" for name in linked)
        begins, ends = text.index(f"\t{listed[0]}.o"), text.index(f"\t{listed[-1]}.o") + len(f"\t{listed[-1]}.o\n")
        text = text[:begins] + lines.removesuffix("\t\\\n") + "\n" + text[ends:]
        if self._owner["drivers/android/trace/events.c"] > number:
            text = _without_paragraphs(text, "trace/events.o")
        if alone:
            text += ("\n# Compiled, and linked as soon as what they call is there.\n"
                     f"always-$(CONFIG_{PARTS}) += \\\n" + " \\\n".join(f"\t{name}.o" for name in alone) + "\n")
        return text

    def _source(self, stem):
        name = f"drivers/android/{stem}"
        return next(file for file in (f"{name}.c", f"{name}.rs") if file in self._owner)

    def _linked_at(self, stem):
        return self._linked[self._source(stem)]

    def _edited(self, name, text, number):
        """One of the tree's files as it is after a patch; nothing if it is gone."""
        whole, choice = self._is(number, _WHOLE), self._is(number, _CHOICE)
        if name == _TREE_KCONFIG:
            line = f'source "{PARTS_KCONFIG}"\n\n'
            text = install.kconfig(text) if whole else _beside_upstream(text, f"config {WHOLE}\n", line, True)
            return patch_beside.kconfig(text) if choice else text
        if name == _TREE_MAKEFILE:
            lines = install.MAKE_LINES.replace(WHOLE, PARTS)
            text = install.makefile(text) if whole else _beside_upstream(text, f"obj-$(CONFIG_{WHOLE})", lines, False)
            return patch_beside.makefile(text) if choice else text
        if name == patch_beside.C_DRIVER:
            return patch_beside.c_driver(text) if choice else text
        if name == "rust/bindings/bindings_helper.h":
            return install.bindings(text) if whole else text
        if name == patch_beside.PARAMETERS:
            return patch_beside.documented(text) if choice else text
        if name == _INDEX:
            return _indexed(text) if self._is(number, "documentation") else text
        if name == "MAINTAINERS":
            return self._maintained(text) if self._is(number, "maintainers") else text
        if name.startswith(f"{_UPSTREAM}/"):
            return None if self._is(number, "removal") else text
        return text

    def _maintained(self, text):
        entry = (patch_list.FOLDER / "MAINTAINERS").read_text()
        entry = entry.format(sender=self._sender, files="\n".join(f"F:\t{name}" for name in maintained(self._ours)))
        head = re.search(r"^ANDROID DRIVERS\n", text, re.M)
        if not head:
            raise say.LabError("MAINTAINERS has no entry ANDROID DRIVERS to put ours before")
        return text[:head.start()] + entry + "\n" + text[head.start():]


def of_flavour(flavour):
    """{name: text} of our files as a flavour has them after the last patch."""
    texts = {name: (ROOT / name).read_text() for name in install.files()}
    return {name: patch_beside.ours(name, text) for name, text in texts.items()} if flavour == "beside" else texts


def page(beside):
    """The page for Documentation/."""
    more = (patch_list.FOLDER / "beside/rust_binder.rst").read_text() if beside else ""
    return (patch_list.FOLDER / "rust_binder.rst").read_text() + more


def maintained(ours):
    """How an entry of MAINTAINERS names our files: folders that are ours alone, and the others one by one or by a common beginning."""
    found = {PAGE, "drivers/android/*.rs", "drivers/android/*rust_binder*"}
    for name in ours:
        folder, _, rest = name.partition("drivers/android/")
        if not folder and "/" in rest:
            found.add(f"drivers/android/{rest.split('/')[0]}/")
        elif name.startswith("rust/kernel/"):
            found.add(f"rust/kernel/{name.split('/')[2].removesuffix('.rs')}*")
        elif not name.startswith("drivers/android/"):
            found.add("rust/kernel_ext/" if name.startswith("rust/kernel_ext/") else name)
    return sorted(found)


def _indexed(text):
    changed = text.replace("   rust_binder\n", "").replace("   binderfs\n", "   binderfs\n   rust_binder\n", 1)
    if changed == text:
        raise say.LabError(f"{_INDEX} does not list binderfs, behind which our page goes")
    return changed


def _beside_upstream(text, line, added, before):
    """The text with lines added next to those about upstream's driver."""
    found = [part for part in text.splitlines(keepends=True) if part.startswith(line)]
    if len(found) != 1:
        raise say.LabError(f"{_TREE_KCONFIG} or {_TREE_MAKEFILE} has no line `{line.strip()}`, or several")
    return text.replace(found[0], added + found[0] if before else found[0] + added)


def _without_paragraphs(text, word):
    """The text without the paragraphs that have a word in them."""
    return "\n\n".join(part for part in text.strip("\n").split("\n\n") if word not in part) + "\n"


def _without_suites(text):
    """Kconfig without the symbol of the suites: its line, and all that is indented or empty behind that."""
    return re.sub(r"^config \w*KUNIT_TEST\n(?:(?:\t.*)?\n)*", "", text, flags=re.M)
