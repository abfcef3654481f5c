# SPDX-License-Identifier: GPL-2.0
"""Some of the tests that the kernel and the crate libublk have for ublk; `make -C block selftests` runs all."""

import pytest

import parts
import suites

# These take a few seconds each.
_SOME = {"selftests": ("generic_03", "generic_10", "generic_13", "generic_16", "integrity_01", "loop_02", "loop_04", "loop_07", "part_01", "stripe_06"),
         "libublk": ("basic-integration::test_ublk_null", "basic-integration::test_ublk_ramdisk", "basic-integration::test_ublk_update_size")}


@pytest.mark.parametrize("title", suites.SUITES)
def test_some(title):
    found = suites.SUITES[title](parts.modules("ublk_drv"), _SOME[title])
    table = suites.expected(title)
    assert {name: outcome.result for name, outcome in found.items()} == {name: table[name] for name in _SOME[title]}


def test_tables_have_all_tests():
    assert suites.expected("selftests").keys() == set(suites.shell_tests())
    assert suites.expected("libublk").keys() == set(suites.rust_tests(parts.libublk()))
