# SPDX-License-Identifier: GPL-2.0
"""Whether an installation into a kernel tree can be done again, and gone on with; which kernel that is made of such a tree is present."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from lab import cache, install, kernel, say, source

_KCONFIG = "config ANDROID_BINDER_IPC_RUST\n\tbool \"Rust version\"\n"
_FILES = {
    "Makefile": "VERSION = 7\nPATCHLEVEL = 3\n",
    "drivers/android/Kconfig": _KCONFIG,
    "drivers/android/Makefile": "obj-$(CONFIG_ANDROID_BINDER_IPC_RUST) += binder/\n",
    "drivers/android/binder/rust_binder_main.rs": "",
    "rust/bindings/bindings_helper.h": "#if IS_ENABLED(CONFIG_ANDROID_BINDER_IPC_RUST)\n#include <x.h>\n#endif\n",
}


def tree_in(folder):
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


class InFolder(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)


class Tree(InFolder):
    def setUp(self):
        super().setUp()
        self.tree = tree_in(self.folder)

    def test_all_is_there_and_doing_it_again_changes_nothing(self):
        self.assertTrue(install.lay_into(self.tree))
        for name in install.files():
            self.assertTrue((self.tree / name).exists(), name)
        self.assertFalse((self.tree / "drivers/android/binder").exists())
        self.assertEqual(install.lay_into(self.tree), [])

    def test_bindings_in_lines_that_are_not_known(self):
        include = '#include "../../drivers/android/binder/rust_binder.h"\n'
        self.assertEqual(install.bindings(f"a\n#if IS_ENABLED(CONFIG_ANDROID_BINDER_IPC_RUST)\n{include}#endif\n"), "a\n")
        with self.assertRaisesRegex(say.LabError, "not known here"):
            install.bindings(f"#ifdef CONFIG_ANDROID_BINDER_IPC_RUST\n{include}#endif\n")

    def test_one_that_was_interrupted_goes_on(self):
        write, written = install._write, []

        def interrupted(path, text):
            written.append(path)
            if len(written) == 5:
                raise KeyboardInterrupt
            return write(path, text)

        with mock.patch.object(install, "_write", interrupted), self.assertRaises(KeyboardInterrupt):
            install.lay_into(self.tree)
        self.assertTrue(install.lay_into(self.tree))
        self.assertEqual(install.lay_into(self.tree), [])

    def test_what_is_not_ours_stays(self):
        theirs = self.tree / install.files()[0]
        theirs.parent.mkdir(parents=True, exist_ok=True)
        theirs.write_text("theirs")
        with self.assertRaisesRegex(say.LabError, "not ours: use a clean tree"):
            install.lay_into(self.tree)
        self.assertEqual(theirs.read_text(), "theirs")

    def test_what_left_us_leaves_the_tree(self):
        install.lay_into(self.tree)
        manifest = self.tree / install.MANIFEST
        gone = self.tree / "drivers/android/gone.rs"
        gone.write_text("")
        manifest.write_text(manifest.read_text() + "drivers/android/gone.rs\n")
        self.assertEqual(install.lay_into(self.tree), ["drivers/android/gone.rs"])
        self.assertFalse(gone.exists())


class BuiltIn(InFolder):
    """Kernels of two configurations, which are made of one tree."""

    def setUp(self):
        super().setUp()
        self.driver = "one"
        self.tree = self.folder / "cache/source/builtin/tree"
        self.tree.mkdir(parents=True)
        guest = kernel.GUESTS["x86_64-builtin"]
        self.guest = guest
        for patch in (
            mock.patch.dict(os.environ, {"RUST_BINDER_CACHE": str(self.folder / "cache")}),
            mock.patch.object(kernel, "BUILD", self.folder / "build"),
            mock.patch.object(kernel, "build", lambda name: kernel.Kernel(guest, self.folder, self.folder / "like")),
            mock.patch.object(kernel, "copy_objects", lambda *_: None),
            mock.patch.object(kernel, "_build", self.make),
            mock.patch.object(source, "builtin_tree", lambda *_: self.tree),
            mock.patch.object(install, "lay_into", lambda tree: (tree / "driver.rs").write_text(self.driver)),
            mock.patch.object(install, "digest", lambda tree: cache.content(tree / "driver.rs")),
        ):
            self.enterContext(patch)

    def make(self, made, _fragments, _like):
        image = made.folder / kernel._IMAGES[self.guest.arch]
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_text((self.tree / "driver.rs").read_text())

    def built(self, configuration):
        return kernel._build_builtin(self.guest, self.folder, [], [configuration]).image.read_text()

    def test_each_has_the_present_driver(self):
        self.assertEqual(self.built("first"), "one")
        self.driver = "two"
        self.assertEqual(self.built("second"), "two")
        self.assertEqual(self.built("first"), "two")


if __name__ == "__main__":
    unittest.main()
