# SPDX-License-Identifier: GPL-2.0
"""Failures in a kernel's log, whatever the exit status of the program in the guest."""

import re

# One alternative for each kind of complaint that a kernel has about itself or about a driver.
_COMPLAINT = re.compile(
    r"\bWARNING: |\bBUG: |\bkernel BUG at|\bOops\b|Kernel panic|general protection fault"
    # Complaints of the compiler's code or of arm64: calls of the wrong type, and errors that end in no oops by that name.
    r"|CFI failure at|\bInternal error: "
    r"|Kernel mode (?:signal|fault)|Unable to handle kernel|unable to handle page fault"
    r"|INFO: task .* blocked|INFO: rcu|rcu: INFO|soft lockup|hard LOCKUP|scheduling while atomic"
    r"|sleeping function called|possible (?:circular|recursive) locking|inconsistent lock state"
    r"|suspicious RCU usage|held lock freed|lock held when returning|refcount_t: |KASAN: |UBSAN: "
    r"|KCSAN: |ODEBUG: |list_(?:add|del) corruption|slab .*corruption|Objects remaining in"
    # The kernel can do without larger pieces than a few pages, and makes smaller ones itself.
    r"|page allocation failure: order:(?:[4-9]|\d\d)"
    r"|unreferenced object|panicked at|\bleaked \d|page_owner|Bad page state|INFO: trying to register"
)
_LEVEL = re.compile(r"^<\d+>")


def complaints(lines):
    """The lines that make a run fail."""
    return [text for line in lines if _COMPLAINT.search(text := _LEVEL.sub("", line))]
