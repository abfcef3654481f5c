# SPDX-License-Identifier: GPL-2.0
"""Debian packages: install what is missing, through the machine's own apt."""

import os
import shutil
import subprocess

from . import cache, proc, say
from .versions import PINNED


def ensure(*groups):
    """Install the packages of the named groups of versions.toml that are not there yet."""
    wanted = {p for group in groups for p in PINNED["packages"][group]}
    if all(map(_installed, wanted)):
        return
    with cache.lock("packages"):
        _install(sorted(p for p in wanted if not _installed(p)))


def _install(missing):
    if not missing:
        return
    become_root = _become_root(missing)
    update = [*become_root, "apt-get", "update"]
    if not os.path.isdir("/var/lib/apt/lists") or not _known(missing):
        _apt("reading the package lists", update)
    unknown = [p for p in missing if not _known([p])]
    if unknown:
        raise say.LabError(
            f"this machine's apt does not know {' '.join(unknown)}: Debian 12 with its current "
            "updates is what this project is built on (see README)"
        )
    argv = [*become_root, "apt-get", "install", "-y", "--no-install-recommends", *missing]
    title = f"installing {len(missing)} Debian packages"
    try:
        _apt(title, argv)
    except say.LabError:
        # Old lists name versions that the mirror no longer has.
        _apt("reading the package lists again", update)
        _apt(title, argv)


def _become_root(missing):
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        return ["sudo"]
    raise say.LabError(f"missing packages; as root run: apt-get install {' '.join(missing)}")


def _installed(package):
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", package], text=True, capture_output=True
    )
    return done.returncode == 0 and done.stdout.startswith("ii")


def _known(packages):
    policy = subprocess.run(
        ["apt-cache", "policy", *packages], text=True, capture_output=True, env=proc.environment()
    ).stdout
    candidates = [l for l in policy.splitlines() if l.strip().startswith("Candidate:")]
    return len(candidates) == len(packages) and not any("(none)" in l for l in candidates)


def _apt(title, argv):
    try:
        proc.logged(title, "apt", argv, env=proc.environment(DEBIAN_FRONTEND="noninteractive"))
    except say.LabError as error:
        raise say.LabError(
            f"{title} failed: is the Debian mirror reachable? `{' '.join(argv[:6])} ...` said:\n"
            + str(error).split("\n", 1)[-1]
        ) from None
