# SPDX-License-Identifier: GPL-2.0
"""Content-keyed cache outside the tree, safe under interruption and parallel use.

An entry is a file or folder whose name holds a hash of everything that went into it. It is either
made under a temporary name and renamed when complete (`entry`), or, where the contents remember
their own path, made in place and stamped when complete (`in_place`). A lock file beside each entry
keeps two sessions from making it at once.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil

from . import say


def root():
    """Where entries live; documented in README."""
    chosen = os.environ.get("RUST_BINDER_CACHE")
    if not chosen:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        chosen = os.path.join(base, "rust-binder")
    return pathlib.Path(chosen).absolute()


def key(*inputs):
    """A short name for a set of inputs; equal inputs give equal keys."""
    text = json.dumps(inputs, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def need_space(gigabytes, what):
    """Complain before a long step rather than in the middle of it."""
    where = root()
    where.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(where).free / 1e9
    if free < gigabytes:
        raise say.LabError(
            f"{what} needs {gigabytes} GB in {where}, {free:.1f} GB are free: "
            "free some, or set RUST_BINDER_CACHE to a folder on a larger disk"
        )


@contextlib.contextmanager
def lock(name):
    """Hold the lock of `name`; says so when another session has it."""
    path = root() / "locks" / (name.replace("/", "_") + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say.note(f"waiting for another session that makes {name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def entry(name, make):
    """The path of entry `name`; `make(temporary path)` fills it when it does not exist yet."""
    path = root() / name
    if path.exists():
        return path
    with lock(name):
        if path.exists():
            return path
        part = path.with_name(path.name + ".part")
        _remove(part)
        part.parent.mkdir(parents=True, exist_ok=True)
        make(part)
        part.rename(path)
    return path


def in_place(name, make):
    """Like `entry`, for contents that break when moved: an interrupted `make` is run again on them."""
    path = root() / name
    stamp = path / ".complete"
    if stamp.exists():
        return path
    with lock(name):
        if not stamp.exists():
            path.mkdir(parents=True, exist_ok=True)
            make(path)
            stamp.touch()
    return path


def purge():
    """Remove the whole cache."""
    _remove(root())


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()
