# SPDX-License-Identifier: GPL-2.0
"""The driver as a series of patches for a Linux tree, which `git am` takes (docs/patches.md).

A series is what tools/lab/install.py makes of a tree, with a page for Documentation/ and an entry in MAINTAINERS, in the pieces
that packaging/patches/series.toml lists. FLAVOUR=beside has one more patch: packaging/patches/beside/.
"""

import fnmatch
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib

from . import install, proc, say, source
from .versions import BUILD, ROOT

FLAVOURS = ("replace", "beside")
FOLDER = ROOT / "packaging/patches"
LIST = "packaging/patches/series.toml"
PAGE = "Documentation/admin-guide/rust_binder.rst"
_INDEX = "Documentation/admin-guide/index.rst"
_EVENTS = "drivers/android/trace/events.h"
_EVENT = re.compile(r"^(?:EVENT\(\w+, |\w*EVENT\()(binder_\w+)", re.M)
# The files of a tree that the series needs; folders end with a slash.
_TOUCHED = ("Makefile", "MAINTAINERS", _INDEX, "Documentation/admin-guide/kernel-parameters.txt", "rust/bindings/bindings_helper.h",
            "drivers/android/Kconfig", "drivers/android/Makefile", "drivers/android/binder/")
# FLAVOUR=beside changes it, too.
_C_DRIVER = "drivers/android/binder.c"
# Android's own choice of a driver. The kernel sets only the first parameter of a name, so the series' would never be set.
_CHOICE_OF_ANDROID = "drivers/android/binder_pick.c"
_SENDER = re.compile(r"[^<>\n]*[^<>\s] <[^<>@\s]+@[^<>@\s]+>")


def run(sender, flavour, tree=None):
    """Write the series into build/patches, and list it."""
    folder = BUILD / "patches" / flavour
    files = write(folder, flavour, sender or _from_git(), base(tree, flavour))
    for file, row in zip(files, rows(flavour, install.series(tree) if tree else None)):
        size = re.search(r"^ \d+ files? changed.*$", file.read_text(), re.M)
        say.lines(f"{file.name[:4]}  {row['subject']}", f"     {size[0]}")
    say.note(f"{len(files)} patches in {folder}; in your tree: git am --signoff {folder}/*.patch")


def rows(flavour, series=None):
    """The patches of a flavour in their order, as the list has them; for trees of an older series, one more comes first."""
    listed = tomllib.loads((ROOT / LIST).read_text())["patch"]
    return [row for row in listed if row.get("flavour", flavour) == flavour and row.get("series", series) == series]


def base(tree=None, flavour="replace"):
    """{name: text} of what a tree has that the series changes: the user's, or one as mainline has it."""
    folder = pathlib.Path(tree).absolute() if tree else source.variant("mainline")
    install.must_be_kernel(folder)
    if clash := next((name for name in install.files() if (folder / name).exists()), None):
        raise say.LabError(f"{folder} already has a {clash}, which the series adds: use a tree without the driver")
    if flavour == "beside" and install.backports(folder).exists():
        raise say.LabError(f"{folder} is Linux {install.series(folder)}, for which there is only FLAVOUR=replace")
    if flavour == "beside" and (folder / _CHOICE_OF_ANDROID).exists():
        raise say.LabError(f"{folder} has {_CHOICE_OF_ANDROID}, Android's own choice of a driver, which has the parameter binder.impl: "
                           "the series for such a tree is FLAVOUR=replace")
    if flavour == "beside" and not (folder / _C_DRIVER).exists():
        raise say.LabError(f"{folder} has no {_C_DRIVER}: without the C driver, upstream's takes its place, which cannot be built in beside ours; "
                           "use FLAVOUR=replace, or load this driver beside upstream's as a module with name=")
    backported = [name for name in install.backport_edits(folder) if name not in install.files()]
    paths = [path for name in (*_TOUCHED, *backported, *([_C_DRIVER] if (folder / _C_DRIVER).exists() else []))
             for path in (sorted((folder / name).rglob("*")) if name.endswith("/") else [folder / name]) if not path.is_dir()]
    if lacking := next((path for path in paths if not path.exists()), None):
        raise say.LabError(f"there is no {lacking}: the patches are for a whole Linux tree")
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def write(folder, flavour, sender, texts):
    """Write the series for a tree that has these texts, in place of an earlier one; gives the files in order."""
    if not _SENDER.fullmatch(sender):
        raise say.LabError(f"FROM='{sender}' is no sender: use the form FROM='Jane Doe <jane@example.org>'")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        repository, laid = Repository(pathlib.Path(name) / "tree", sender), pathlib.Path(name) / "laid"
        repository.commit(texts, "Linux\n")
        put(laid, texts)
        wanted = rows(flavour, install.series(laid))
        if "series" in wanted[0]:
            repository.commit({name: (laid / name).read_text() for name in install.lay_backports(laid)}, message(wanted[0]))
            texts = {name: text for name, text in contents(laid).items() if name != install.MANIFEST}
        lay(laid, sender)
        changed, listed = changes(texts, laid), rows("replace")
        owned = owners(listed, changed)
        for row in listed:
            repository.commit({file: changed[file] for file in changed if owned[file] is row}, message(row))
        if flavour == "beside":
            before = contents(laid)
            choose(laid)
            repository.commit(changes(before, laid), message(rows(flavour)[-1]))
        repository.git("format-patch", "--quiet", "--no-signature", "--no-renames", "--zero-commit", "--numbered", "--output-directory", folder,
                       f"HEAD~{len(wanted)}")
    files = sorted(folder.glob("*.patch"))
    (folder / "cover-letter.txt").write_text((FOLDER / "cover-letter.txt").read_text().format(count=len(files)))
    return files


def lay(tree, sender):
    """Make of a tree what it is after FLAVOUR=replace."""
    install.lay_into(tree)
    (tree / install.MANIFEST).unlink()
    (tree / PAGE).write_text((FOLDER / "rust_binder.rst").read_text())
    _replace(tree, _INDEX, "   binderfs\n", "   binderfs\n   rust_binder\n")
    entry = (FOLDER / "MAINTAINERS").read_text().format(sender=sender, files="\n".join(f"F:\t{glob}" for glob in _maintained()))
    _replace(tree, "MAINTAINERS", "\nANDROID DRIVERS\n", f"\n{entry}\nANDROID DRIVERS\n")


def choose(tree):
    """Add what FLAVOUR=beside has more: both drivers can be built in, and binder.impl=c|rust chooses one at boot."""
    for path in (FOLDER / "beside").glob("*.[ch]"):
        (tree / "drivers/android" / path.name).write_text(path.read_text())
    for edit in tomllib.loads((FOLDER / "beside/edits.toml").read_text())["edit"]:
        _replace(tree, edit["file"], edit["old"], edit["new"], edit.get("times", 1))
    # The events of both drivers are symbols of one kernel.
    events = (tree / _EVENTS).read_text()
    names = "|".join(_EVENT.findall(events))
    (tree / _EVENTS).write_text(re.sub(rf"\b(?=(?:{names})\b)", "rust_", events))


def changes(before, tree):
    """{name: text} of what differs in a tree from these texts; nothing in place of the text of a file that is gone."""
    after = contents(tree)
    return {name: after.get(name) for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)}


def contents(tree):
    """{name: text} of all files below a folder but git's own."""
    return {str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*")
            if path.is_file() and ".git" not in path.relative_to(tree).parts}


def owners(listed, names):
    """{name: the row of the list that it belongs to}: the one of the longest glob that matches."""
    globs = {glob: row for row in listed for glob in row["files"]}
    found = {name: max((glob for glob in globs if fnmatch.fnmatchcase(name, glob)), key=len, default=None) for name in names}
    if lost := [name for name, glob in found.items() if glob is None]:
        raise say.LabError(f"{lost[0]} belongs to no patch: {LIST} must name it in one")
    if idle := globs.keys() - found.values():
        raise say.LabError(f"{LIST}: no file belongs to {sorted(idle)[0]}")
    return {name: globs[glob] for name, glob in found.items()}


def message(row):
    """The message of a patch, in git's format."""
    return f"{row['subject']}\n\n{row['body'].strip()}\n"


class Repository:
    """A git repository whose commits are all by one person at the time of this checkout's last commit, so equal input gives equal patches."""

    def __init__(self, folder, sender):
        self.folder = folder
        name, address = sender.removesuffix(">").rsplit(" <", 1)
        when = proc.output("git", "-C", ROOT, "log", "-1", "--format=%cI").strip()
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
               for what, value in (("NAME", name), ("EMAIL", address), ("DATE", when))}
        self.environment = proc.environment(**who, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
        folder.mkdir(exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=series")

    def git(self, *arguments, **options):
        """The output of a git command."""
        done = subprocess.run(["git", "-C", str(self.folder), *map(str, arguments)], env=self.environment, text=True,
                              capture_output=True, **options)
        if done.returncode:
            raise say.LabError(f"git {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def commit(self, texts, message):
        """Commit a change of files, as `put` makes it."""
        put(self.folder, texts)
        self.git("add", "--all", "--force", "--pathspec-from-file=-", input="\n".join(texts))
        self.git("commit", "--quiet", "--cleanup=verbatim", "--file=-", input=message)


def put(tree, texts):
    """Give a tree files with these texts; those without a text go."""
    for name, text in texts.items():
        path = tree / name
        # Never into a file that another tree has, too.
        path.unlink(missing_ok=True)
        if text is not None:
            proc.write(path, text)


def _replace(tree, name, old, new, times=1):
    text = (tree / name).read_text()
    if text.count(old) != times:
        raise say.LabError(f"{name} has no `{old.strip().splitlines()[0]}` where the series changes it, or several")
    (tree / name).write_text(text.replace(old, new))


def _maintained():
    """The lines of MAINTAINERS for our files: folders that are ours alone, and the others one by one or by a common beginning."""
    found = {PAGE, "drivers/android/*.rs", "drivers/android/*rust_binder*"}
    for name in install.files():
        parts = name.split("/")
        if name.startswith("drivers/android/"):
            found |= {f"drivers/android/{parts[2]}/"} if len(parts) > 3 else set()
        elif name.startswith("rust/kernel/"):
            found.add(f"rust/kernel/{parts[2].removesuffix('.rs')}*")
        else:
            found.add(name)
    return sorted(found)


def _from_git():
    """The author of this checkout's git, if there is one."""
    done = subprocess.run(["git", "-C", str(ROOT), "var", "GIT_AUTHOR_IDENT"], text=True, capture_output=True)
    found = re.match(r"(.*>) ", done.stdout)
    if not found:
        raise say.LabError("the sender is unknown: make patches FROM='Jane Doe <jane@example.org>'")
    return found[1]
