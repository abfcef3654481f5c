# SPDX-License-Identifier: GPL-2.0
"""Which of Debian's kernels is taken of a suite."""

import pytest

from . import deb_test, say, stock


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


@pytest.mark.parametrize("later, names, release, then", [
    ({}, ["7.2.13+deb14-amd64", "7.2.14+deb14-amd64"], "7.2.14+deb14-amd64", None),
    ({"later": "7.3"}, ["7.2.12+deb13-amd64", "7.3.5+deb13-amd64", "7.3.5+deb13-cloud-amd64"], "7.2.12+deb13-amd64", "7.3.5+deb13-amd64"),
    ({}, ["7.4.1-amd64"], None, None),
])
def test_kernels_of_the_machines_that_packages_are_tried_on(monkeypatch, later, names, release, then):
    asked = []
    monkeypatch.setattr(deb_test.debian, "Suite", lambda state, name: asked.append(name) or Suite(*(f"linux-headers-{one}" for one in names)))
    pin = {"suites": ["old", "new"], "series": "7.2", **later}
    if release:
        assert deb_test.releases(pin) == {"suites": ["old", "new"], "release": release, **({"later": then} if then else {})}
    else:
        with pytest.raises(say.LabError, match=r"no headers of Linux 7.2 amd64 .*change \[machine\] of versions.toml"):
            deb_test.releases(pin)
    assert asked == ["new"]
