# SPDX-License-Identifier: GPL-2.0
"""Valid traffic among many processes: nothing may be lost, doubled or refused."""

from lab import load, stock
from stages import CONTRACT, DRIVER, stage


@stage(*DRIVER, *CONTRACT, takes=30, both_cpus=True)
def test_load_with_kills_and_freezing(tally):
    load.run_load(tally, "um", "rust", 10, "--kill", "--freeze", "--pressure", "--read-logs", "--tolerate",
                  "--processes", "10", "--callers", "2")


@stage(*CONTRACT, takes=20, both_cpus=True)
def test_load_on_c(tally):
    load.run_load(tally, "um", "c", 5, "--read-logs", "--tolerate")


@stage(*CONTRACT, "drivers/android/calls/", takes=20)
def test_load_at_a_pace(tally):
    """On an emulated CPU whose time is its instructions no call may be refused, however busy the host is."""
    load.run_load(tally, stock.NAMES[0], "rust", 1, "--pace", "5000", "--objects", "0", icount=True)


@stage(*DRIVER, *CONTRACT, takes=15, both_cpus=True)
def test_random_commands(tally):
    """A slice of `make torture ONLY=fuzz`."""
    load.fuzz(tally, "um", 1, 12)
