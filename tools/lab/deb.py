# SPDX-License-Identifier: GPL-2.0
"""Debian packages: the driver as source for DKMS, and the tools."""

import shutil
import subprocess

from . import packages, proc, programs, say
from .versions import BUILD, ROOT

OUT = BUILD / "deb"
TOOLS = ("tools/binderctl", "tools/binder-bench")


def build():
    """Make the packages from this tree, and have lintian look at them; their paths."""
    packages.ensure("rust", "deb")
    made = [programs.build(crate, profile="release") for crate in TOOLS]
    tree = OUT / "tree"
    proc.output("rm", "-rf", OUT)
    tree.mkdir(parents=True)
    for name in ("drivers/android", "include", "rust", "packaging", "docs/packages.md"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        proc.output("cp", "-a", ROOT / name, tree / name)
    (tree / "packaging/debian").rename(tree / "debian")
    (tree / "programs").mkdir()
    for program in made:
        shutil.copy2(program, tree / "programs")
    proc.logged("building the packages", "deb", ["dpkg-buildpackage", "--build=binary", "--no-sign"], cwd=tree,
                env=proc.environment())
    proc.output("rm", "-rf", tree)
    found = sorted(OUT.glob("*.deb"))
    _lint(found)
    return found


def _lint(found):
    done = subprocess.run(["lintian", "--allow-root", "--display-info", "--pedantic", "--tag-display-limit", "0",
                           "--fail-on", "error,warning,info,pedantic", *found], text=True,
                          capture_output=True, env=proc.environment())
    if done.returncode:
        raise say.LabError("lintian complains:\n" + done.stdout + done.stderr)
    for path in found:
        print(path.relative_to(ROOT))
