# SPDX-License-Identifier: GPL-2.0
"""Which stock kernel is taken of a suite."""

import contextlib
import io
import unittest
from unittest import mock

from lab import deb_test, say, stock


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


def wanted(series, flavour="amd64"):
    return {"series": series, "flavour": flavour}


class Newest(unittest.TestCase):
    def test_numbers_are_compared_as_numbers(self):
        self.assertEqual(stock.newest(FULL, wanted("7.2")), "7.2.12+deb13-amd64")

    def test_a_flavour_is_not_another_one(self):
        self.assertEqual(stock.newest(FULL, wanted("7.2.12", "cloud-amd64")), "7.2.12+deb13-cloud-amd64")

    def test_a_series_that_is_gone_says_what_is_there(self):
        with self.assertRaisesRegex(say.LabError, r"somewhere has no headers of Linux 7.1 amd64 .*7.2.9\+deb13-amd64.*versions.toml"):
            stock.newest(FULL, wanted("7.1"))


class Machines(unittest.TestCase):
    """The kernels of the machines that packages are tried on."""

    def releases(self, *names, later=None):
        pin = {"suites": ["old", "new"], "series": "7.2"} | ({"later": later} if later else {})
        with mock.patch.object(deb_test.debian, "Suite", return_value=Suite(*names)) as suite, \
                contextlib.redirect_stdout(io.StringIO()):
            found = deb_test.releases(pin)
        self.assertEqual(suite.call_args.args[1], "new")
        return found

    def test_what_a_suite_has_gone_on_to_is_taken(self):
        self.assertEqual(self.releases("linux-headers-7.2.13+deb14-amd64", "linux-headers-7.2.14+deb14-amd64"),
                         {"suites": ["old", "new"], "release": "7.2.14+deb14-amd64"})

    def test_so_it_is_of_the_kernel_that_comes_later(self):
        found = self.releases("linux-headers-7.2.12+deb13-amd64", "linux-headers-7.3.5+deb13-amd64",
                              "linux-headers-7.3.5+deb13-cloud-amd64", later="7.3")
        self.assertEqual((found["release"], found["later"]), ("7.2.12+deb13-amd64", "7.3.5+deb13-amd64"))

    def test_a_series_that_is_gone_says_where_it_is_wanted(self):
        with self.assertRaisesRegex(say.LabError, r"no headers of Linux 7.2 amd64 .*change \[machine\] of versions.toml"):
            self.releases("linux-headers-7.4.1-amd64")


if __name__ == "__main__":
    unittest.main()
