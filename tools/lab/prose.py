# SPDX-License-Identifier: GPL-2.0
"""The prose of documents and comments, as Vale finds it by the rules in configs/vale."""

import pathlib
import re
import shutil
import subprocess
import tempfile

from . import cache, foreign, proc, say
from .versions import PINNED, ROOT

_RULES = ROOT / "configs/vale"
_FOLDERS = ("docs", "drivers", "rust", "tools", "tests", "packaging", "configs", "include")
_COMMENT = re.compile(r"\s*(?:///|//!|//|/\*+|\*(?=\s|/|$)|#)(?!!|\[)\s?(.*?)(?:\*/)?\s*")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) +")
_FENCE = re.compile(r"\s*```")
# Headings, tables, figures and generated parts are no sentences.
_NO_SENTENCE = ("|", "<!--", "#", "!", "SPDX")


def complaints(root=ROOT):
    """Each sentence that breaks a rule: FILE:LINE: the words. None where Vale cannot be had, which a note reports."""
    try:
        program = vale()
    except say.LabError as error:
        say.note(f"prose is not checked: {error}")
        return []
    with tempfile.TemporaryDirectory() as folder:
        for path in _sources(root):
            made = pathlib.Path(folder, f"{path.relative_to(root)}.txt")
            proc.write(made, "\n".join(sentences(path.name, path.read_text().splitlines())) + "\n")
        done = subprocess.run([program, f"--config={_RULES / 'vale.ini'}", "--output=line", "."], cwd=folder, text=True, capture_output=True)
    if done.returncode > 1:
        raise say.LabError(f"Vale failed: {done.stdout}{done.stderr}")
    found = (line.split(":", 4) for line in done.stdout.splitlines())
    return sorted(f"{name.removesuffix('.txt')}:{line}: {words}" for name, line, _, _, words in found)


def _sources(root):
    tops = [*root.glob("*.md"), *(root / folder for folder in _FOLDERS)]
    for top in tops:
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.suffix in (".md", ".rs", ".c", ".h", ".py", ".sh") and path.is_file() and "target" not in path.parts:
                yield path


def sentences(name, lines):
    """The lines of a document, or the comments in lines of source, in their places. Code in them is a word, and other lines are empty.
    An item of a list, or an empty line, ends the sentence before it."""
    found, fenced = [], False
    for line in lines:
        if not name.endswith(".md"):
            match = _COMMENT.fullmatch(line)
            line = match[1] if match else ""
        fenced ^= bool(_FENCE.match(line))
        if fenced or _FENCE.match(line) or line.lstrip().startswith(_NO_SENTENCE) or name.endswith(".md") and line.startswith("    "):
            line = ""
        item = _ITEM.match(line)
        if (item or not line) and found and found[-1] and found[-1][-1] not in ".!?":
            found[-1] += "."
        line = line[item.end():] if item else line
        found.append(re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "Code", line)).strip())
    return found


def vale():
    """The program, compiled from the module that versions.toml names, with Debian 13's Go."""
    pin = PINNED["vale"]

    def make(part):
        work = part / "work"
        work.mkdir(parents=True)
        go = foreign.root(PINNED["go"]) / "usr/lib" / f"go-{PINNED['go']['series']}/bin/go"
        env = proc.environment() | {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false -mod=mod -modcacherw", "GOPATH": str(work / "path"), "GOCACHE": str(work / "cache")}
        (work / "go.mod").write_text(f"module fetched\n\ngo 1.20\n\nrequire {pin['module']} {pin['version']}\n")
        (work / "tools.go").write_text(f'package fetched\n\nimport _ "{pin["module"]}/cmd/vale"\n')
        proc.logged("building Vale", "vale", [go, "build", "-o", part / "vale", f"{pin['module']}/cmd/vale"], cwd=work, env=env)
        shutil.rmtree(work)

    return cache.entry(f"foreign/vale-{cache.key(pin, PINNED['go'])}", make) / "vale"
