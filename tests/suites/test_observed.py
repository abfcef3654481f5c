# SPDX-License-Identifier: GPL-2.0
"""The outputs of drivers, and their readers: trace events, logs, netlink, binderctl."""

import difflib

import oracle
import pytest
from lab import bpftrace, examples, guest, kernel, module, perfetto, programs, say, tracing, ynl
from lab.run import counts_of, last_words, run
from lab.versions import ROOT
from stages import CONTRACT, ORACLE, stage

UM = "um"
TRACE = ("drivers/android/trace/", "drivers/android/Kbuild", "tools/lab/tracing.py")
LOGS = ("drivers/android/logs/", "tools/binder-logs/")


@stage(*TRACE, *CONTRACT, *ORACLE, takes=16)
def test_trace_events_next_to_c(tally):
    """The trace events have the C driver's formats, and equal the C driver's in the same scenes."""
    title = f"trace events next to C's {UM}"
    of_c = oracle.scene(tally, "trace.txt", "trace events of scenes", tracing.job("c"), lambda output: tracing.comparable(output).splitlines())
    result = run(f"{title}, rust", UM, tracing.job("rust"))
    judged, wrong = tracing.judge("\n".join(of_c or []), result.output)
    for line in wrong:
        say.lines(f"    {line}")
    failed = sum(not line.startswith(" ") for line in wrong) + (not of_c) + (not result.good)
    tally.add(title, max(judged - failed, 0), failed)


@stage(*TRACE, takes=18)
def test_trace_events_read_by_trace_cmd(tally):
    """trace-cmd reads a recorded run of each driver."""
    for driver in ("c", "rust"):
        title = f"trace events read by trace-cmd {UM} {driver}"
        result = run(title, UM, tracing.read_by_trace_cmd(driver))
        count, wrong = tracing.judge_report(result.output)
        say.note(f"    {count} events")
        tally.nothing_wrong(title, wrong, result.good)


@stage(*TRACE, "tools/lab/perfetto.py", takes=19)
def test_trace_events_recorded_by_perfetto(tally):
    """Perfetto records a run on each driver, and its trace has all fields of each event's schema."""
    for driver in ("c", "rust"):
        title = f"trace events recorded by Perfetto {perfetto.GUEST} {driver}"
        result = run(title, perfetto.GUEST, perfetto.job(driver))
        wrong = ["there is no trace"]
        if perfetto.TRACE in result.files:
            count, wrong = perfetto.judge(perfetto.decoded(result.files[perfetto.TRACE]))
            say.note(f"    {count} calls and replies")
        tally.nothing_wrong(title, wrong, result.good)


@stage(*TRACE, "tools/lab/bpftrace.py", "docs/logs-and-traces.md", takes=150, torture=True)
def test_one_liners_for_bpftrace(tally):
    """The documents' one-liners for bpftrace print their results on each driver."""
    for driver in ("c", "rust"):
        title = f"one-liners for bpftrace {bpftrace.GUEST} {driver}"
        result = run(title, bpftrace.GUEST, bpftrace.job(driver))
        judged, wrong = bpftrace.judge(result.output)
        for line in wrong:
            say.lines(f"    {line}")
        failed = len(wrong) or int(not result.good)
        tally.add(title, judged - failed, failed)


@stage(*TRACE, takes=13)
def test_tracer_that_outlives_the_driver(tally):
    """A tracer can stay while the driver is unloaded and loaded again."""
    title = f"trace events of a driver that comes and goes {UM}"
    result = run(title, UM, tracing.reloading())
    if not result.good:
        say.lines(result.output)
    tally.one(title, result.good)


@stage(*LOGS, *CONTRACT, *ORACLE, takes=8)
def test_logs_alike(tally):
    """All logs of one scene are equal on the C driver and on ours, but for values that differ from run to run."""
    title = "logs of a scene"
    of_c, of_rust = (guest.Job(argv=["/lab/contract", "example", "logs"], driver=driver, cpus=1, files={"/lab/contract": programs.build("tests/contract")})
                     for driver in ("c", "rust"))
    lines = lambda output: output.replace("\r\n", "\n").splitlines()
    one = oracle.scene(tally, "logs.txt", title, of_c, lines) or []
    result = run(f"{title} um rust", UM, of_rust)
    other = lines(result.output)
    if not result.good or min(len(one), len(other)) < 100:
        say.lines(*last_words(result.output))
        tally.one(title, False)
        return
    different = list(difflib.unified_diff(one, other, "c", "rust", lineterm="", n=0))
    tally.nothing_wrong("logs of a scene: c and rust alike", different[:40])


@stage(*LOGS, "docs/start/debian.md", "docs/binderfs.md", "docs/logs-and-traces.md", "docs/binderctl.md", "tools/binderctl/", takes=12)
def test_worked_examples(tally):
    """The worked examples of the docs print what the docs show."""
    files = examples.tools()
    for driver in examples.DRIVERS:
        for name, scene in examples.blocks(examples.text(), driver).items():
            if name == examples.MACHINE:
                continue
            title = f"worked example {name} um {driver}"
            result = run(title, UM, examples.job(name, scene, driver, files))
            wrong = examples.judge(scene, result.output)
            tally.nothing_wrong(title, wrong, result.good)


@stage("drivers/android/ffi/mod.rs", "drivers/android/common/netlink.rs", takes=6)
def test_netlink_tool(tally):
    """`tools/net/ynl` of the kernel's tree prints equal reports of both drivers."""
    first = None
    for driver in ("c", "rust"):
        title = f"group report in the kernel's netlink tool um {driver}"
        result = run(title, UM, ynl.job(driver))
        seen = ynl.messages(result.output)[:1]
        first = first or seen
        good = result.good and seen == first != []
        if not good:
            say.lines(f"    {result.output}\n    {seen}")
        tally.one(title, good)


@stage("drivers/android/ffi/mod.rs", "tests/netlink/", takes=4)
def test_netlink_family_that_is_taken(tally):
    """Our driver loads without its netlink family while another module has it, and logs that."""
    _taken(tally, "a netlink family that is taken", "netlink", "family_test.ko", ["/lab/taken"], [
        "transaction_report 0", "transaction_report 1",
        "binder_rust: no reports over netlink (-17): another driver has the family: unload it, or set name=ANOTHER here"])


@stage(*LOGS, "tests/logs/", takes=4)
def test_names_of_log_files_that_are_taken(tally):
    """A device can be opened while another module has the names of its log files in debugfs."""
    _taken(tally, "names of log files that are taken", "logs", "names_test.ko", ["/lab/unnamed", "binder_rust"], [
        "directory taken: no log of the process", "files taken: no log of the process",
        "nothing taken: a log of the process with context binder"])


@stage("drivers/android/rust_binderfs.c", "drivers/android/entry/", "tools/lab/guest/beside", takes=14)
def test_beside_another_driver(tally):
    """Our driver works beside another one in one kernel, under another name."""
    for other in ("c", "upstream"):
        title = f"beside {other} um"
        name = guest.MODULES[other]
        files = {f"/lab/{name}.ko": kernel.build(UM).module(other),
                 "/lab/binder-bench": programs.build("tools/binder-bench")}
        result = run(title, UM, guest.Job(argv=["/bin/sh", "/lab/beside", name], load=False, files=files, cpus=1))
        if not result.good:
            say.lines(result.output)
        tally.one(title, result.good)


def _taken(tally, title, folder, made, argv, wanted):
    """The output of a script that loads our driver beside a module of tests/`folder`, which has a name that the driver needs."""
    path = module.build(kernel.build(UM), ROOT / "tests" / folder, folder, made)
    result = run(f"{title} um", UM, guest.Job(argv=argv, load=False, cpus=1, files={f"/lab/{made}": path}))
    good = result.good and result.output.splitlines() == wanted
    if not good:
        say.lines(result.output)
    tally.one(title, good)


@pytest.mark.parametrize("driver", ("c", "upstream", "rust"))
@stage("tools/binderctl/", *LOGS, takes=8)
def test_binderctl(tally, driver):
    """The output and the status of each binderctl command, with a driver loaded and processes in trouble."""
    files = {"/lab/binderctl": programs.build("tools/binderctl"), "/lab/contract": programs.build("tests/contract"),
             "/lab/guest.sh": ROOT / "tools/binderctl/tests/guest.sh"}
    argv = ["/bin/sh", "/lab/guest.sh", "/lab/binderctl", "/lab/contract", driver]
    title = f"binderctl um {driver}"
    result = run(title, UM, guest.Job(argv=argv, driver=driver, files=files, cpus=1, timeout=300))
    if not result.good:
        say.lines(*(f"    {line}" for line in result.output.splitlines()))
    tally.add(title, *counts_of(result))
