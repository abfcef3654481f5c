# SPDX-License-Identifier: GPL-2.0
"""Which runs on the C driver are made again."""

import contextlib
import io
import os
import pathlib
import tempfile
import types
import unittest
from unittest import mock

from . import guest, kernel, recall


class Recall(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        self.enterContext(mock.patch.dict(os.environ, {"RUST_BINDER_CACHE": str(self.folder / "cache")}))
        self.said = self.enterContext(contextlib.redirect_stdout(io.StringIO()))
        self.enterContext(mock.patch.object(guest, "_modules", lambda kernel, job: {}))
        self.program = self.folder / "contract"
        self.program.write_text("one")
        self.runs = []

    def run_on(self, name="um-1", status=0, problems=(), **options):
        """Run a job in the guest of that kernel; what came of it."""
        built = types.SimpleNamespace(folder=self.folder / name, guest=kernel.GUESTS["um"])
        job = guest.Job(argv=["/lab/contract", "run"], driver="c", files={"/lab/contract": self.program}, **options)

        def attempt():
            self.runs.append(name)
            return guest.Result(status, "2 passed, 0 failed\n", {"results.jsonl": b"\0record"}, [], list(problems))

        return recall.run(built, job, attempt)

    def test_the_same_is_run_once_and_tells_the_same(self):
        first, second = self.run_on(), self.run_on()
        self.assertEqual(len(self.runs), 1)
        self.assertEqual((first.good, first.output, first.files), (second.good, second.output, second.files))
        self.assertIn("the same guest passed this on", self.said.getvalue())

    def test_another_program_kernel_or_word_is_run(self):
        self.run_on()
        self.run_on(name="um-2")
        self.run_on(boot=("lsm=selinux",))
        self.program.write_text("another")
        self.run_on()
        self.assertEqual(len(self.runs), 4)

    def test_what_was_not_good_is_run_again(self):
        self.assertFalse(self.run_on(status=1).good)
        self.assertFalse(self.run_on(problems=["WARNING: "]).good)
        self.assertTrue(self.run_on().good)
        self.assertTrue(self.run_on().good)
        self.assertEqual(len(self.runs), 3)


if __name__ == "__main__":
    unittest.main()
