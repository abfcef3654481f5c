# SPDX-License-Identifier: GPL-2.0
"""What in another kernel tree no longer fits the driver: `make kernel`. It compiles nothing.

The pinned tree fits. What the driver names, that tree has and the other one lacks or has in another form, is a finding.
"""

import difflib
import fnmatch
import functools
import pathlib
import re

from . import check, install, layers, proc, say, source
from .versions import BUILD, ROOT

_REPORT = BUILD / "kernel-report.tsv"
_TABLE, _FEATURES, _UAPI = "drivers/android/helpers/layouts.c", "drivers/android/binderfs/inodes.c", "include/uapi/linux/android"
# Other headers and folders belong to parts of the kernel that the driver does not use.
_HEADERS = ("linux/*.h", "linux/atomic/*.h", "linux/sched/*.h", "net/*.h", "asm-generic/*.h", "uapi/linux/*.h", "uapi/linux/android/*.h")
_EXPORTING = ("arch/x86", "drivers/android", "drivers/base", "drivers/char", "fs", "ipc", "kernel", "lib", "mm", "net", "rust", "security")
_EXPORT = r"EXPORT_(PER_CPU_|TRACEPOINT_)?SYMBOL(_GPL)?\(\s*\w+"
_WORD = re.compile(r"\b[A-Za-z_]\w*")
# A macro; the end of a statement, or a line for the preprocessor; a function up to the end of its parameters.
_MACRO = re.compile(r"^\s*(#\s*define\s+(\w+)(?:\([^)]*\))?)", re.M)
_END = re.compile(r"[;{}]|^\s*#(?:[^\n]*\\\n)*[^\n]*$", re.M)
_FUNCTION = re.compile(r"\s*(?!return\b|else\b|goto\b|case\b|typedef\b)((?:(?:__\w+\s*\([^()]*\)|[A-Za-z_]\w*)[\s*]+)+(\w+)\s*"
                       r"\((?!\s*\*)(?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))")
_METHOD = re.compile(r"\b(pub (?:unsafe |const )*fn (\w+)[^{;]*)")


def run(path):
    """Print the findings, and write them into a table."""
    path = pathlib.Path(path)
    with say.Step(f"comparing Linux {install.series(path)} with the pinned tree"):
        found = findings(source.tree(), path)
    BUILD.mkdir(exist_ok=True)
    _REPORT.write_text("".join("\t".join(row) + "\n" for row in [("kind", "name", "difference", "used for"), *found]))
    for kind in KINDS:
        rows = [f"  {name}: {what[:100]} ({why})" for of, name, what, why in found if of == kind]
        print(f"{kind}: {len(rows)}", *rows, sep="\n")
    print(f"the whole texts: {_REPORT}")


def findings(pinned, tree):
    """(kind, name, difference, what for) of all that the driver uses and `tree` does not have as `pinned` does, and of what `tree` adds."""
    trees = Tree(pinned), Tree(tree)
    return [(kind, *row) for kind, find in KINDS.items() for row in find(*trees)]


class Tree:
    """The parts of a kernel tree that the driver depends on; its texts have no comments."""

    def __init__(self, folder):
        self.folder, crate = folder, folder / "rust/kernel"
        self.headers = [_bare(path) for pattern in _HEADERS for path in (folder / "include").glob(pattern)]
        self.words = set().union(*map(_WORD.findall, self.headers))
        self.uapi = {path.name: _bare(path) for path in sorted((folder / _UAPI).glob("binder*.h"))}
        self.crate = {str(path.relative_to(crate)): layers.code(path) for path in crate.rglob("*.rs")}
        self.helpers = set(re.findall(r"rust_helper_(\w+)", "".join(map(_bare, (folder / "rust/helpers").glob("*.c")))))
        self.enums = set(re.findall(r"^--[\w-]+-enum (\w+)", _bare(folder / "rust/bindgen_parameters"), re.M))
        headers = re.findall(r"#include <(uapi/.*)>", _bare(folder / "rust/uapi/uapi_helper.h"))
        self.constants = {word for name in headers for word in re.findall(r"\b[A-Z]\w+", _bare(folder / "include" / name))}
        there = [folder / name for name in _EXPORTING if (folder / name).exists()]
        exports = proc.output("sh", "-c", 'grep -rhoE "$@" || [ $? = 1 ]', "sh", "--include=*.[cS]", _EXPORT, folder / "Makefile", *there)
        self.exports = {line.partition("(")[2].strip() for line in exports.splitlines()}

    def declared(self):
        """{name: its prototypes, heads of inline functions, and macros with their parameters}."""
        functions = [head.groups() for text in self.headers for part in _END.split(text) if (head := _FUNCTION.match(part))]
        return _by_name([*functions, *(head for text in self.headers for head in _MACRO.findall(text))])

    def struct(self, name):
        """The lines of a struct's definitions; a configuration chooses one of several."""
        texts = (text for text in self.headers if f"struct {name}" in text)
        found = (one for text in texts for one in re.findall(rf"\bstruct {name}\s*\{{(?:\s*\}}|.*?\n\}})", text, re.S))
        return [_normal(line) for one in found for line in one.splitlines() if line.strip()]

    def module(self, path):
        """The file of the crate to which a path leads, and the rest of the path."""
        words, folder, file = path.split("::")[1:], "", "lib.rs"
        while words and (named := {f"{folder}{words[0]}.rs", f"{folder}{words[0]}/mod.rs"} & self.crate.keys()):
            folder, file = f"{folder}{words.pop(0)}/", named.pop()
        return file, words

    def has(self, path):
        """Whether the file has the rest of the path; macros belong to the crate's root, whatever their file."""
        file, words = self.module(path)
        texts = self.crate.values() if file == "lib.rs" and len(words) == 1 else [self.crate.get(file, "")]
        return any(all(re.search(rf"\b{word}\b", text) for word in words if word not in ("*", "self")) for text in texts)


def _bare(path):
    text = layers.COMMENT.sub("", path.read_text(errors="replace")) if path.exists() else ""
    return re.sub(r"\bcontext_lock_struct\((\w+)\)", r"struct \1", text)


def _normal(text):
    return re.sub(r"\s*([(),*])\s*", r"\1", " ".join(text.split()))


def _by_name(heads):
    found = {}
    for head, name in heads:
        found.setdefault(name, set()).add(_normal(re.sub(r"(?<!')\b(extern|static|inline|__always_inline)\b", "", head)))
    return found


def _changed(before, now, names):
    """(name, difference) of those names that have another head, or none."""
    for name in sorted(before.keys() & names):
        gone, new = before[name] - now.get(name, set()), now.get(name, {"nothing"}) - before[name]
        if gone and new:
            yield name, f"{' / '.join(sorted(gone))} -> {' / '.join(sorted(new))}"


@functools.cache
def _sources():
    return {name: layers.code(ROOT / name) for name in install.files() if name.endswith((".rs", ".c", ".h"))}


@functools.cache
def _named():
    """{name: a file} of what may be from the kernel's headers: all words of C, and constants and bindings in Rust. Inline functions need more."""
    needed = re.findall(r'needs\("(\w+)"', (ROOT / "drivers/android/exports").read_text())
    found = dict.fromkeys([*needed, *(name for names, _ in check.features() for name in names)], "drivers/android/exports")
    for file, text in _sources().items():
        words = set(_WORD.findall(text)) - set(re.findall(r"#define (\w+)", text))
        if file.endswith(".rs"):
            words = {word for word in words if re.fullmatch("[A-Z][A-Z0-9_]{3,}", word)}
            words |= {path.split("::")[-1] for path in layers.paths(text) if re.search(r"\b(bindings|uapi)::", path)}
        found = dict.fromkeys(words, file) | found
    return found


def _why(name):
    """The feature of a function, or the first of the files that name it."""
    features = (what for names, what in check.features() if any(fnmatch.fnmatchcase(name, one) for one in names))
    return next(features, None) or _named()[name]


def _symbols(pinned, tree):
    for names, what in ((pinned.words - tree.words, "not in the headers"), (pinned.exports & tree.words - tree.exports, "not exported"),
                        (pinned.helpers - tree.helpers - pinned.exports, "no rust_helper_ function"),
                        (pinned.enums - tree.enums, "no enum of Rust in rust/bindgen_parameters"),
                        (pinned.constants & tree.words - tree.constants, "not by rust/uapi/uapi_helper.h")):
        yield from ((name, what, _why(name)) for name in sorted(names & _named().keys()))


def _signatures(pinned, tree):
    yield from ((name, what, _why(name)) for name, what in _changed(pinned.declared(), tree.declared(), _named().keys() & tree.words))


def structs():
    """{struct: fields} of the table that is compared when the module is loaded."""
    found = {}
    for struct, field in re.findall(r"^\t(?:SIZE|FIELD)\((\w+)(?:, ([\w.]+))?\)", (ROOT / _TABLE).read_text(), re.M):
        found.setdefault(struct, []).append(field)
    return found


def _structs(pinned, tree):
    for struct, fields in structs().items():
        now = tree.struct(struct)
        if lines := [line for line in difflib.ndiff(pinned.struct(struct), now) if line[0] in "-+"]:
            gone = [f"no {field}" for field in fields if set(_WORD.findall(field)) - set(_WORD.findall(" ".join(now)))]
            yield struct, "; ".join([*gone, f"{len(lines)} lines differ", *lines]), _TABLE


def _crate(pinned, tree):
    texts = {name: text for name, text in _sources().items() if name.endswith(".rs")}
    words = {word: name for name, text in texts.items() for word in _WORD.findall(text)}
    paths = {path: name for name, text in texts.items() for path in layers.paths(text) if path.startswith("kernel::")}
    # Items of the prelude are used without a path.
    paths |= {f"kernel::prelude::{word}": words[word] for word in words.keys() & set(_WORD.findall(pinned.crate.get("prelude.rs", ""))) - {"_"}}
    paths |= {f"kernel::error::code::{word}": name for word, name in words.items() if re.fullmatch("E[A-Z0-9]+", word)}
    yield from ((path, "not in the crate", name) for path, name in sorted(paths.items()) if pinned.has(path) and not tree.has(path))
    called = {name: file for file, text in texts.items() for name in re.findall(r"(?:\.|::)(\w+)(?:::<[^()]*>)?\(", text)}
    used = tuple(pinned.module(path)[0].removesuffix(".rs") for path in paths)
    for file in sorted(name for name in pinned.crate.keys() & tree.crate.keys() if name.startswith(used)):
        methods = (_by_name(_METHOD.findall(one.crate[file])) for one in (pinned, tree))
        yield from ((f"{file}:{name}", what, called[name]) for name, what in _changed(*methods, called.keys()))


def _uapi(pinned, tree):
    ours = set(_WORD.findall("".join([*_sources().values(), *map(_bare, (ROOT / _UAPI).glob("*.h")), *pinned.uapi.values()])))
    for name, line in ((name, line) for name, text in tree.uapi.items() for line in text.splitlines()):
        if new := [word for word in _WORD.findall(line) if word not in ours and not word.startswith("_")]:
            yield ", ".join(new), _normal(line), name
    theirs = "".join(map(_bare, (tree.folder / "drivers/android").rglob("*binderfs.c")))
    for name in sorted(set(re.findall(r'create_file\(dir, "(\w+)"', theirs)) - set(re.findall(r'"(\w+)"', (ROOT / _FEATURES).read_text()))):
        yield f"features/{name}", f"not in {_FEATURES}", "programs that look for it"


def _edits(_, tree):
    for name, edit in install.edits().items():
        try:
            edit((tree.folder / name).read_text())
        except (say.LabError, OSError) as error:
            yield name, str(error), "the installer"
    yield from ((name, "a file of ours has this name", "the installer") for name in install.clashes(tree.folder))


KINDS = {"symbols": _symbols, "signatures": _signatures, "structs": _structs, "crate": _crate, "uapi": _uapi, "edits": _edits}
