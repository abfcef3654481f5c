# SPDX-License-Identifier: GPL-2.0
"""Messages about unknown words, missing crates, and a full disk."""

import argparse
import os
import shlex
import socket
import subprocess
import time

import pytest

from . import __main__, cache, proc, programs, say
from .versions import ROOT


def make(*words):
    return subprocess.run(["make", *words], cwd=ROOT, env=proc.environment(), text=True, capture_output=True, timeout=60)


def test_what_make_is_given_reaches_a_command_as_it_is():
    said = make("-n", "test", "ONLY=it's \"so\"", "NEAR_LIMITS=1").stdout
    assert sorted(shlex.split(said)[-2:]) == ["--near-limits=1", "--only=it's \"so\""]


@pytest.mark.parametrize("command, says", [
    ("bench FUL=1", "unrecognized arguments: --ful=1"),
    ("bench ONLY=nonsense", "error: no part nonsense: there are count"),
    ("boot DRIVER=nonsense", "invalid choice: 'nonsense' (choose from 'rust', 'c', 'upstream'"),
    ("contract GUEST=nonsense", "invalid choice: 'nonsense' (choose from 'um'"),
    ("install KERNEL=/nonexistent", "error: /nonexistent is no kernel tree"),
    ("kernel KERNEL_SRC=/nonexistent", "error: /nonexistent is no kernel tree"),
    ("exec RUN=true KERNEL_SRC=/nonexistent", "error: /nonexistent is no kernel tree"),
    ("nonsense", "No rule to make target 'nonsense'"),
])
def test_an_unknown_option_ends_with_the_known_ones(command, says):
    done = make(*command.split())
    assert done.returncode == 2 and says in done.stderr


def test_parts_of_names_that_no_test_of_the_contract_has(monkeypatch):
    monkeypatch.setattr(proc, "output", lambda *argv: "deaths::one\n" if argv[-1] == "deaths::" else "")
    monkeypatch.setattr(programs, "build", lambda _: "contract")
    with pytest.raises(say.LabError, match="no test of the contract has dead::, gone in its name: `contract list`"):
        __main__._contract(argparse.Namespace(docs="", only="dead::,deaths::,gone", seed=0))
    with pytest.raises(say.LabError, match="SEED= chooses a schedule of our driver"):
        __main__._contract(argparse.Namespace(docs="", only="", seed=1, driver="c", near_limits=None))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Cargo's home, which is empty."""
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_crates_that_cannot_be_had_are_told_with_what_to_do(home):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        registry = f'registry = "sparse+http://127.0.0.1:{nobody.getsockname()[1]}/"'
        (home / "config.toml").write_text(f'[source.crates-io]\nreplace-with = "nobody"\n[source.nobody]\n{registry}\n[net]\nretry = 0\n')
        with pytest.raises(say.LabError, match="failed, see above: crates that it depends on are missing.* Check the network.* run this again"):
            # Not what this run has built already.
            programs.build.__wrapped__("tools/binderctl")


def test_what_fails_with_all_crates_is_not_the_network(home):
    (home / "crate/src").mkdir(parents=True)
    for name, text in (("src/main.rs", "not Rust"), ("Cargo.toml", '[package]\nname = "alone"\n[workspace]\n'),
                       ("Cargo.lock", 'version = 3\n[[package]]\nname = "alone"\nversion = "0.0.0"\n')):
        (home / "crate" / name).write_text(text)
    assert programs._of_missing_crates(home / "crate", "", programs.environment()) == ""


def test_a_disk_that_fills_up_meanwhile_is_told_with_what_to_do(monkeypatch, capsys):
    def fills():
        with open("/dev/full", "w") as full:
            full.write("x" * 100_000)

    monkeypatch.setattr(__main__.sys, "argv", ["lab", "purge"])
    monkeypatch.setattr(cache, "purge", fills)
    assert __main__.main() == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("No space left on device") and second.startswith("error: free space on the disk of ") and "then run this again" in second


DAY = 86400


def put(path, text, days=0.0):
    proc.write(path, text)
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
