# SPDX-License-Identifier: GPL-2.0
"""The kernel tree's own `tools/net/ynl` as a listener to a driver's reports, in a guest.

A guest gets this machine's Python, with the modules that the tool imports and the libraries that these need.
"""

import ast
import re

from . import guest, packages, proc, programs, source

# A test that makes a driver report something.
TEST = "reports::without_a_manager"
_PYTHON = "/usr/bin/python3"
# Starts the tool, which here finds no driver to listen to, and prints the files of all that it has imported.
_IMPORT = """
import sys
sys.path.insert(0, sys.argv[1])
import cli
sys.argv[1:] = ["--spec", sys.argv[2], "--no-schema", "--subscribe", "report", "--duration", "0"]
try:
    cli.main()
except Exception:
    pass
for module in list(sys.modules.values()):
    if getattr(module, "__file__", None):
        print(module.__file__)
"""
# The output of a program for one message.
_MESSAGE = re.compile(r"^\{'msg': .*?'name': '[a-z-]+'\}", re.M | re.S)
_NUMBERS = ("from-pid", "from-tid", "to-pid", "to-tid")


def job(driver):
    """The job in which the tool waits for a report, and a test runs until the tool has printed one."""
    packages.ensure("ynl")
    tree = source.tree()
    tool, spec = tree / "tools/net/ynl/pyynl", tree / "Documentation/netlink/specs/binder.yaml"
    files = {"/lab/contract": programs.build("tests/contract"), "/ynl/spec.yaml": spec}
    files |= {f"/ynl/{path.relative_to(tool)}": path for path in tool.rglob("*.py")}
    modules = proc.output(_PYTHON, "-B", "-c", _IMPORT, tool, spec).split()
    files |= {path: path for path in modules if not path.startswith(str(tool))}
    for path in (_PYTHON, *(path for path in modules if path.endswith(".so"))):
        listed = proc.output("ldd", path)
        files |= {library: library for library in re.findall(r"(/\S+) \(0x", listed)}
    files[_PYTHON] = _PYTHON
    return guest.Job(argv=["/lab/listen", driver, TEST], driver=driver, files=files, cpus=1)


def messages(output):
    """The messages that the tool has printed; numbers that differ between runs are left out."""
    return [_without_numbers(ast.literal_eval(printed)["msg"]) for printed in _MESSAGE.findall(output)]


def _without_numbers(message):
    known = {name: value for name, value in message.items() if name not in _NUMBERS}
    return known | {"numbers": [name for name in _NUMBERS if name in message]}
