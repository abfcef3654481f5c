# SPDX-License-Identifier: GPL-2.0
"""Tests that need no guest: those of our programs, and of what of the driver needs no kernel."""

import re
import subprocess

from . import packages, programs, say
from .versions import BUILD, ROOT

_CARGO_COUNTS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.M)


def of_crates(tally, folder, *options):
    """`cargo test` in a workspace, with options for its tests. Clippy compiles the crates: a lint is a failure, too."""
    title = " ".join(["cargo test", folder, *options])
    packages.ensure("rust")
    log = BUILD / "log" / (re.sub(r"\W+", "-", title) + ".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    kind, profile = programs.of_tests(ROOT / folder)
    with programs.workshop(kind) as (tree, target), say.Step(title), open(log, "w") as sink:
        common = ["--profile", profile, "--workspace", "--locked", "--target-dir", str(target)]
        for words in (["build", "--bins", *common], ["test", "--no-fail-fast", *common, "--", *options]):
            done = subprocess.run([programs.CARGO, *words], cwd=tree / folder, env=programs.environment(), stdout=sink, stderr=subprocess.STDOUT)
    output = log.read_text()
    passed, failed = (sum(int(found[which]) for found in _CARGO_COUNTS.findall(output)) for which in (0, 1))
    failed = failed or int(done.returncode != 0)
    if failed:
        say.lines(*(f"    {line}" for line in output.splitlines()[-30:]))
    tally.add(title, passed, failed)
    if states := sum(map(int, re.findall(r": (\d+) states", output))):
        tally.tried = f"{states} states"
    # Without cargo's warnings about targets: a workspace without programs has none to build.
    lints = [line for line in output.splitlines() if re.match(r"(warning|error)(\[|:)", line) and "target" not in line and "test failed" not in line]
    tally.nothing_wrong(f"clippy {folder}", lints[:20])
