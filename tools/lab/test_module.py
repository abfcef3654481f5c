# SPDX-License-Identifier: GPL-2.0
"""When a module is built."""

import contextlib
import io
import os
import pathlib
import shutil
import tempfile
import types
import unittest
from unittest import mock

from . import module, proc, say, toolchain


class Module(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        self.build, self.sources = self.folder / "build", self.folder / "sources"
        self.sources.mkdir()
        self.write("one")
        self.said = self.enterContext(contextlib.redirect_stdout(io.StringIO()))
        for patch in (mock.patch.dict(os.environ, {"RUST_BINDER_CACHE": str(self.folder / "cache")}),
                      mock.patch.object(module, "BUILD", self.build), mock.patch.object(module, "SOURCES", (self.sources,)),
                      mock.patch.object(toolchain, "versions", list), mock.patch.object(proc, "logged", self.compile)):
            self.enterContext(patch)
        self.runs = []

    def write(self, text):
        (self.sources / "driver.rs").write_text(text)

    def compile(self, _title, _log, out, env=None):
        self.runs.append(out)
        (out / "made.ko").write_text((self.sources / "driver.rs").read_text())

    def made(self, kernel="um-1", *arguments):
        """Build it as another process would, and say what is in it."""
        built = types.SimpleNamespace(folder=self.folder / kernel, guest=types.SimpleNamespace(name="um"),
                                      module_environment=dict, module_command=lambda _sources, out, *_words, target: out)
        return module.build(built, self.sources, "module", "made.ko", arguments).read_text()

    def new_clone(self):
        shutil.rmtree(self.build)

    def test_a_new_clone_takes_what_was_made_of_the_same(self):
        self.assertEqual((self.made(), len(self.runs)), ("one", 1))
        self.new_clone()
        self.assertEqual((self.made(), len(self.runs)), ("one", 1))
        self.assertIn("made.ko for um was made of the same before", self.said.getvalue())
        source = (self.sources / "driver.rs").stat()
        self.assertGreaterEqual((self.build / "um/module/made.ko").stat().st_mtime, source.st_mtime)

    def test_a_copy_that_breaks_off_is_not_taken_for_made(self):
        self.made()
        self.new_clone()
        output = proc.output

        def breaks_off(*words):
            if words[0] == "cp":
                (words[-1] / "made.ko").write_text("on")
                raise say.LabError("no space left on device")
            return output(*words)

        with mock.patch.object(proc, "output", breaks_off), self.assertRaises(say.LabError):
            self.made()
        # The compiler would keep it, if it is newer than what it is made of.
        self.assertFalse((self.build / "um/module/made.ko").exists())
        self.assertEqual(self.made(), "one")

    def test_what_has_changed_is_made_anew(self):
        self.made()
        for change in (lambda: self.write("two"), lambda: (self.sources / "more.rs").write_text("")):
            self.new_clone()
            change()
            before = len(self.runs)
            self.assertEqual(self.made(), (self.sources / "driver.rs").read_text())
            self.assertEqual(len(self.runs), before + 1)
        for other in (("um-2",), ("um-1", "SWITCH=y")):
            self.new_clone()
            before = len(self.runs)
            self.made(*other)
            self.assertEqual(len(self.runs), before + 1)

    def test_what_nobody_took_for_a_day_goes_when_another_one_is_made(self):
        self.made()
        (held,) = (self.folder / "cache/locks").glob("module_um-*")
        os.utime(held, (0, 0))
        for text in ("two", "three"):
            self.new_clone()
            self.write(text)
            self.made()
        self.assertEqual(len([*(self.folder / "cache/module").iterdir()]), 2)

    def test_the_compiler_decides_where_there_is_one_already(self):
        self.made()
        self.write("two")
        self.assertEqual((self.made(), len(self.runs)), ("two", 2))


if __name__ == "__main__":
    unittest.main()
