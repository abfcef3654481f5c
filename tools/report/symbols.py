# SPDX-License-Identifier: GPL-2.0
"""The functions of the kernel that was booted, and of its modules."""

import collections
import gzip
import re
import subprocess

Function = collections.namedtuple("Function", "address name module")


def of(boot):
    """The functions of the kernel that was booted."""
    return read(gzip.decompress(boot.kallsyms).decode())


def read(text):
    """The kernel's and its modules' functions, by address; the first name of each address."""
    functions = {}
    for line in text.splitlines():
        address, kind, name, *inside = line.split()
        if kind in "tTwW" and int(address, 16):
            functions.setdefault(int(address, 16), (name, inside[0].strip("[]") if inside else ""))
    names = demangle([name for name, _ in functions.values()])
    return sorted(Function(a, names.get(n, n), m) for a, (n, m) in functions.items())


def demangle(names):
    rust = [name for name in names if name.startswith("_R")]
    for tool in ("llvm-cxxfilt-22", "llvm-cxxfilt", "c++filt"):
        try:
            out = subprocess.run([tool], input="\n".join(rust), text=True, capture_output=True, check=True)
        except FileNotFoundError:
            continue
        return dict(zip(rust, (shorten(line) for line in out.stdout.splitlines())))
    return {}


def shorten(name):
    """Without the hashes that v0 mangling puts behind crate names."""
    return re.sub(r"\[[0-9a-f]{8,}\]", "", name)
