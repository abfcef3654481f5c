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

    def test_the_compiler_decides_where_there_is_one_already(self):
        self.made()
        self.write("two")
        self.assertEqual((self.made(), len(self.runs)), ("two", 2))


if __name__ == "__main__":
    unittest.main()
