# SPDX-License-Identifier: GPL-2.0
"""Tests that need no guest: those of our programs and of the driver's rooms, and those of the lab itself."""

import os
import re
import subprocess
import sys
import tomllib

from . import packages, programs, say
from .versions import BUILD, ROOT

_CARGO_COUNTS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.M)
_RAN = re.compile(r"^Ran (\d+) tests? in", re.M)
_WRONG = re.compile(r"^(?:ERROR|FAIL): ", re.M)


def of_crates(tally):
    """`cargo test`, once for all crates of the workspace, and once for the driver's rooms."""
    packages.ensure("rust")
    for title, folder, crates in (("cargo test", ".", _members()), ("cargo test tests/host", "tests/host", ())):
        log = BUILD / "log" / (re.sub(r"\W+", "-", title) + ".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        kind, profile = programs.of_tests(ROOT / folder)
        # Our own crates are checked as they run, and quickly compiled; what they depend on is as it is for the programs.
        own = (f"profile.{profile}.package.{crate}.{what}"
               for crate in crates for what in ("debug-assertions=true", "overflow-checks=true", "opt-level=0"))
        argv = [programs.CARGO, "test", "--profile", profile, *(word for one in own for word in ("--config", one)),
                "--workspace", "--locked", "--no-fail-fast"]
        with programs.workshop(kind) as (tree, target), say.Step(title), open(log, "w") as sink:
            done = subprocess.run([*argv, "--target-dir", str(target)], cwd=tree / folder, env=programs.environment(),
                                  stdout=sink, stderr=subprocess.STDOUT)
        counts = [tuple(map(int, c)) for c in _CARGO_COUNTS.findall(log.read_text())]
        passed, failed = (sum(c[i] for c in counts) for i in (0, 1))
        if done.returncode and not failed:
            failed = 1
        if failed:
            say.lines(*(f"    {l}" for l in log.read_text().splitlines()[-30:]))
        tally.add(title, passed, failed)


def _members():
    """The names of our workspace's crates."""
    folders = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    return [tomllib.loads((ROOT / folder / "Cargo.toml").read_text())["package"]["name"] for folder in folders]


def of_tools(tally):
    """The arithmetic behind reports, what is read from other programs' output, and how the lab does its work."""
    packages.ensure("report", "figures")
    units = sorted(f"{path.parent.name}.{path.stem}" for path in (ROOT / "tools").glob("*/test_*.py"))
    done = subprocess.run([sys.executable, "-B", "-m", "unittest", *units], cwd=ROOT / "tools",
                          env={**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}"}, capture_output=True, text=True)
    ran, failed = _RAN.search(done.stderr), len(_WRONG.findall(done.stderr))
    if done.returncode:
        say.lines(done.stderr)
        failed = max(failed, 1)
    tally.add("tests of the tools", max(int(ran[1]) - failed, 0) if ran else 0, failed)
