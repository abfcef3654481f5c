# SPDX-License-Identifier: GPL-2.0
"""Which stock kernel is taken of a suite, and what is refused of it."""

import pathlib
import tempfile
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


class Prepared(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_signing_and_revisions_of_compilers_may_differ(self):
        shipped = self.write("shipped", 'CONFIG_SMP=y\nCONFIG_CC_VERSION_TEXT="gcc 14.2.0-19"\nCONFIG_OPENSSL_SUPPORTS_ML_DSA=y\n')
        ours = self.write("ours", 'CONFIG_SMP=y\nCONFIG_CC_VERSION_TEXT="gcc 14.2.0-20"\n# CONFIG_MODULE_SIG_KEY_X is not set\n')
        stock.check_configuration(shipped, ours)

    def test_another_rust_compiler_is_refused(self):
        shipped = self.write("shipped", "CONFIG_RUSTC_VERSION=108501\n")
        ours = self.write("ours", "CONFIG_RUSTC_VERSION=109601\n")
        with self.assertRaisesRegex(say.LabError, "CONFIG_RUSTC_VERSION=108501; CONFIG_RUSTC_VERSION=109601"):
            stock.check_configuration(shipped, ours)

    def test_symbols_that_the_kernel_does_not_export_are_refused(self):
        exports = self.write("exports.h", "EXPORT_SYMBOL_RUST_GPL(_RNvone);\nEXPORT_SYMBOL_RUST_GPL(_RNvtwo);\n")
        one = "0x00000000\t_RNvone\tvmlinux\tEXPORT_SYMBOL_GPL\t\n"
        stock.check_symbols(exports, self.write("all", one + one.replace("one", "two")))
        with self.assertRaisesRegex(say.LabError, "1 of 2 symbols"):
            stock.check_symbols(exports, self.write("some", one))
        with self.assertRaises(say.LabError):
            stock.check_symbols(self.write("none.h", ""), self.write("all", one))

    def test_compilers_are_those_of_the_header_package(self):
        said = ("override ARCH = x86\noverride KERNELRELEASE = 7.3.4+deb13-amd64\nCCACHE = ccache\n"
                "CC = $(if $(DEBIAN_KERNEL_USE_CCACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-14\n"
                "override CROSS_COMPILE = x86_64-linux-gnu-\n")
        self.write(".kernelvariables", said)
        self.assertEqual(stock.variables(self.folder), ["ARCH=x86", "KERNELRELEASE=7.3.4+deb13-amd64",
                                                        "CROSS_COMPILE=x86_64-linux-gnu-", "CC=x86_64-linux-gnu-gcc-14"])


if __name__ == "__main__":
    unittest.main()
