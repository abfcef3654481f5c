# SPDX-License-Identifier: GPL-2.0
"""What drivers show of themselves, and what reads it: trace events, logs, netlink, binderctl."""

import pytest
from lab import observed
from stages import CONTRACT, stage

TRACE = ("drivers/android/trace/", "drivers/android/Makefile", "tools/lab/tracing.py")
LOGS = ("drivers/android/logs/", "tools/binder-logs/")


@stage(*TRACE, *CONTRACT, takes=16)
def test_trace_events_next_to_c(tally):
    observed.traced_next_to_c(tally)


@stage(*TRACE, takes=18)
def test_trace_events_read_by_trace_cmd(tally):
    observed.read_by_trace_cmd(tally)


@stage(*TRACE, "tools/lab/perfetto.py", takes=19)
def test_trace_events_recorded_by_perfetto(tally):
    observed.recorded_by_perfetto(tally)


@stage(*TRACE, "tools/lab/bpftrace.py", "docs/observability.md", takes=36)
def test_one_liners_for_bpftrace(tally):
    observed.read_by_bpftrace(tally)


@stage(*TRACE, takes=13)
def test_tracer_that_outlives_the_driver(tally):
    observed.traced_and_reloaded(tally)


@stage(*LOGS, *CONTRACT, takes=8)
def test_logs_alike(tally):
    observed.logs_alike(tally)


@stage(*LOGS, "README.md", "docs/binderfs.md", "docs/observability.md", "tools/binderctl/", takes=12)
def test_worked_examples(tally):
    observed.worked_examples(tally)


@stage("drivers/android/netlink/", "docs/netlink/", "tests/netlink/", takes=9)
def test_netlink(tally):
    observed.netlink_tool(tally)
    observed.netlink_family_taken(tally)


@stage(*LOGS, "tests/logs/", takes=4)
def test_names_of_log_files_that_are_taken(tally):
    observed.log_names_taken(tally)


@stage("drivers/android/rust_binderfs.c", "drivers/android/entry/", "tools/lab/guest/beside", takes=14)
def test_beside_another_driver(tally):
    observed.beside_another_driver(tally)


@pytest.mark.parametrize("driver", ("c", "upstream", "rust"))
@stage("tools/binderctl/", *LOGS, takes=8)
def test_binderctl(tally, driver):
    observed.binderctl(tally, driver)
