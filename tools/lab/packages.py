# SPDX-License-Identifier: GPL-2.0
"""Debian packages: install what is missing, through the machine's own apt."""

import os
import pathlib
import shutil
import subprocess
import time

from . import cache, proc, say
from .versions import PINNED

_LISTS = pathlib.Path("/var/lib/apt/lists")
# The locks of apt and dpkg, in this order. apt waits for some of them, and does not print for which process.
_LOCKS = ("/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock", "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock")


def ensure(*groups):
    """Install the packages of the named groups of versions.toml that are not there yet."""
    wanted = {p for group in groups for p in PINNED["packages"][group]}
    if all(map(_installed, wanted)):
        return
    with cache.lock("packages"):
        missing = sorted(p for p in wanted if not _installed(p))
        if missing:
            _install(missing)


def _install(missing):
    become_root = [] if os.geteuid() == 0 else ["sudo"]
    if become_root and not shutil.which("sudo"):
        raise say.LabError(f"missing packages; as root run: apt-get install {' '.join(missing)}")
    update = "reading the package lists", [*become_root, "apt-get", "update"]
    install = f"installing {len(missing)} Debian packages", [*become_root, "apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=-1", *missing]
    if not any(_LISTS.glob("*_Packages*")):
        _apt(*update)
    try:
        _apt(*install)
    except say.LabError:
        # Old lists lack packages, or name versions that the mirror no longer has.
        _apt(*update)
        _apt(*install)


def _installed(package):
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", package], text=True, capture_output=True
    )
    return done.returncode == 0 and done.stdout.startswith("ii")


def _wait():
    """Wait until no other process holds a package lock, and name the process that does."""
    told = ""
    while held := next(filter(None, (cache.holder(pathlib.Path(path)) for path in _LOCKS)), ""):
        if held != told:
            say.note(f"waiting for {held}, which holds the package lock")
        told = held
        time.sleep(1)


def _apt(title, argv):
    _wait()
    try:
        proc.logged(title, "apt", argv, env=proc.environment(DEBIAN_FRONTEND="noninteractive"))
    except say.LabError as error:
        raise say.LabError(
            f"{title} failed: is this Debian 12 with its current updates (see README), and the mirror reachable? `{' '.join(argv[:6])} ...` printed:\n"
            + str(error).split("\n", 1)[-1]
        ) from None
