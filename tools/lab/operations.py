# SPDX-License-Identifier: GPL-2.0
"""The main operations of Binder, on one driver and kernel: exact instructions, locked operations, and where a null call goes.

One boot tells all of it (tools/report/counted.py).
"""

import functools
import json

from . import bench, bench_series, cache
from .versions import ROOT

# Windows that are shorter than usual: on a kernel with everything in it a call takes several times what it takes on ours, and
# few windows may see a tick.
_SHORT = "--windows 4,16"
# Words for binder-bench, the null call first.
WORKLOADS = (f"throughput --sizes 0 {_SHORT}", f"throughput --sizes 4096 {_SHORT}", "throughput --sizes 65536",
             "oneway --sizes 0", f"objects {_SHORT}", f"fds --files 1 {_SHORT}", f"death --nodes 1 {_SHORT}")
HOME = bench.HOME / "operations"
# What the figures depend on besides the kernel, the driver and binder-bench.
_SOURCES = ("callchains.c", "decode.h", "marks.h", "plugin.h", "stacks.h", "windows.h", "counted.py", "profile.py", "symbols.py")
# What a result has; one of before that has less is made again.
_TOLD = "the parts of each operation"
_TITLES = {
    "oneway": "oneway call", "objects transient": "call with an object", "objects held": "the same, kept by the server",
    "fds": "call with a file", "death request and clear": "death notice, withdrawn",
    "death nodes die": "death of a node",
}


def title(cell):
    """An operation's name, from the fields of its cell."""
    if cell["workload"] == "throughput":
        from report import data

        return f"call with {data.bytes_name(cell['size'])}" if cell["size"] else "null call"
    return _TITLES[f"{cell['workload']} {cell['case']}".strip()]


def step(built, driver, program, on_operation=None):
    """The boot, for bench_series."""
    sources = cache.content(*(ROOT / "tools/report" / name for name in _SOURCES))
    inputs = [bench.identity(built.guest.name, driver, program, timed=False), sources, WORKLOADS, _TOLD]
    make = functools.partial(_measure, built, driver, program, on_operation)
    return bench_series.Step(f"the main operations on {driver}, {built.guest.name}",
                             HOME / built.guest.name / f"{driver}.json", inputs, make, 60, bench.conditions)


def _measure(built, driver, program, on_operation):
    from report import counted, profile, symbols

    boot = counted.run(built, driver, program, WORKLOADS, on_operation=on_operation)
    functions, files = symbols.of(boot), profile.files_of(built, driver)
    profiles = [profile.summary(profile.profile(driver, operation, functions, files)) for operation in boot.operations]
    # Of a call of the workload, which may be a batch of what its title says.
    parts = [[operation.cell["batch"], one["classes"]] for operation, one in zip(boot.operations, profiles)]
    return json.dumps({"result": boot.result, "locked": boot.locked(), "profile": profiles[0], "parts": parts}).encode()


def load(path):
    """What a boot has told: its result file's content, locked operations, the profile of a null call, and of each operation how
    many instructions are for what."""
    return json.loads(path.read_bytes())


def locked_by_name(several):
    """{name of a cell: locked operations}, of what counted.Boot.locked() gives."""
    from report import data

    return {data.Cell.of(fields).name: count for fields, count in several}


def rows(content):
    """{title: (instructions, locked operations)} in their order."""
    counted = [cell["measured"]["count"]["instructions"] for cell in content["result"]["cells"]]
    return {title(fields): (instructions, locked) for instructions, (fields, locked) in zip(counted, content["locked"])}


def parts(content):
    """{title: {what for: instructions}} of an operation, in their order."""
    return {title(fields): {what: value / batch for what, value in classes.items()}
            for (batch, classes), (fields, _) in zip(content["parts"], content["locked"])}
