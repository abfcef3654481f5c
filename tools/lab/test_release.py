# SPDX-License-Identifier: GPL-2.0
"""`make release` in a clone, with its slow parts replaced."""

import email.utils
import subprocess

import pytest

from . import deb, proc, release, say
from .versions import ROOT

NAME = f"rust-binder-{release.VERSION}"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A clone that a release is made of."""
    clone = tmp_path / "clone"
    build = clone / "build"
    proc.output("git", "clone", "-q", ROOT, clone)
    monkeypatch.setattr(release, "ROOT", clone)
    monkeypatch.setattr(release, "BUILD", build)
    monkeypatch.setattr(release, "OUT", build / "release")
    monkeypatch.setattr(release.patches, "run", lambda sender, flavour: (build / "patches" / flavour).mkdir(parents=True))
    monkeypatch.setattr(release.deb, "build", lambda: [clone / "README.md"])
    monkeypatch.setattr(release.bench_run, "run", lambda parts: 0)
    monkeypatch.setattr(release.doc, "run", lambda: [(build / name).mkdir() for name in ("report", "doc")])
    return clone


def test_the_archive_has_every_file_and_works_without_git(tree, tmp_path, monkeypatch):
    release.run()
    proc.output("tar", "-C", tmp_path, "-xf", release.OUT / f"{NAME}.tar.gz")
    unpacked = tmp_path / NAME
    found = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if not path.is_dir()}
    assert found == set(proc.output("git", "-C", tree, "ls-files").splitlines())
    for words, wanted in (("help",), "make TARGET"), (("help", "release"), "--from"):
        done = subprocess.run(["make", "-C", unpacked, *words], text=True, capture_output=True, check=True, env=proc.environment())
        assert wanted in done.stdout
    monkeypatch.setattr(deb, "ROOT", unpacked)
    entry, [seconds] = deb._entry(release.VERSION), proc.output("git", "-C", tree, "log", "-1", "--format=%ct").split()
    assert entry.startswith(f"rust-binder ({release.VERSION}) ") and email.utils.formatdate(int(seconds)) in entry


def test_every_part_has_its_sum(tree):
    release.run()
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=release.OUT, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    listed = {line.removesuffix(": OK") for line in done.stdout.splitlines()}
    assert listed == {path.name for path in release.OUT.iterdir() if path.is_file()} - {"SHA256SUMS"}
    assert {f"{NAME}.tar.gz", "CHANGES.md"} | {f"{NAME}-patches-{flavour}.tar.gz" for flavour in release.patches.FLAVOURS} <= listed
    assert (release.OUT / "CHANGES.md").read_text().startswith(f"## {release.VERSION}")


def test_nothing_uncommitted_is_released(tree):
    (tree / "forgotten").touch()
    with pytest.raises(say.LabError, match="forgotten"):
        release.run()


def test_a_version_needs_an_entry():
    with pytest.raises(say.LabError, match="no entry `## 1.0`"):
        release.changes("## 1.0\n\n## 0.9\n\n- A driver.\n", "1.0")
