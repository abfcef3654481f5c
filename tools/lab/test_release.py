# SPDX-License-Identifier: GPL-2.0
"""`make release` in a clone, with its slow parts replaced."""

import email.utils

import pytest

from . import deb, proc, release, say
from .versions import ROOT

NAME = f"rust-binder-{release.VERSION}"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A clone that a release is made of."""
    clone, build = tmp_path / "clone", tmp_path / "clone/build"
    proc.output("git", "clone", "-q", ROOT, clone)
    for name, folder in ("ROOT", clone), ("BUILD", build), ("OUT", build / "release"):
        monkeypatch.setattr(release, name, folder)
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
    assert "--from" in proc.output("make", "-C", unpacked, "help", "release")
    monkeypatch.setattr(deb, "ROOT", unpacked)
    entry, seconds = deb._entry(release.VERSION), int(proc.output("git", "-C", tree, "log", "-1", "--format=%ct"))
    assert entry.startswith(f"rust-binder ({release.VERSION}) ") and email.utils.formatdate(seconds) in entry


def test_every_part_has_its_sum(tree):
    release.run()
    summed = proc.output("sh", "-c", f"cd {release.OUT} && sha256sum --check SHA256SUMS").replace(": OK", "").splitlines()
    assert set(summed) == {path.name for path in release.OUT.iterdir() if path.is_file()} - {"SHA256SUMS"}
    assert {f"{NAME}.tar.gz", "README.md", *(f"{NAME}-patches-{flavour}.tar.gz" for flavour in release.patches.FLAVOURS)} <= set(summed)
    assert (release.OUT / "CHANGES.md").read_text().startswith(f"## {release.VERSION}")


def test_no_release_of_uncommitted_files_or_without_an_entry(tree):
    (tree / "forgotten").touch()
    with pytest.raises(say.LabError, match="forgotten"):
        release.run()
    with pytest.raises(say.LabError, match="no entry `## 1.0`"):
        release.changes("## 1.0\n\n## 0.9\n\n- A driver.\n", "1.0")
