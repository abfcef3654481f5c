# SPDX-License-Identifier: GPL-2.0
"""Locked operations of what binder-bench counts, by a plugin of QEMU (locked.c) that costs a boot next to nothing.

counted.py says where they are, too, with a plugin that follows each call, and boots for that.
"""

import subprocess

from lab import say
from . import counted

# What the figures depend on besides the kernel, the driver and binder-bench.
SOURCES = ("locked.c", "decode.h", "marks.h", "plugin.h", "windows.h", "counted.py", "locked.py")


def plugin(folder):
    """The plugin, made in `folder`: what QEMU is told, and the file that the plugin writes."""
    made, seen = folder / "locked.so", folder / "seen"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-o", made, counted.HERE / "locked.c"], check=True)
    return ("-plugin", f"{made},out={seen}"), seen


def of(result, lines):
    """Of each thing that was measured through the driver, as counted.Boot has them: `result` is what binder-bench made of the
    boot, `lines` are the plugin's."""
    windows = counted.read_windows(lines)
    if len(windows) != len(result["cells"]):
        raise say.LabError(f"binder-bench measured {len(result['cells'])} things, and the plugin saw {len(windows)}")
    operations = [counted.Operation(cell, each) for cell, each in zip(result["cells"], windows) if cell["carrier"] == "binder"]
    for operation in operations:
        operation.check()
    return counted.Boot(result["driver"], result, operations, b"").locked()
