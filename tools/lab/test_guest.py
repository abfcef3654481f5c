# SPDX-License-Identifier: GPL-2.0
"""The guest's protocol, however its bytes arrive, the lines of its kernel's log that make a run fail, and the host's features that no guest
uses."""

import itertools
import pathlib
import types

import pytest

from . import emulator, guest, kernel, kmsg

TOKEN = "cafe"
SAID = "│ 12.5 µs │\n"
STREAM = f"boot\n@@{TOKEN} start\n{SAID}\n@@{TOKEN} exit 3\n\n@@{TOKEN} file a\nYQ==\n\n@@{TOKEN} end\n".encode()
QEMU = [name for name, which in kernel.GUESTS.items() if which.arch != "um"]
HERE = pathlib.Path("/here")


def hear(stream, length):
    """The passed-on output while `stream` came in pieces of `length` bytes, and the parsed protocol."""
    passed = []
    speech = guest._Speech(TOKEN, passed.append)
    for start in range(0, len(stream), length):
        speech.hear(stream[start:start + length])
    return "".join(passed), speech


def test_pieces_of_any_length_say_the_same():
    for length in range(1, len(STREAM) + 1):
        passed, speech = hear(STREAM, length)
        assert passed == speech.output.decode() == SAID, length
        assert (speech.status, speech.ended, speech.files) == (3, True, {"a": b"a"}), length


def test_half_a_character_at_the_end_is_shown_as_such():
    cut = STREAM.replace("\n".encode() + f"\n@@{TOKEN} exit".encode(), b"\xe2\n@@%s exit" % TOKEN.encode())
    assert hear(cut, 1)[0] == SAID.rstrip("\n") + "\ufffd"


@pytest.mark.parametrize("name, icount", [*itertools.product(kernel.GUESTS, (False, True))])
def test_no_guest_asks_for_kvm(name, icount):
    built = types.SimpleNamespace(guest=kernel.GUESTS[name], image=HERE)
    words = guest._command(built, guest.Job(["true"], icount=icount), HERE, HERE)
    assert "kvm" not in " ".join(words)
    assert [words[at + 1][:3] for at, word in enumerate(words) if word == "-accel"] == ["tcg"] * (name in QEMU)


@pytest.mark.parametrize("name", QEMU)
def test_memory_has_tags_where_the_kernel_looks_at_them(name):
    words = emulator.words(types.SimpleNamespace(guest=kernel.GUESTS[name]), guest.Job(["true"]))
    assert ("mte=on" in " ".join(map(str, words))) == ("arm64-16k" in kernel.GUESTS[name].fragments)


@pytest.mark.parametrize("name", [name for name, which in kernel.GUESTS.items() if which.builtin])
def test_a_driver_that_is_built_in_has_the_kernel_of_its_module(name):
    which, like = kernel.GUESTS[name], kernel.GUESTS[kernel.GUESTS[name].builtin]
    assert (which.arch, which.machine, which.fragments) == (like.arch, like.machine, (*like.fragments, "builtin"))
    assert name == f"{which.builtin}-builtin"


COMPLAINTS = (
    # The page allocator got a request for more than it ever has in one piece, or for much and did not have it.
    "<4>[   12.3] WARNING: mm/page_alloc.c:5201 at __alloc_frozen_pages_noprof+0x3a2/0x400, CPU#1: contract/77",
    "<4>[   12.3] WARNING: CPU: 1 PID: 77 at mm/page_alloc.c:4935 __alloc_pages_noprof+0x2e5/0x370",
    "<4>[   12.3] contract: page allocation failure: order:9, mode:0xcc0(GFP_KERNEL), nodemask=(null)",
    "<4>[   12.3] WARNING: mm/util.c:700 at kvmalloc_node_noprof+0xd1/0xe0, CPU#0: contract/77",
    "<1>[    1.0] BUG: KASAN: slab-use-after-free in binder_ioctl+0x1/0x2 [binder_rust]",
    "<1>[    1.0] Oops: int3: 0000 [#1] SMP KASAN NOPTI",
    "<3>[    1.0] binder_rust: leaked 1 nodes",
    # KASAN by tags, of memory or by the compiler; a call by another type, also where the kernel is configured to continue; other faults on arm64.
    "<3>[    1.0] BUG: KASAN: invalid-access in binder_ioctl+0x1/0x2 [binder_rust]",
    "<3>[    1.0] CFI failure at binder_ioctl+0x1/0x2 [binder_rust] (target: binder_poll+0x0/0x2 [binder_rust]; expected type: 0x1234abcd)",
    "<0>[    1.0] Internal error: Oops - CFI: 00000000f2008228 [#1]  SMP",
    "<0>[    1.0] Internal error: SP/PC alignment exception: 000000008a000000 [#1]  SMP",
    "<1>[    1.0] Unable to handle kernel paging request at virtual address f0ff000001234560",
)
INNOCENT = (
    "<6>[    0.1] Linux version 7.3.4-rust-binder",
    "<4>[   12.3] contract: page allocation failure: order:0, mode:0x440dc0(GFP_KERNEL_ACCOUNT)",
    # Lines that a program writes into the log are no complaints of the kernel.
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
