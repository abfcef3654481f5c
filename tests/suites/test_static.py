# SPDX-License-Identifier: GPL-2.0
"""Stages without a guest: checks of the sources, host tests, litmus tests, the patch series."""

import pytest
from conftest import suites
from lab import check, host_tests, litmus, patch_suite, port, source
from stages import DRIVER, stage


@pytest.mark.parametrize("name", [pytest.param(name, marks=stage(*inputs, takes=takes)) for name, (_, inputs, takes) in check.CHECKS.items()])
def test_check(tally, name):
    check.one(tally, name, check.CHECKS[name][0])


@pytest.mark.parametrize("folder", [pytest.param(".", marks=stage("tools/", "tests/contract/", "tests/uapi/", "include/", "Cargo.toml",
                                                                 "Cargo.lock", takes=60)),
                                    pytest.param("tests/host", marks=stage(*check.ROOMS, takes=40)),
                                    pytest.param("tests/loom", marks=stage("rust/kernel/", "tests/host/", "tests/loom/", takes=30)),
                                    pytest.param("tests/model", marks=stage(*check.ROOMS, "tests/model/", takes=40))])
def test_cargo(tally, folder):
    host_tests.of_crates(tally, folder)


@stage("tests/litmus/", "tools/lab/litmus.py", takes=5)
def test_litmus(tally):
    litmus.run(tally)


@stage("packaging/patches/", "tools/lab/install.py", "tools/lab/patches.py", *DRIVER, takes=10)
def test_patches(tally):
    patch_suite.quick_suite(tally)


@stage("tools/lab/port.py", "tools/lab/install.py", "docs/patches.md", *DRIVER, takes=15)
def test_kernel_report(tally, tmp_path):
    """The pinned tree fits, and an empty one lacks each struct of the table."""
    (tmp_path / "Makefile").write_text("VERSION = 7\nPATCHLEVEL = 3\n")
    lost = {name for kind, name, *_ in port.findings(source.tree(), tmp_path) if kind == "structs"}
    tally.nothing_wrong("kernel report", [*port.findings(source.tree(), source.tree()), *(port.structs().keys() - lost)])


def test_passed_tests_are_added_up_by_suite_guest_and_driver():
    rows = [("contract um rust, one CPU, half 1", 528, 0), ("contract um rust lsm=selinux", 161, 0), ("contract um c, two CPUs", 43, 0),
            ("load um c 5 s --read-logs", 1, 0), ("client gbinder: c and rust alike", 1, 0), ("tools/lab/test_bench.py::test_x", 1, 0)]
    assert suites(rows) == {("contract", "um"): [689, 43, 0, 0], ("load", "um"): [0, 1, 0, 0], ("client", ""): [0, 0, 0, 1], ("tools/lab", ""): [0, 0, 0, 1]}
