# SPDX-License-Identifier: GPL-2.0
"""Which of the driver's callbacks the kernel calls in the contract suite, and how often.

Kprobes count the calls on Debian's kernel. The same tests run under lockdep and KASAN in User Mode Linux, which has no kprobes.
"""

from . import say

FILE = "calls"

# What the kernel calls, and how the symbol ends. Rust's names have the lengths of their parts in them.
CALLBACKS = {
    "open": "3ffi11binder_open",
    "mmap": "3ffi11binder_mmap",
    "ioctl": "3ffi12binder_ioctl",
    # The kernel's own, which asks for what 64-bit tasks ask.
    "compat_ioctl": "compat_ptr_ioctl",
    "poll": "3ffi11binder_poll",
    "flush": "3ffi12binder_flush",
    "release": "3ffi14binder_release",
    "vma_open": "7vma_ops4open",
    "vma_close": "7vma_ops5close",
    "vma_fault": "7vma_ops5fault",
    "shrinker_count": "4pool5count",
    "shrinker_scan": "4pool4scan",
    "lru_walk_take": "5turns4take",
    "release_kept": "kernel_ext_release_kept",
}
# Tasks of 32 bits alone have the kernel call it.
OF_32_BITS = "compat_ioctl"


def watched(argv):
    """The command line that runs `argv` in the guest and counts."""
    words = [f"{name}={symbol}" for name, symbol in CALLBACKS.items()]
    return ["/lab/counted", *words, "--", *argv]


def judge(tally, files, wanted):
    """Add to a tally which of the wanted callbacks the kernel has called, from what a guest left behind."""
    calls = dict(line.split() for line in files.get(FILE, b"").decode().splitlines())
    missing = [name for name in wanted if int(calls.get(name, 0)) == 0]
    say.lines(*(f"    {name:<16} {calls.get(name, 0):>9}" for name in wanted))
    tally.nothing_wrong("callbacks that the kernel calls", [f"{name} was never called" for name in missing])
