# SPDX-License-Identifier: GPL-2.0
"""The driver as a series of patches for a Linux tree, which `git am` takes (docs/patches.md).

The patches are made by git, in a repository that holds only the files of the tree that they change. Who sends them is told by whoever
makes them, and signs them off: nothing of that is invented here.
"""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import tempfile

from . import install, marked, patch_list, patch_stages, proc, say, source
from .versions import BUILD, ROOT

DOCUMENT = "docs/patches.md"
# The kernel sets a parameter for whoever has it first, so the series' would never be set.
_CHOICE_OF_ANDROID = "drivers/android/binder_pick.c"
_SENDER = re.compile(r"[^<>\n]*[^<>\s] <[^<>@\s]+@[^<>@\s]+>")


@dataclasses.dataclass(frozen=True)
class Series:
    """Patches that were written: their files in order, and the stages they are made of."""

    folder: pathlib.Path
    files: tuple
    stages: patch_stages.Stages


def run(sender, flavour, tree=None, docs=False):
    """Write the series into build/patches, and say what it consists of."""
    made = write(BUILD / "patches" / flavour, flavour, sender or _from_git(), base(tree, flavour))
    rows = table(made)
    say.lines(*rows)
    say.note(f"{len(made.files)} patches in {made.folder}; in your tree: git am --signoff {made.folder}/*.patch")
    if docs:
        _document(flavour, rows)


def base(tree=None, flavour="replace"):
    """{name: text} of what a tree has that the series changes: the user's, or the one that our kernels are built of as it was packed."""
    folder = pathlib.Path(tree).absolute() if tree else source.tree()
    install.must_be_kernel(folder)
    if (folder / "drivers/android/rust_binder.rs").exists():
        raise say.LabError(f"{folder} has our driver already: the patches are for a tree without it")
    if clash := next((name for name in install.files() if (folder / name).exists()), None):
        raise say.LabError(f"{folder} already has a {clash}, which the series adds: use a clean tree")
    if flavour == "beside" and (folder / _CHOICE_OF_ANDROID).exists():
        raise say.LabError(f"{folder} has {_CHOICE_OF_ANDROID}, Android's own choice of a driver, which has the parameter binder.impl: "
                           "the series for such a tree is FLAVOUR=replace")
    names = [name for name in patch_stages.touched() if not name.endswith("/")]
    for below in (name for name in patch_stages.touched() if name.endswith("/")):
        names += [str(path.relative_to(folder)) for path in sorted((folder / below).rglob("*")) if path.is_file()]
    lacking = [name for name in names if not (folder / name).is_file()]
    if lacking:
        raise say.LabError(f"{folder} has no {lacking[0]}: the patches are for a whole Linux tree")
    texts = {name: (folder / name).read_text() for name in names}
    return texts if tree else texts | {"drivers/android/Kconfig": source.untouched_kconfig()}


def write(folder, flavour, sender, texts):
    """Write the series for a tree that has these texts; the files of an earlier one go."""
    if not _SENDER.fullmatch(sender):
        raise say.LabError(f"FROM='{sender}' is no sender: it has to be like FROM='Jane Doe <jane@example.org>'")
    stages = patch_stages.Stages(flavour, texts, sender)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        repository = Repository(name, sender)
        repository.commit(texts, "Linux")
        for patch, changed in stages.trees():
            repository.commit(changed, patch.text())
        repository.git("format-patch", "--quiet", "--no-signature", "--no-renames", "--zero-commit", "--numbered", "--output-directory", folder,
                       f"HEAD~{len(stages.patches)}")
    files = tuple(sorted(folder.glob("*.patch")))
    cover = (patch_list.FOLDER / "cover-letter.txt").read_text()
    (folder / "cover-letter.txt").write_text(cover.format(count=len(files)))
    return Series(folder, files, stages)


class Repository:
    """A git repository whose commits are all by one person at the time of this checkout's last commit, so equal input gives equal patches."""

    def __init__(self, folder, sender):
        self.folder = pathlib.Path(folder)
        name, address = sender.removesuffix(">").rsplit(" <", 1)
        when = proc.output("git", "-C", ROOT, "log", "-1", "--format=%cI").strip()
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
               for what, value in (("NAME", name), ("EMAIL", address), ("DATE", when))}
        self.environment = proc.environment(**who, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
        self.git("init", "--quiet", "--initial-branch=series")

    def git(self, *arguments, **options):
        """What a command of git prints."""
        done = subprocess.run(["git", "-C", str(self.folder), *map(str, arguments)], env=self.environment, text=True,
                              capture_output=True, **options)
        if done.returncode:
            raise say.LabError(f"git {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def commit(self, texts, message):
        """A commit of files with these texts; those without a text go."""
        for name, text in texts.items():
            path = self.folder / name
            # Never into a file that another tree has, too.
            path.unlink(missing_ok=True)
            if text is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.git("add", "--all", "--force", "--pathspec-from-file=-", input="\n".join(texts))
        self.git("commit", "--quiet", "--cleanup=verbatim", "--file=-", input=message)


def table(made):
    """The series as a table: what each patch is called, how many lines it adds and removes, and when the compiler sees it."""
    later, rows = made.stages.compiled_later(), ["| # | patch | + | − | |", "|--:|---|--:|--:|---|"]
    numbers = {patch.name: number for number, patch in enumerate(made.stages.patches, 1)}
    for number, (patch, file) in enumerate(zip(made.stages.patches, made.files), 1):
        added, removed = lines(file.read_text())
        note = f"compiled with {numbers[later[patch.name]]}" if patch.name in later else ""
        if patch.linked:
            note = f"C linked with {numbers[patch.linked]}"
        rows.append(f"| {number} | {patch.title} | {added} | {removed} | {note} |")
    return rows


def lines(text):
    """How many lines a patch adds and removes, as git says below its list of files."""
    found = re.search(r"^ \d+ files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?$", text, re.M)
    return int(found[1] or 0), int(found[2] or 0)


def _from_git():
    """The sender that this checkout's git knows, if there is one."""
    done = subprocess.run(["git", "-C", str(ROOT), "var", "GIT_AUTHOR_IDENT"], text=True, capture_output=True)
    found = re.match(r"(.*>) ", done.stdout)
    if not found:
        raise say.LabError("who sends these patches? make patches FROM='Jane Doe <jane@example.org>'")
    return found[1]


def _document(flavour, rows):
    marked.put(ROOT / DOCUMENT, f"patches {flavour}", "".join(f"{row}\n" for row in rows))
    say.note(f"{DOCUMENT} has the table")
