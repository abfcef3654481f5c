# SPDX-License-Identifier: GPL-2.0
"""What is heard of a guest, however its bytes come in, and what no guest asks of the host.

    PYTHONPATH=tools python3 -m unittest lab.test_guest
"""

import itertools
import pathlib
import tempfile
import types
import unittest

from . import emulator, guest, kernel, say

TOKEN = "cafe"
SAID = "│ 12.5 µs │\n"
STREAM = f"boot\n@@{TOKEN} start\n{SAID}\n@@{TOKEN} exit 3\n\n@@{TOKEN} file a\nYQ==\n\n@@{TOKEN} end\n".encode()


def hear(stream, length):
    """What was passed on while `stream` came in pieces of `length` bytes, and what was made of it."""
    passed = []
    speech = guest._Speech(TOKEN, passed.append)
    for start in range(0, len(stream), length):
        speech.hear(stream[start:start + length])
    return "".join(passed), speech


class Speech(unittest.TestCase):
    def test_pieces_of_any_length_say_the_same(self):
        for length in range(1, len(STREAM) + 1):
            passed, speech = hear(STREAM, length)
            self.assertEqual(passed, SAID, length)
            self.assertEqual((speech.output.decode(), speech.status, speech.ended), (SAID, 3, True), length)
            self.assertEqual(speech.files, {"a": b"a"}, length)

    def test_half_a_character_at_the_end_is_shown_as_such(self):
        cut = STREAM.replace("\n".encode() + f"\n@@{TOKEN} exit".encode(), b"\xe2\n@@%s exit" % TOKEN.encode())
        passed, _ = hear(cut, 1)
        self.assertEqual(passed, SAID.rstrip("\n") + "\ufffd")


class Programs(unittest.TestCase):
    def test_those_for_another_processor_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "program")
            for name, processor, fits in (("x86_64", 62, True), ("x86_64", 3, True), ("um", 62, True), ("um", 3, False),
                                          ("arm64", 183, True), ("arm64", 40, True), ("arm64", 62, False), ("arm64-16k", 183, True),
                                          ("x86_64", 183, False)):
                content = b"\x7fELF" + bytes(14) + bytes([processor, 0])
                path.write_bytes(content)
                with self.subTest(name, processor=processor):
                    if fits:
                        self.assertEqual(guest._fitting(kernel.GUESTS[name], path), content)
                    else:
                        with self.assertRaisesRegex(say.LabError, "another processor"):
                            guest._fitting(kernel.GUESTS[name], path)
            path.write_bytes(b"#!/bin/sh\n")
            self.assertEqual(guest._fitting(kernel.GUESTS["arm64"], path), b"#!/bin/sh\n")


class Host(unittest.TestCase):
    def test_no_guest_asks_for_kvm(self):
        here = pathlib.Path("/here")
        for name, icount in itertools.product(kernel.GUESTS, (False, True)):
            with self.subTest(name, icount=icount):
                built = types.SimpleNamespace(guest=kernel.GUESTS[name], image=here)
                words = guest._command(built, guest.Job(["true"], icount=icount), here, here)
                self.assertNotIn("kvm", " ".join(words))
                if kernel.GUESTS[name].arch != "um":
                    self.assertTrue(words[words.index("-accel") + 1].startswith("tcg"))
                    self.assertEqual(words.count("-accel"), 1)

    def test_memory_has_tags_where_the_kernel_looks_at_them(self):
        for name, which in kernel.GUESTS.items():
            if which.arch != "um":
                words = emulator.words(types.SimpleNamespace(guest=which), guest.Job(["true"]))
                with self.subTest(name):
                    self.assertEqual("mte=on" in " ".join(map(str, words)), "arm64-16k" in which.fragments)

    def test_a_driver_that_is_built_in_has_the_kernel_of_its_module(self):
        for name, which in kernel.GUESTS.items():
            if which.builtin:
                like = kernel.GUESTS[which.builtin]
                with self.subTest(name):
                    self.assertEqual((which.arch, which.machine, which.fragments), (like.arch, like.machine, (*like.fragments, "builtin")))
                    self.assertEqual(name, f"{which.builtin}-builtin")


if __name__ == "__main__":
    unittest.main()
