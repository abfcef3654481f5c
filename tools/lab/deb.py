# SPDX-License-Identifier: GPL-2.0
"""Debian packages: the driver as source for DKMS, and the tools."""

import email.utils
import re
import shutil
import subprocess

from . import packages, proc, programs, say
from .versions import BUILD, PINNED, ROOT

OUT = BUILD / "deb"
TOOLS = ("tools/binderctl", "tools/binder-bench")


def build():
    """Make the packages from this tree, and have lintian look at them; their paths."""
    packages.ensure("rust", "deb")
    tree = _tree(OUT)
    proc.logged("building the packages", "deb", ["dpkg-buildpackage", "--build=binary", "--no-sign"], cwd=tree,
                env=proc.environment())
    proc.output("rm", "-rf", tree)
    found = sorted(OUT.glob("*.deb"))
    _lint(found)
    return found


def build_next(version, edits):
    """The path of the driver's package, made of a later version of its source. `edits`: (old text, new text) by file."""
    packages.ensure("rust", "deb")
    tree = _tree(OUT / "next")
    for name, (old, new) in edits.items():
        text = (tree / name).read_text()
        if text.count(old) != 1:
            raise say.LabError(f"{name} has {text.count(old)} times {old!r}, which the edit for a later version replaces once")
        (tree / name).write_text(text.replace(old, new))
    log = tree / "debian/changelog"
    log.write_text(_entry(version) + "\n" + log.read_text())
    proc.logged("building the package of a later version", "deb-next",
                ["dpkg-buildpackage", "--build=all", "--no-sign"], cwd=tree, env=proc.environment())
    proc.output("rm", "-rf", tree)
    [found] = (OUT / "next").glob("*.deb")
    return found


def _tree(out):
    """The source of the packages with the tools, in the layout of Debian's programs, alone in the folder `out`."""
    made = [programs.build(crate, profile="release") for crate in TOOLS]
    tree = out / "tree"
    proc.output("rm", "-rf", out)
    tree.mkdir(parents=True)
    documents = (ROOT / "packaging/debian/rust-binder-dkms.docs").read_text().split()
    for name in ("drivers/android", "include", "rust", "packaging", *documents):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        proc.output("cp", "-a", ROOT / name, tree / name)
    (tree / "packaging/debian").rename(tree / "debian")
    (tree / "debian/changelog").write_text(_entry(PINNED["project"]["version"]))
    (tree / "programs").mkdir()
    for program in made:
        shutil.copy2(program, tree / "programs")
    return tree


def _entry(version):
    """An entry of Debian's changelog, of the time of this checkout's last commit; files of a release's archive have that time."""
    who = re.search(r"^Maintainer: (.*)", (ROOT / "packaging/debian/control").read_text(), re.M)[1]
    is_checkout = (ROOT / ".git").exists()
    when = proc.output("git", "-C", ROOT, "log", "-1", "--format=%cD").strip() if is_checkout else email.utils.formatdate((ROOT / "versions.toml").stat().st_mtime)
    return f"rust-binder ({version}) unstable; urgency=medium\n\n  * Version {version}.\n\n -- {who}  {when}\n"


def _lint(found):
    done = subprocess.run(["lintian", "--allow-root", "--display-info", "--pedantic", "--tag-display-limit", "0",
                           # Debian 13's lintian has no tag of one name in our overrides.
                           "--suppress-tags", "alien-tag", "--fail-on", "error,warning,info,pedantic", *found], text=True,
                          capture_output=True, env=proc.environment())
    if done.returncode:
        raise say.LabError("lintian complains:\n" + done.stdout + done.stderr)
    for path in found:
        print(path.relative_to(ROOT))
