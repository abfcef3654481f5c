# SPDX-License-Identifier: GPL-2.0
"""Whether the series of patches does what docs/patches.md says.

`quick`: `git am` takes it, the tree is then what tools/lab/install.py makes, checkpatch and get_maintainer have nothing to say.
`built`: a kernel is built after each patch, and the contract suite run on the last one.
"""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import subprocess
import tempfile

from . import cache, guest, install, kernel, packages, patch_list, patch_stages, patches, proc, programs, say, source, toolchain
from .versions import BUILD

SENDER = "Jane Doe <jane@example.org>"
GUEST = "um"
_CHECKPATCH = ("--strict", "--terse", "--no-summary", "--no-signoff")
# Each patch with a new file asks for MAINTAINERS, which have ours in a patch of their own. What user space is told stays in one piece.
_IGNORED = ("FILE_PATH_CHANGES", "NEW_TYPEDEFS", "LONG_LINE_STRING")
# As in tools/lab/check.py.
_ALSO_IGNORED = {"trace": ("OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT", "MACRO_ARG_PRECEDENCE", "MACRO_ARG_REUSE"),
                 # `source` of Kconfig names a folder and a file, among them the one that it stands in.
                 "parts": ("EMBEDDED_FILENAME",), "enable": ("EMBEDDED_FILENAME",)}
_COUNTS = re.compile(r"(\d+) passed, (\d+) failed")


def quick(flavour):
    """Complaints about the series of a flavour: none, if all is well."""
    packages.ensure("base", "patches")
    texts = patches.base()
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        made = patches.write(pathlib.Path(name) / "series", flavour, SENDER, texts)
        tree = pathlib.Path(name) / "tree"
        repository = patches.Repository(tree.mkdir() or tree, SENDER)
        repository.commit(texts, "Linux")
        taken = subprocess.run(["git", "-C", str(tree), "am", "--quiet", *map(str, made.files)], text=True, capture_output=True,
                               env=repository.environment)
        if taken.returncode:
            return [f"git am: {line}" for line in (taken.stdout + taken.stderr).splitlines()]
        wrong += differences(flavour, texts, tree)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            for found in pool.map(lambda pair: _scripts(*pair, tree / "MAINTAINERS"), zip(made.stages.patches, made.files)):
                wrong += found
        wrong += _page(tree / patch_stages.PAGE)
    return wrong


def differences(flavour, texts, tree):
    """Where a tree with the series differs from one that the driver was laid into, but for what only the series has."""
    with tempfile.TemporaryDirectory() as name:
        laid = pathlib.Path(name)
        for file, text in texts.items():
            (laid / file).parent.mkdir(parents=True, exist_ok=True)
            (laid / file).write_text(text)
        (laid / "Makefile").write_text((source.tree() / "Makefile").read_text())
        install.lay_into(laid)
        ours, theirs = _contents(laid), _contents(tree)
    return [f"{file}: {'is not in' if file not in theirs else 'is other than in' if file in ours else 'is only in'} a tree with the patches"
            for file in sorted((ours.keys() | theirs.keys()) - patch_stages.ALONE) if ours.get(file) != theirs.get(file)]


def _contents(tree):
    names = (path for path in tree.rglob("*") if path.is_file() and ".git" not in path.relative_to(tree).parts)
    left_out = {"Makefile", install.MANIFEST}
    return {str(path.relative_to(tree)): path.read_bytes() for path in names if str(path.relative_to(tree)) not in left_out}


def _scripts(patch, file, maintainers):
    """What checkpatch and get_maintainer have to say about a patch; remembered by the patch's contents."""
    tree = source.tree()
    ignored = ",".join((*_IGNORED, *_ALSO_IGNORED.get(patch.name, ())))
    check = ["perl", "scripts/checkpatch.pl", *_CHECKPATCH, "--ignore", ignored, file]
    ask = ["perl", "scripts/get_maintainer.pl", "--nogit", "--nogit-fallback", f"--mpath={maintainers}", file]
    text = re.sub(r"\A.*\n", "", file.read_text())
    key = cache.key(text, maintainers.read_text(), check[:-1], tree.name)

    def run(part):
        done = subprocess.run([str(word) for word in check], cwd=tree, text=True, capture_output=True, env=proc.environment())
        found = [line.replace(str(file), patch.name) for line in (done.stdout + done.stderr).splitlines()] if done.returncode else []
        asked = subprocess.run([str(word) for word in ask], cwd=tree, text=True, capture_output=True, env=proc.environment())
        if asked.returncode or asked.stderr.strip() or "@" not in asked.stdout:
            found.append(f"{patch.name}: get_maintainer.pl: {asked.stderr.strip() or 'knows nobody'}")
        part.write_text("".join(f"{line}\n" for line in found))

    return cache.entry(f"checkpatch/{key}", run).read_text().splitlines()


def _page(path):
    """What docutils has to say about the page for Documentation/."""
    done = subprocess.run(["rst2xml", "--report=1", "--halt=5", str(path), "/dev/null"], text=True, capture_output=True)
    return [f"{path.name}: {line}" for line in done.stderr.splitlines() if line.strip()]
