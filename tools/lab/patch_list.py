# SPDX-License-Identifier: GPL-2.0
"""The patches of the series, as packaging/patches/series.toml lists them, and which of them each file of the driver belongs to.

    name, title, message    what it is called here, and there; the message is wrapped by us
    files                   names and globs of files that tools/lab/install.py lays into a tree; a glob leaves out what another
                            patch names by its whole name
    linked                  until that patch its C files are compiled, and not linked: what they call comes with it
    replace, beside         what its message says more in that flavour alone
    flavours                of which flavours of the series it is a part; all, if it does not say
"""

import dataclasses
import fnmatch
import textwrap
import tomllib

from . import say
from .versions import ROOT

FOLDER = ROOT / "packaging/patches"
LIST = "packaging/patches/series.toml"
FLAVOURS = ("replace", "beside")
_WIDTH = 72
_KEYS = {"name", "title", "message", "files", "linked", "flavours", *FLAVOURS}


@dataclasses.dataclass(frozen=True)
class Patch:
    """One patch; `files` are those that it brings."""

    name: str
    title: str
    message: str
    files: tuple = ()
    linked: str = ""

    def text(self):
        """The message as git wants it."""
        paragraphs = [textwrap.fill(" ".join(one.split()), _WIDTH, break_on_hyphens=False, break_long_words=False)
                      for one in self.message.strip().split("\n\n")]
        return "\n\n".join([self.title, *paragraphs]) + "\n"


def series(flavour, files):
    """The patches of a flavour in their order. Every one of `files`, which are laid into a tree, belongs to one of them."""
    rows = [row for row in read() if flavour in row.get("flavours", FLAVOURS)]
    owners = owned(rows, files)
    return [Patch(row["name"], row["title"], row["message"].rstrip() + "\n\n" + row.get(flavour, ""),
                  tuple(file for file in files if owners[file] == row["name"]),
                  row.get("linked", "")) for row in rows]


def read(text=None):
    """The rows of the list, checked for words that nothing reads."""
    rows = tomllib.loads(text if text is not None else (ROOT / LIST).read_text())["patch"]
    names = [row.get("name") for row in rows]
    for row in rows:
        if unknown := row.keys() - _KEYS:
            raise say.LabError(f"{LIST}: nothing reads `{sorted(unknown)[0]}` of patch {row.get('name')}")
        if lacking := {"name", "title", "message"} - row.keys():
            raise say.LabError(f"{LIST}: patch {row.get('name')} has no `{sorted(lacking)[0]}`")
        if names.count(row["name"]) > 1:
            raise say.LabError(f"{LIST}: two patches are called {row['name']}")
        if row.get("linked", row["name"]) not in names:
            raise say.LabError(f"{LIST}: patch {row['name']} is linked with {row['linked']}, which there is not")
    return rows


def owned(rows, files):
    """Which patch each file belongs to. Exactly one has to be named for each, and each name and glob has to be of a file."""
    owners, used = {}, set()
    for file in files:
        found = _owners(rows, file, used)
        if len(found) != 1:
            what = f"belongs to {len(found)} patches, {' and '.join(found)}" if found else "belongs to no patch"
            raise say.LabError(f"{file} {what}: {LIST} has to name it in one patch, the one that readers need it in")
        owners[file] = found[0]
    for row in rows:
        for glob in row.get("files", ()):
            if (row["name"], glob) not in used:
                raise say.LabError(f"{LIST}: {glob} of patch {row['name']} is no file of the driver")
    return owners


def _owners(rows, file, used):
    by_name, by_glob = [], []
    for row in rows:
        for glob in row.get("files", ()):
            if glob == file:
                by_name.append(row["name"])
                used.add((row["name"], glob))
            elif "/".join(file.split("/")[:-1]) == "/".join(glob.split("/")[:-1]) and fnmatch.fnmatchcase(file, glob):
                by_glob.append(row["name"])
                used.add((row["name"], glob))
    return by_name or by_glob
