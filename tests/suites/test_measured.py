# SPDX-License-Identifier: GPL-2.0
"""The costs of our driver and of C, counted on Debian's kernel: instructions, locked operations, memory, cache lines, growth."""

import pytest
from lab import gate, growth, guest, programs
from lab.run import run
from lab.versions import ROOT
from stages import DRIVER, stage

MEASURE = ("tools/binder-bench/", "tools/report/", "tools/lab/bench.py", "tools/lab/gate.py", "tools/lab/moves.py", "tools/lab/growth.py")


@stage(*MEASURE, *DRIVER, takes=50)
def test_instructions_and_memory_next_to_c(tally):
    gate.stage_of_weights(tally)


@stage(*MEASURE, "rust/", takes=300, torture=True)
def test_lines_that_move_between_cpus(tally):
    gate.stage_of_lines(tally)


@stage(*MEASURE, "rust/", "drivers/android/pure/", "drivers/android/handles.rs", takes=15)
def test_growth_next_to_c(tally):
    growth.stage(tally)


@pytest.mark.parametrize("driver", ("c", "rust"))
@stage("tools/binder-bench/", takes=10)
def test_binder_bench_with_a_driver(tally, driver):
    """binder-bench's workloads run with a driver loaded, and its errors are right."""
    files = {"/lab/binder-bench": programs.build("tools/binder-bench"), "/lab/guest.sh": ROOT / "tools/binder-bench/tests/guest.sh"}
    job = guest.Job(argv=["/bin/sh", "/lab/guest.sh", "/lab/binder-bench"], driver=driver, files=files, cpus=1, timeout=300)
    title = f"binder-bench um {driver}"
    tally.one(title, run(title, "um", job).good)
