# SPDX-License-Identifier: GPL-2.0
"""Binder clients of other projects: they must print the same on the C driver and on ours."""

import difflib

import pytest
from lab import clients, say
from lab.run import run
from stages import stage

UM = "um"


@pytest.mark.parametrize("name", clients.NAMES)
@stage("tests/clients/", "tools/lab/clients.py", "tools/lab/foreign.py", "drivers/android/calls/", "drivers/android/entry/", takes=30)
def test_client(tally, name):
    printed = {driver: _client(tally, name, driver) for driver in ("c", "rust")}
    different = list(difflib.unified_diff(*printed.values(), *printed, lineterm="", n=0))
    tally.nothing_wrong(f"client {name}: c and rust alike", different[:20])


def _client(tally, name, driver):
    """Run all parts of one client; what they printed."""
    printed = []
    for part in clients.parts(name):
        title = f"client {name} {UM} {driver}: {part.name}"
        result = run(title, UM, clients.job(part, driver))
        passed, failed = clients.counts(result.output)
        say.lines(*(f"    {line}" for line in clients.failures(result.output)))
        if passed + failed < part.least:
            say.lines(f"    {passed + failed} tests were run, at least {part.least} are there")
        if not failed and (not result.good or passed < part.least):
            failed = 1
        tally.add(title, passed, failed)
        printed += clients.comparable(result.output)
    return printed
