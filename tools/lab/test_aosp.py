# SPDX-License-Identifier: GPL-2.0
"""What is read from the output of GoogleTest programs."""

import pytest

from . import aosp

GREEN, RED, END = "\x1b[0;32m", "\x1b[0;31m", "\x1b[m"


@pytest.mark.parametrize("status, outcomes, lines", [
    (1, {"Suite.Good": "passed", "Suite.Bad": "failed", "All/Suite.Left/remote": "skipped"}, f"""
{GREEN}[ RUN      ] {END}Suite.Good
{GREEN}[       OK ] {END}Suite.Good (3 ms)
[ RUN      ] Suite.Bad
{RED}[  FAILED  ] {END}Suite.Bad (12 ms)
[ RUN      ] All/Suite.Left/remote
[  SKIPPED ] All/Suite.Left/remote (0 ms)
[  PASSED  ] 1 test.
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Suite.Bad"""),
    (1, {"All/S.T/0": "failed"}, "[ RUN      ] All/S.T/0\n[  FAILED  ] All/S.T/0, where GetParam() = 7 (1 ms)"),
    (139, {"S.A": "passed", "S.B": "unfinished"}, "[ RUN      ] S.A\n[       OK ] S.A (0 ms)\n[ RUN      ] S.B"),
    # A failure outside of tests counts, and a program without tests is its status.
    (1, {"S.A": "passed", "(exit status)": "failed"}, "[ RUN      ] S.A\n[       OK ] S.A (0 ms)"),
    (0, {"program": "passed"}, "10 per second"),
    (1, {"program": "failed"}, ""),
])
def test_outcomes(status, outcomes, lines):
    assert aosp.parse(f"@@ begin program -x\n{lines}\n@@ end {status}") == {"program -x": outcomes}


def test_a_program_that_never_ended():
    assert aosp.parse("@@ begin p\n[ RUN      ] S.A\n") == {"p": {"S.A": "unfinished"}}
