# SPDX-License-Identifier: GPL-2.0
"""The functions of the kernel that was booted, and of its modules, by their addresses."""

import bisect
import collections
import re
import subprocess

from lab import guest

Function = collections.namedtuple("Function", "address name module")
USER = Function(0, "user space", "")


def read(text):
    """The functions in lines of /proc/kallsyms, in the order of addresses; the first name of each address."""
    functions = {}
    for line in text.splitlines():
        address, kind, name, *inside = line.split()
        if kind in "tTwW" and int(address, 16):
            functions.setdefault(int(address, 16), (name, inside[0].strip("[]") if inside else ""))
    names = [name for name, _ in functions.values()]
    done = subprocess.run(["c++filt", "--format=rust"], input="\n".join(names), text=True, capture_output=True, check=True)
    plain = dict(zip(names, map(shorten, done.stdout.splitlines())))
    return sorted(Function(address, plain[name], module) for address, (name, module) in functions.items())


def shorten(name):
    """A Rust name without the hashes that v0 mangling puts behind crates."""
    return re.sub(r"\[[0-9a-f]{8,}\]", "", name)


def is_driver(function):
    return function.module in guest.MODULES.values()


class Names:
    """Finds the function of an address."""

    def __init__(self, functions):
        self._functions = functions
        self._starts = [function.address for function in functions]

    def function(self, address):
        """The function that an instruction is in."""
        place = bisect.bisect_right(self._starts, address) - 1
        if not address >> 63:
            return USER
        return self._functions[place] if place >= 0 else Function(0, "before the kernel", "")
