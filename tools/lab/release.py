# SPDX-License-Identifier: GPL-2.0
"""`make release`: all that a version consists of, in build/release/VERSION (docs/releases.md)."""

import re
import shutil

from . import bench_run, deb, doc, patches, proc, say
from .versions import BUILD, PINNED, ROOT

VERSION = PINNED["project"]["version"]
OUT = BUILD / "release" / VERSION


def run(sender=None):
    """Make every part, and list the files with their sums."""
    entry = changes((ROOT / "CHANGELOG.md").read_text(), VERSION)
    if changed := proc.output("git", "-C", ROOT, "status", "--porcelain"):
        raise say.LabError(f"a release is made of what is committed: commit or remove\n{changed.rstrip()}")
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    (OUT / "CHANGES.md").write_text(entry)
    name = f"rust-binder-{VERSION}"
    proc.output("git", "-C", ROOT, "archive", f"--prefix={name}/", f"--output={OUT / name}.tar.gz", "HEAD")
    for flavour in patches.FLAVOURS:
        patches.run(sender, flavour)
        proc.output("tar", "-C", BUILD / "patches", "-czf", OUT / f"{name}-patches-{flavour}.tar.gz", flavour)
    for path in deb.build():
        shutil.copy2(path, OUT)
    if bench_run.run(("count",)):
        raise say.LabError("the measurements failed, see above")
    doc.run()
    for folder in ("report", "doc"):
        shutil.copytree(BUILD / folder, OUT / folder)
    files = sorted(path.name for path in OUT.iterdir() if path.is_file())
    (OUT / "SHA256SUMS").write_text(proc.output("sha256sum", *(OUT / file for file in files)).replace(f"{OUT}/", ""))
    print(*files, sep="\n")
    say.note(f"version {VERSION} is in {OUT.relative_to(ROOT)}; its tag: git tag -s v{VERSION}")


def changes(text, version):
    """The changelog's entry of a version."""
    found = re.search(rf"^## \[?{re.escape(version)}\]?.*?\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if not found or not found[1].strip():
        raise say.LabError(f"CHANGELOG.md has no entry `## {version}`: write what has changed for users")
    return found[0].strip() + "\n"
