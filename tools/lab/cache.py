# SPDX-License-Identifier: GPL-2.0
"""Content-keyed cache outside the tree, safe under interruption and parallel use.

An entry is a file or folder whose name holds a hash of everything that went into it. It is made under a temporary name and renamed when
complete (`entry`). If the contents contain their own path, it is made in place and stamped when complete (`in_place`). A lock file for each
entry keeps two sessions from making it at once.
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
    """The folder of the entries."""
    chosen = os.environ.get("RUST_BINDER_CACHE")
    if not chosen:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        chosen = os.path.join(base, "rust-binder")
    return pathlib.Path(chosen).absolute()


def key(*inputs):
    """A short name for a set of inputs; equal inputs give equal keys."""
    text = json.dumps(inputs, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def content(*paths):
    """The hash of the contents of files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def need_space(gigabytes, what, begun=None):
    """Fail before a long step rather than in the middle of it. `begun`: the folder of an
    interrupted step; its files count as a part of the needed space."""
    root().mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(root()).free / 1e9
    if free + (size_of(begun) / 1e9 if begun else 0) < gigabytes:
        raise say.LabError(f"{what} needs {gigabytes} GB in {root()}, {free:.1f} GB are free: free some, or set RUST_BINDER_CACHE "
                           "to a folder on a larger disk")


def size_of(path):
    """The bytes of the disk that a file takes, or all below a folder; 0 if there is none."""
    size = 0
    for one in [path, *(path.rglob("*") if path.is_dir() else ())]:
        # Another process may be building in it.
        with contextlib.suppress(FileNotFoundError):
            size += one.lstat().st_blocks * 512
    return size


def holder(path):
    """The process that holds a lock on a file, for messages; empty if no process does."""
    try:
        file = path.stat()
        locks = [line.split() for line in pathlib.Path("/proc/locks").read_text().splitlines()]
    except FileNotFoundError:
        return ""
    # NUMBER: KIND MODE ACCESS PID MAJOR:MINOR:INODE ...; one that waits has an arrow behind its number.
    wanted = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    held = [words[4] for words in locks if words[1] != "->" and words[5] == wanted]
    if not held:
        return ""
    with contextlib.suppress(OSError):
        return f"process {held[0]} ({pathlib.Path('/proc', held[0], 'comm').read_text().strip()})"
    return f"process {held[0]}"


@contextlib.contextmanager
def lock(name):
    """Hold the lock of `name`; while waiting, print the process that holds it."""
    path = root() / "locks" / (name.replace("/", "_") + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say.note(f"waiting for {holder(path) or 'another session'}, which makes {name}")
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
