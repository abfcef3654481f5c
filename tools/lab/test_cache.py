# SPDX-License-Identifier: GPL-2.0
"""An entry of the cache after an interruption, and the room that a step needs."""

import subprocess
import sys
import types

import pytest

from . import cache, packages, say


def test_an_entry_is_made_once_and_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path))

    def interrupted(part):
        part.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.entry("kernel/one", interrupted)
    assert not (tmp_path / "kernel/one").exists()
    assert cache.entry("kernel/one", lambda part: part.write_bytes(bytes(3_000_000))).stat().st_size == 3_000_000
    assert cache.entry("kernel/one", interrupted) == tmp_path / "kernel/one"


def test_an_entry_made_in_place_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path))
    made = []

    def make(folder):
        made.append(folder)
        (folder / str(len(made))).touch()
        if len(made) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.in_place("stock/one", make)
    for _ in range(2):
        assert sorted(path.name for path in cache.in_place("stock/one", make).iterdir()) == [".complete", "1", "2"]


def test_a_step_needs_room_less_what_an_interrupted_run_has_left(tmp_path, monkeypatch):
    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path))
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun/half").write_bytes(bytes(4_000_000))
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: types.SimpleNamespace(free=1e9))
    with pytest.raises(say.LabError, match="building needs 1.003 GB in .*, 1.0 GB are free: free some, or set RUST_BINDER_CACHE"):
        cache.need_space(1.003, "building")
    cache.need_space(1.003, "building", tmp_path / "begun")


def test_apt_waits_for_who_holds_a_package_lock_and_names_it(tmp_path, monkeypatch, capsys):
    path = tmp_path / "lock"
    path.touch()
    locking = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read(1)"
    with subprocess.Popen([sys.executable, "-c", locking, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        monkeypatch.setattr(packages, "_LOCKS", (tmp_path / "none", path))
        monkeypatch.setattr(packages.time, "sleep", lambda _: holder.communicate(b"x"))
        monkeypatch.setattr(packages.proc, "logged", lambda *_, **__: say.note(f"apt runs beside {cache.holder(path) or 'nobody'}"))
        packages._apt("installing", ["apt-get"])
    said = capsys.readouterr().out
    assert f"waiting for process {holder.pid} (python" in said and "apt runs beside nobody" in said
