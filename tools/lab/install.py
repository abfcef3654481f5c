# SPDX-License-Identifier: GPL-2.0
"""Lay our driver into a kernel tree in place of upstream's Rust driver, as CONFIG_ANDROID_BINDER_IPC_RUST.

Files keep the paths that they have here, so relative paths in them stay true. Doing it again changes
nothing; a file that left our repository leaves the tree too.
"""

import pathlib
import re
import shutil
import tomllib

from . import say
from .versions import PINNED, ROOT

# The files of the driver; a tree must not have files of these names before.
_OURS = ("drivers/android/**/*.rs", "drivers/android/**/*.[ch]", "drivers/android/*.rust_binder",
         "rust/kernel/*.rs", "rust/kernel/**/*.rs")
MANIFEST = "drivers/android/.rust_binder.files"
_UPSTREAM = "drivers/android/binder"

KCONFIG_FILE = "drivers/android/Kconfig.rust_binder"
KCONFIG_LINE = f'source "{KCONFIG_FILE}"\n'
MAKE_LINES = """\
obj-$(CONFIG_ANDROID_BINDER_IPC_RUST)	+= binder_rust.o
include $(src)/Makefile.rust_binder
"""


def lay_into(tree):
    """Install or bring up to date; the names of the files that changed."""
    tree = pathlib.Path(tree).absolute()
    must_be_kernel(tree)
    if clash := clashes(tree):
        raise say.LabError(f"{tree} already has a {clash[0]} that is not ours: use a clean tree")

    changed = lay_backports(tree)
    before, ours, replaced = _manifest(tree), [*files(), *_added(tree)], backport_edits(tree)
    # The manifest comes first, so that an interrupted run can continue.
    _write_manifest(tree, before | set(ours))
    changed += [f for f in files() if _write(tree / f, _edited(f, (ROOT / f).read_text(), replaced.get(f, [])))]
    for gone in before - set(ours):
        (tree / gone).unlink(missing_ok=True)
        changed.append(gone)
    _write_manifest(tree, ours)
    for name, edit in edits().items():
        text = (tree / name).read_text()
        if _write(tree / name, edit(text)):
            changed.append(name)
    if (tree / _UPSTREAM / "rust_binder_main.rs").exists():
        shutil.rmtree(tree / _UPSTREAM)
        changed.append(_UPSTREAM)
    return changed


def lay_backports(tree):
    """Add to a tree of another series what the driver needs of the kernel, from packaging/linux-SERIES; the names of the files that changed."""
    added = _added(tree)
    if added:
        _write_manifest(tree, _manifest(tree) | added.keys())
    laid = added | {name: _edited(name, (tree / name).read_text(), pairs) for name, pairs in backport_edits(tree).items() if name not in files()}
    return [name for name, text in laid.items() if _write(tree / name, text)]


def backports(tree):
    """The folder for trees of its series, which may not exist."""
    return ROOT / f"packaging/linux-{series(tree)}"


def _added(tree):
    folder = backports(tree)
    return {str(path.relative_to(folder)): path.read_text() for top in ("drivers", "rust") for path in sorted((folder / top).rglob("*.*"))}


def backport_edits(tree):
    """{name: (text that is there once, text in its place)...} of files of a tree of another series, and of ours in it."""
    listed = backports(tree) / "edits.toml"
    return tomllib.loads(listed.read_text()) if listed.exists() else {}


def _edited(name, text, pairs):
    for old, new in pairs:
        if new in text:
            continue
        if text.count(old) != 1:
            raise say.LabError(f"{name} has {text.count(old)} times {old!r}, which an edits.toml in packaging/ replaces once: use a clean tree, or change the edit")
        text = text.replace(old, new)
    return text


def edits():
    """The kernel's files that are changed, and how."""
    return {"drivers/android/Kconfig": kconfig, "drivers/android/Makefile": makefile, "rust/bindings/bindings_helper.h": bindings}


def files():
    """The names of our files, here and in a kernel tree."""
    ours = sorted({str(p.relative_to(ROOT)) for glob in _OURS for p in ROOT.glob(glob)})
    if "drivers/android/rust_binder.rs" not in ours:
        raise say.LabError(f"{ROOT}/drivers/android/rust_binder.rs is missing: is the checkout complete?")
    return ours


def clashes(tree):
    """Our names of files that the tree has, and not from us."""
    before = _manifest(tree)
    return [name for name in (*files(), *_added(tree)) if name not in before and (tree / name).exists()]


def series(tree):
    """The first two numbers of a kernel tree's version."""
    top = tree / "Makefile"
    numbers = re.findall(r"^(?:VERSION|PATCHLEVEL) = (\d+)$", top.read_text() if top.is_file() else "", re.M)
    if len(numbers) < 2:
        raise say.LabError(f"{tree} is no kernel tree: its Makefile has to have VERSION and PATCHLEVEL")
    return ".".join(numbers[:2])


def must_be_kernel(tree):
    """Complain of a tree that the driver is not made for."""
    if series(tree) != PINNED["kernel"]["series"] and not backports(tree).exists():
        raise say.LabError(f"{tree} is Linux {series(tree)}: the driver needs Linux {PINNED['kernel']['series']}, or a folder packaging/linux-{series(tree)}")


def _manifest(tree):
    path = tree / MANIFEST
    return set(path.read_text().split()) if path.exists() else set()


def _write_manifest(tree, names):
    _write(tree / MANIFEST, "\n".join(sorted(names)) + "\n")


def kconfig(text):
    """Our entry instead of upstream's."""
    if KCONFIG_LINE in text:
        return text
    changed, count = re.subn(r"config ANDROID_BINDER_IPC_RUST\n(?:\t.*\n|\n(?=\t))+", KCONFIG_LINE, text)
    if count != 1:
        raise say.LabError("drivers/android/Kconfig has no entry ANDROID_BINDER_IPC_RUST to replace")
    return changed


def makefile(text):
    """Our objects instead of upstream's folder."""
    if MAKE_LINES in text:
        return text
    changed, count = re.subn(
        r"^obj-\$\(CONFIG_ANDROID_BINDER_IPC_RUST\)\s*\+=.*\n", lambda _: MAKE_LINES, text, flags=re.M
    )
    if count != 1:
        raise say.LabError("drivers/android/Makefile has no line for ANDROID_BINDER_IPC_RUST to replace")
    return changed


def bindings(text):
    """The kernel crate's bindings without the headers of upstream's driver."""
    changed = re.sub(
        r"#if IS_ENABLED\(CONFIG_ANDROID_BINDER_IPC_RUST\)\n(?:#include .*\n)+#endif\n", "", text
    )
    if f"{_UPSTREAM}/" in changed:
        raise say.LabError("rust/bindings/bindings_helper.h names files of the driver that is replaced, in lines that are not known here")
    return changed


def _write(path, text):
    """Replace a file as a whole, so that a hard-linked original stays what it was."""
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.rename(path)
    return True
