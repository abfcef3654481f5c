# SPDX-License-Identifier: GPL-2.0
"""What is heard of a guest, however its bytes come in, and what no guest asks of the host."""

import itertools
import pathlib
import types

import pytest

from . import emulator, guest, kernel

TOKEN = "cafe"
SAID = "│ 12.5 µs │\n"
STREAM = f"boot\n@@{TOKEN} start\n{SAID}\n@@{TOKEN} exit 3\n\n@@{TOKEN} file a\nYQ==\n\n@@{TOKEN} end\n".encode()
QEMU = [name for name, which in kernel.GUESTS.items() if which.arch != "um"]
HERE = pathlib.Path("/here")


def hear(stream, length):
    """What was passed on while `stream` came in pieces of `length` bytes, and what was made of it."""
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
