# SPDX-License-Identifier: GPL-2.0
"""KUnit's suites of the driver: they run when a module that has them is loaded, and print to the kernel's log.

The kernel's own tools/testing/kunit parses that output.
"""

import json
import re
import subprocess
import sys
import tempfile

from . import say, source
from .versions import ROOT

# No timeouts: a test takes as long as the host's other work delays it.
UNHURRIED = ("kunit.timeout=3600", "sysctl.kernel.hung_task_timeout_secs=0")


def count(tally, log):
    """Add the suites in a kernel's log to a tally."""
    for suite, (passed, failures) in judge(log).items():
        say.lines(*(f"    {suite}: {failure}" for failure in failures))
        tally.add(f"KUnit {suite}", passed, len(failures))


def judge(log):
    """For each suite in the sources how many of its tests passed, and what failed; from a kernel's log."""
    groups = {group["name"]: group for group in _read(log)["sub_groups"]}
    suites = {}
    for name in names():
        cases = groups[name]["test_cases"] if name in groups else []
        failures = [f"{case['name']}: {case['status']}" for case in cases if case["status"] != "PASS"]
        suites[name] = (len(cases) - len(failures), failures if cases else ["was not run"])
    return suites


def _read(log):
    """The output of the kernel's reader for a log: from the start of the last suite, as the kernel has suites too."""
    starts = [at for at, line in enumerate(log) if re.search(r"^<\d+>KTAP version", line)]
    log = log[starts[-1]:] if starts else []
    reader = source.tree() / "tools/testing/kunit/kunit.py"
    with tempfile.NamedTemporaryFile("w", suffix=".log") as text, tempfile.NamedTemporaryFile() as found:
        text.write("\n".join(log) + "\n")
        text.flush()
        argv = [sys.executable, "-B", reader, "parse", f"--json={found.name}", text.name]
        done = subprocess.run([str(word) for word in argv], text=True, capture_output=True)
        result = found.read()
    if not result:
        raise say.LabError(f"kunit.py cannot read the kernel's log: {(done.stdout + done.stderr)[-500:]}")
    return json.loads(result)


def names():
    """The suites that there are."""
    sources = [*ROOT.glob("drivers/android/**/*.rs"), *ROOT.glob("rust/kernel/**/*.rs")]
    return sorted(name for path in sources for name in re.findall(r"#\[kunit_tests\((\w+)\)\]", path.read_text()))
