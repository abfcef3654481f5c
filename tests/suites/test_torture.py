# SPDX-License-Identifier: GPL-2.0
"""`make torture`: the long runs outside `make test`. ONLY= chooses by name."""

import os

import pytest
from lab import aosp, contract, deb_test, kernel, load, modules, mutants, patch_suite, stock
from stages import stage

UM, DEBIAN = "um", stock.NAMES[0]
OTHERS = (*stock.NAMES, *kernel.FOREIGN)


def option(name, usual):
    """NAME=VALUE of `make torture`."""
    return int(os.environ.get(f"TORTURE_{name}") or usual)


@stage(torture=True)
def test_mutants(tally):
    failed = mutants.run(option("SEED", 1), option("COUNT", 150))
    tally.add("mutants", 1, failed)


@stage(torture=True)
def test_load(tally):
    load.run_load(tally, UM, "rust", option("SECONDS", 600), "--kill", "--freeze", "--pressure", "--read-logs", "--tolerate",
                  "--seed", str(option("SEED", 1)))


@stage(torture=True)
def test_fuzz(tally):
    tally.one("fuzz", not load.fuzz(UM, option("SEED", 1), option("COUNT", 300)))


@stage(torture=True)
def test_32_bit(tally):
    for driver in ("rust", "c"):
        contract.suite(tally, DEBIAN, driver, width=32)


@pytest.mark.parametrize("name", OTHERS)
@stage(torture=True)
def test_guest(tally, name):
    """Contract, layouts, the watch over the log, loads and unloads on other kernels and architectures."""
    for driver in ("rust", "c") if kernel.build(name).has_c else ("rust",):
        contract.suite(tally, name, driver)
    modules.layouts(tally, name)
    for what in ("pages", *kernel.GUESTS[name].watched):
        modules.watched(tally, name, what)
    modules.cycles(tally, name, 25)
    modules.unloading(tally, name)


@stage(torture=True)
def test_aosp(tally):
    tally.one("aosp", not aosp.run(os.environ.get("TORTURE_GUEST") or UM, "rust"))


@stage(torture=True)
def test_packages(tally):
    tally.one("packages on Debian machines", not deb_test.run())


@stage(torture=True)
def test_patches_built(tally):
    patch_suite.built(tally)
