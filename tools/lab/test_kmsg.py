# SPDX-License-Identifier: GPL-2.0
"""Which lines of a kernel's log make a run fail."""

import pytest

from . import guest, kmsg

COMPLAINTS = (
    # The page allocator was asked for more than it ever has in one piece, or for much and did not have it.
    "<4>[   12.3] WARNING: mm/page_alloc.c:5201 at __alloc_frozen_pages_noprof+0x3a2/0x400, CPU#1: contract/77",
    "<4>[   12.3] WARNING: CPU: 1 PID: 77 at mm/page_alloc.c:4935 __alloc_pages_noprof+0x2e5/0x370",
    "<4>[   12.3] contract: page allocation failure: order:9, mode:0xcc0(GFP_KERNEL), nodemask=(null)",
    "<4>[   12.3] WARNING: mm/util.c:700 at kvmalloc_node_noprof+0xd1/0xe0, CPU#0: contract/77",
    "<1>[    1.0] BUG: KASAN: slab-use-after-free in binder_ioctl+0x1/0x2 [binder_rust]",
    "<1>[    1.0] Oops: int3: 0000 [#1] SMP KASAN NOPTI",
    "<3>[    1.0] binder_rust: leaked 1 nodes",
    # By tags, of memory or by the compiler; a call by another type, also where the kernel is told to go on; what else arm64 finds.
    "<3>[    1.0] BUG: KASAN: invalid-access in binder_ioctl+0x1/0x2 [binder_rust]",
    "<3>[    1.0] CFI failure at binder_ioctl+0x1/0x2 [binder_rust] (target: binder_poll+0x0/0x2 [binder_rust]; expected type: 0x1234abcd)",
    "<0>[    1.0] Internal error: Oops - CFI: 00000000f2008228 [#1]  SMP",
    "<0>[    1.0] Internal error: SP/PC alignment exception: 000000008a000000 [#1]  SMP",
    "<1>[    1.0] Unable to handle kernel paging request at virtual address f0ff000001234560",
)
INNOCENT = (
    "<6>[    0.1] Linux version 7.3.4-rust-binder",
    "<4>[   12.3] contract: page allocation failure: order:0, mode:0x440dc0(GFP_KERNEL_ACCOUNT)",
    # What a program writes into the log is its own affair.
    "<4>[    1.0] binder_linux: 77:77 transaction failed 29189/-22, code 0 size 0-0 line 3150",
)


@pytest.mark.parametrize("line", COMPLAINTS)
def test_each_is_heard_in_the_log_and_on_the_console(line):
    [found] = kmsg.complaints([line])
    assert kmsg.complaints([line.split(">", 1)[1]]) == [found]


def test_nothing_else_is():
    assert kmsg.complaints(INNOCENT) == []


@pytest.mark.parametrize("log, console", [(COMPLAINTS[:1], ()), (INNOCENT, COMPLAINTS[:1])])
def test_a_run_fails_for_them_whatever_its_program_says(log, console):
    speech = guest._Speech("cafe", None)
    speech.hear(b"\n@@cafe exit 0\n\n@@cafe end\n")
    speech.dmesg = list(log)
    result = guest._judge(speech, True, list(console), guest.Job(argv=[]))
    assert result.status == 0 and not result.good
