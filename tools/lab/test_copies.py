# SPDX-License-Identifier: GPL-2.0
"""What the copy has that cargo builds from: cargo finds by the times of files what has changed."""

import os
import time

from . import programs

DAY = 86400


def put(path, text, days=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - days * DAY,) * 2)


def test_only_what_differs_is_written(tmp_path, monkeypatch):
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    for name in ("Cargo.toml", "tools/a/src/main.rs", "tools/a/target/debug/a", "tests/b.rs", "docs/other.md"):
        put(tree / name, "one")
    monkeypatch.setattr(programs, "ROOT", tree)
    programs.copy_into(copy)
    names = sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file())
    assert names == ["Cargo.toml", "tests/b.rs", "tools/a/src/main.rs"]
    for name in names:
        os.utime(copy / name, (time.time() - 5 * DAY,) * 2)
    (tree / "tests/b.rs").unlink()
    # As in a checkout that is older than what was built last.
    put(tree / "Cargo.toml", "another", 9)
    programs.copy_into(copy)
    assert not (copy / "tests/b.rs").exists()
    assert (copy / "Cargo.toml").read_text() == "another"
    assert (copy / "Cargo.toml").stat().st_mtime > time.time() - 60
    assert (copy / "tools/a/src/main.rs").stat().st_mtime < time.time() - 4 * DAY
