# SPDX-License-Identifier: GPL-2.0
"""The differences of our kernel tree from Debian's, trees of which no kernel is made, the
choice of Debian's kernel from a suite, and the output of a Debian machine that counts as checks."""

import os
import re

import pytest

from . import cache, deb_test, install, kernel, say, source, stock
from .versions import ROOT

KCONFIG = """config ANDROID_BINDER_IPC
	tristate "Android Binder IPC Driver"

config ANDROID_BINDER_IPC_RUST
	bool "Rust version of Android Binder IPC Driver"
	depends on RUST && MMU && NET && !ANDROID_BINDER_IPC
"""


def test_both_drivers_can_be_modules_and_other_trees_stay_what_they_are(tmp_path):
    texts = {name: "".join(old for old, _ in edits) for name, edits in source._EDITS.items()} | {source._KCONFIG: KCONFIG}
    for name, text in texts.items():
        for tree in ("other", "ours"):
            (tmp_path / tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "other" / name).write_text(text)
        os.link(tmp_path / "other" / name, tmp_path / "ours" / name)
    source._edit(tmp_path / "ours", source._EDITS)
    made = (tmp_path / "ours" / source._KCONFIG).read_text()
    assert made.count("\ttristate ") == 2 and "!ANDROID_BINDER_IPC" not in made
    assert {name: (tmp_path / "other" / name).read_text() for name in texts} == texts
    # A bool and `!= y` crash the kernel's kconfig.
    assert not re.search(r"^\tdepends .*!=", (ROOT / "drivers/android/Kconfig.rust_binder").read_text(), re.M)
    with pytest.raises(say.LabError, match="not a Linux 7.3 tree"):
        source._edit(tmp_path / "ours", source._EDITS)


@pytest.mark.parametrize("version, guest, says", [
    ("6", "um", "is Linux 6.3: the driver needs Linux 7.3"),
    ("7", "um", "lacks this driver: run tools/install-into-kernel"),
    ("7", "um-builtin", "KERNEL_SRC= needs another guest"),
    ("7", "debian-7.3", "KERNEL_SRC= needs another guest"),
])
def test_trees_of_which_no_kernel_is_made(tmp_path, version, guest, says):
    (tmp_path / "Makefile").write_text(f"VERSION = {version}\nPATCHLEVEL = 3\n")
    with pytest.raises(say.LabError, match=says):
        kernel.of_tree(guest, tmp_path)


class Suite:
    """A suite whose packages are known."""

    name = "somewhere"

    def __init__(self, *names):
        self._names = names

    def must_update(self):
        pass

    def names(self, beginning):
        return [name for name in self._names if name.startswith(beginning)]


FULL = Suite("linux-headers-7.2.9+deb13-amd64", "linux-headers-7.2.12+deb13-amd64", "linux-headers-7.2.12+deb13-cloud-amd64",
             "linux-headers-7.2.12+deb13-common", "linux-headers-7.20.1+deb13-amd64", "linux-headers-amd64")


@pytest.mark.parametrize("series, flavour, release", [
    ("7.2", "amd64", "7.2.12+deb13-amd64"),
    ("7.2.12", "cloud-amd64", "7.2.12+deb13-cloud-amd64"),
])
def test_the_newest_of_a_series_by_its_numbers(series, flavour, release):
    assert stock.newest(FULL, {"series": series, "flavour": flavour}) == release


def test_a_series_that_is_gone_says_what_is_there():
    with pytest.raises(say.LabError, match=r"somewhere has no headers of Linux 7.1 amd64 .*7.2.9\+deb13-amd64.*versions.toml"):
        stock.newest(FULL, {"series": "7.1", "flavour": "amd64"})


@pytest.mark.parametrize("names, release", [
    (["7.3.4+deb14-amd64", "7.3.5+deb14-amd64", "7.3.6+deb14-cloud-amd64"], "7.3.5+deb14-amd64"),
    (["7.4.1-amd64"], None),
])
def test_kernels_of_the_machines_that_packages_are_tried_on(monkeypatch, names, release):
    asked = []
    monkeypatch.setattr(deb_test.debian, "Suite", lambda state, name: asked.append(name) or Suite(*(f"linux-headers-{one}" for one in names)))
    pin = {"suites": ["old", "new"], "series": "7.3"}
    if release:
        assert deb_test.releases(pin) == {"suites": ["old", "new"], "release": release}
    else:
        with pytest.raises(say.LabError, match=r"no headers of Linux 7.3 amd64 .*change \[machine\] of versions.toml"):
            deb_test.releases(pin)
    assert asked == ["new"]


# The output of systemd on a terminal when a service begins.
BEGUN = "\x1b]3008;start=1;unit=lab.service\x1b\\\x1b[0m\x1b]104\x07\x1b[!p\x1bP+q6E616D65\x1b\\"


@pytest.mark.parametrize("words, good, wrong", [
    ("ok 1 - one\n# more\nnot ok 2 - two\n# why\nok 3 - three\n1..3\n@@ end 1\n", 2, "not ok 2 - two\n# why"),
    (f"{BEGUN}not ok 1 - one\nok 2 - two\n1..2\n", 1, "not ok 1 - one"),
    ("Started: ok 1 - one\nok 2 - two\n1..2\n", 1, "of 2 checks 1 are reported: 'Started: ok 1 - one\\nok 2 - two\\n1..2\\n'"),
])
def test_checks_are_counted_with_what_they_say(words, good, wrong):
    assert deb_test.checks(deb_test._plain(words)) == (good, [wrong])
