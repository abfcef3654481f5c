# SPDX-License-Identifier: GPL-2.0
"""The kernel tree's own `tools/net/ynl` as a listener to a driver's reports, in a guest.

A guest gets this machine's Python, with the modules that the tool imports and the libraries that these need.
"""

import ast
import re

from . import guest, packages, proc, programs, source

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
# What a program has printed for one report.
_REPORT = re.compile(r"^\{'msg': .*?'name': 'report'\}", re.M | re.S)
_NUMBERS = ("from-pid", "from-tid", "to-pid", "to-tid")


def job(driver):
    """What has the tool wait for reports, and a call fail until it has printed one."""
    packages.ensure("ynl")
    tree = source.tree()
    tool, spec = tree / "tools/net/ynl/pyynl", tree / "Documentation/netlink/specs/binder.yaml"
    files = {"/lab/contract": programs.build("tests/contract"), "/ynl/binder.yaml": spec}
    files |= {f"/ynl/{path.relative_to(tool)}": path for path in tool.rglob("*.py")}
    modules = proc.output(_PYTHON, "-B", "-c", _IMPORT, tool, spec).split()
    files |= {path: path for path in modules if not path.startswith(str(tool))}
    for path in (_PYTHON, *(path for path in modules if path.endswith(".so"))):
        listed = proc.output("ldd", path)
        files |= {library: library for library in re.findall(r"(/\S+) \(0x", listed)}
    files[_PYTHON] = _PYTHON
    return guest.Job(argv=["/lab/listen", driver], driver=driver, files=files)


def report(output):
    """The report that the tool has printed, without the numbers of processes, which differ between runs."""
    found = _REPORT.search(output)
    if not found:
        return None
    message = ast.literal_eval(found[0])["msg"]
    return {name: value for name, value in message.items() if name not in _NUMBERS} | {
        "numbers": [name for name in _NUMBERS if name in message]}
