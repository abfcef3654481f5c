# SPDX-License-Identifier: GPL-2.0
"""What GoogleTest programs said in a guest, read line by line, so that a crash loses only one test."""

import re

_BEGIN = re.compile(r"^@@ begin (.*)$")
_END = re.compile(r"^@@ end (\d+)$")
_TEST = re.compile(r"^\[ *(RUN|OK|FAILED|SKIPPED) *\] ([\w/.]+)(?: \(\d+ ms\)|,.*\(\d+ ms\))?\s*$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OUTCOMES = {"RUN": "unfinished", "OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}


def parse(output):
    """{command line: {test: passed, failed, skipped or unfinished}} of all programs that began.

    A program without tests of its own is one test, named like the program, that passes with status 0.
    """
    programs, current = {}, None
    for line in output.splitlines():
        line = _COLOUR.sub("", line).rstrip()
        begin, end = _BEGIN.match(line), _END.match(line)
        if begin:
            current = programs[begin.group(1)] = {}
        elif end and current is not None:
            _finish(programs, current, int(end.group(1)))
            current = None
        elif current is not None and (found := _TEST.match(line)):
            what, test = found.groups()
            # The summary names failures again: it changes nothing.
            if what == "RUN" or current.get(test) == "unfinished":
                current[test] = _OUTCOMES[what]
    return programs


def _finish(programs, tests, status):
    if not tests:
        command = next(c for c, t in programs.items() if t is tests)
        tests[command.split()[0]] = "failed" if status else "passed"
    elif status and all(outcome in ("passed", "skipped") for outcome in tests.values()):
        # Something failed outside of the tests, in the environment's tear-down for one.
        tests["(exit status)"] = "failed"
