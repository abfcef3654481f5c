# SPDX-License-Identifier: GPL-2.0
"""What nobody has used for some days, and leaves the cache.

Each checkout has builds of its own of our crates in a shared target folder of cargo, and cargo removes none of them. Entries
are there for one set of inputs, and stay when these change.
"""

import re
import shutil
import time

from . import cache, say

DAY = 86400
# So long a build stays that nothing has read or written.
KEPT_DAYS = 3
# So many checkouts of a crate keep what shortens their next build; for one more, that is a build from the start.
KEPT_INCREMENTAL = 4
# How often a target folder is looked through.
EVERY = DAY / 4

# Cargo's names of what belongs to one build of one crate: NAME-HASH, with an extension or without.
_UNIT = re.compile(r"-([0-9a-f]{16})(?:\.|$)")
# Where they are, in the folder of a profile.
_PLACES = ("deps", ".fingerprint", "build", "examples")


def target_folder(folder):
    """Remove old builds from a target folder of cargo, now and then. Whoever calls holds its lock alone.

    A build goes as a whole, so that cargo finds it whole or not at all: then it builds it again.
    """
    stamp = folder / ".pruned"
    if not folder.exists() or stamp.exists() and time.time() - stamp.stat().st_mtime < EVERY:
        return
    for profile in sorted({path.parent for path in folder.glob("**/.fingerprint")}):
        _units(profile, time.time() - KEPT_DAYS * DAY)
        _incremental(profile / "incremental", time.time() - KEPT_DAYS * DAY)
    stamp.touch()


def _units(profile, oldest):
    """Remove the builds of one profile that nothing has used since a time."""
    units = {}
    for place in _PLACES:
        for path in (profile / place).glob("*"):
            if found := _UNIT.search(path.name):
                units.setdefault(found[1], []).append(path)
    for paths in units.values():
        if max(map(_used, paths)) < oldest:
            for path in paths:
                _remove(path)


def _incremental(folder, oldest):
    """Remove what earlier compilations have left of a crate: the old, and what is too many of one name."""
    crates = {}
    for path in folder.glob("*-*"):
        crates.setdefault(path.name.rpartition("-")[0], []).append(path)
    for paths in crates.values():
        paths.sort(key=_used, reverse=True)
        for number, path in enumerate(paths):
            if number >= KEPT_INCREMENTAL or _used(path) < oldest:
                _remove(path)


def _used(path):
    """When a file, or one in a folder or below, was read or written for the last time."""
    paths = [one for one in path.rglob("*") if not one.is_dir()] if path.is_dir() else []
    return max(max(found.st_mtime, found.st_atime) for one in paths or [path] for found in [one.lstat()])


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def entries():
    """All entries of the cache: name, bytes, and days since some checkout used it."""
    found = []
    for name, used in cache.uses():
        found.append((name, cache.size_of(cache.root() / name), (time.time() - used) / DAY))
    return found


def show():
    """List the entries."""
    told = entries()
    for name, size, days in sorted(told, key=lambda entry: -entry[1]):
        if size >= 1e6:
            print(f"  {size / 1e6:>8.0f} MB  used {days:>5.1f} days ago  {name}")
    small = [size for _, size, _ in told if size < 1e6]
    print(f"  {sum(small) / 1e6:>8.0f} MB  in {len(small)} smaller ones")
    print(f"{cache.root()}; `make purge UNUSED=14` removes what no checkout has used for 14 days, `make purge` everything")


def unused(days):
    """Remove the entries that no checkout has used for so many days."""
    if days < 1:
        raise say.LabError("what was used today may be in use: UNUSED=1 or more days")
    for name, age in outdated("", days):
        print(f"removed {name}, used {age:.0f} days ago")


def outdated(beginning, days):
    """Remove the entries whose names begin so and that no checkout has used for so many days; what was removed, with its age."""
    oldest = time.time() - days * DAY
    old = [(name, (time.time() - used) / DAY) for name, used in cache.uses() if name.startswith(beginning) and used <= oldest]
    return [(name, age) for name, age in old if cache.forget(name, oldest)]
