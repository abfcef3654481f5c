# SPDX-License-Identifier: GPL-2.0
"""Which stock kernel is taken of a suite."""

import unittest

from lab import say, stock


class Suite:
    """A suite whose packages are known."""

    name = "somewhere"

    def __init__(self, *names):
        self._names = names

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


if __name__ == "__main__":
    unittest.main()
