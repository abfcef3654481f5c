# SPDX-License-Identifier: GPL-2.0
"""The stack frames of our driver's functions, and those that are too large."""

import re
import subprocess

from . import toolchain

# A call comes from far up a stack of 16 KiB, and goes far down: into file systems, reclaim, the network. Rust 1.85.1, which compiles
# the module for Debian's kernel, makes the largest frames; Rust 1.96 stays below 1 024.
MOST = 1536

_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_PUSH = re.compile(r"\tpush")
_MAKE_ROOM = re.compile(r"\tsubq?\s+\$(0x[0-9a-f]+|[0-9]+), %rsp")
# The shortest instruction for 128, and a size that is only computed at run time.
_MAKE_ROOM_OF_128 = re.compile(r"\taddq?\s+\$-(0x[0-9a-f]+|[0-9]+), %rsp")
_MAKE_ANY_ROOM = re.compile(r"\tsubq?\s+%r\w+, %rsp")


def sizes(module):
    """The frames of all functions of a module for x86-64, by their names."""
    argv = [f"{toolchain.LLVM['bin']}/llvm-objdump", "--disassemble", "--no-show-raw-insn", module]
    done = subprocess.run([str(word) for word in argv], text=True, capture_output=True, check=True)
    return of_disassembly(done.stdout.splitlines())


def of_disassembly(lines):
    """The bytes that functions push before they make room, and the most room that they make at once.

    A size that only shows when the function runs is as good as infinite.
    """
    found, name, pushed = {}, None, 0
    for line in lines:
        if begins := _FUNCTION.match(line):
            name, pushed = begins[1], 0
            found.setdefault(name, 0)
        elif _PUSH.search(line):
            pushed += 8
            found[name] = max(found[name], pushed)
        elif room := _MAKE_ROOM.search(line) or _MAKE_ROOM_OF_128.search(line):
            found[name] = max(found[name], pushed + int(room[1], 0))
        elif _MAKE_ANY_ROOM.search(line):
            found[name] = float("inf")
    return found


def too_large(module):
    """A complaint for each function whose frame is too large."""
    frames = sorted(sizes(module).items(), key=lambda item: -item[1])
    return [f"{name} takes {size} bytes of stack, at most {MOST} are allowed"
            for name, size in frames if size > MOST]
