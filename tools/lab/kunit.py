# SPDX-License-Identifier: GPL-2.0
"""KUnit's suites of the driver: they run when a module that has them is loaded, and tell the kernel's log.

What they tell is read by the kernel's own tools/testing/kunit.
"""

import json
import re
import subprocess
import sys
import tempfile

from . import kernel, module, say, source
from .versions import ROOT

# Whose kernels have KUnit; that of the first looks over the suites' shoulders.
GUESTS = ("x86_64-debug", *kernel.FOREIGN)
GUEST = GUESTS[0]
# What a driver is built with that has the suites, its numbers near their ends.
SWITCHES = ("CONFIG_ANDROID_BINDER_IPC_RUST_KUNIT_TEST=y", module.NEAR_LIMITS)

# A test takes as long as the host's other work lets it: on a busy one, one that takes seconds was ended after KUnit's 300 s, and
# insmod, which waits for it meanwhile, was called hung after 60 s. The guest as a whole has its limit.
UNHURRIED = ("kunit.timeout=3600", "sysctl.kernel.hung_task_timeout_secs=0")


def module_with_suites(name=GUEST):
    """Our driver as a module for guest `name` that has the suites."""
    return module.build(kernel.build(name), name="module-kunit", arguments=SWITCHES)


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
    """What the kernel's reader makes of a log: from where the last of all began, as the kernel has suites too."""
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
