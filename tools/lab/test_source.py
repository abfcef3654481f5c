# SPDX-License-Identifier: GPL-2.0
"""What is said of trees that KERNEL_SRC names and kernels for the guests cannot be built from."""

import pathlib
import tempfile
import unittest
from unittest import mock

from lab import cache, say, source

_KCONFIG = """config ANDROID_BINDER_IPC
	tristate "Android Binder IPC Driver"

config ANDROID_BINDER_IPC_RUST
	bool "Rust version of Android Binder IPC Driver"
	depends on RUST && MMU && NET && !ANDROID_BINDER_IPC
"""


class OwnTree(unittest.TestCase):
    """A tree of the user's."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "linux"
        self.write("Makefile", "VERSION = 7\nPATCHLEVEL = 3\n")
        self.write("drivers/android/Kconfig", _KCONFIG)
        for name, edits in source._EDITS.items():
            self.write(name, "".join(old for old, _ in edits))
        environment = {"KERNEL_SRC": str(self.tree), "RUST_BINDER_CACHE": f"{folder.name}/cache"}
        changed = mock.patch.dict("os.environ", environment)
        changed.start()
        self.addCleanup(changed.stop)
        # It may be a small disk that tests run on.
        room = mock.patch.object(cache, "need_space")
        room.start()
        self.addCleanup(room.stop)

    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def refused(self, words):
        with self.assertRaisesRegex(say.LabError, words):
            source.tree()

    def test_it_is_copied_and_both_drivers_can_be_modules(self):
        copy = source.tree()
        kconfig = (copy / "drivers/android/Kconfig").read_text()
        self.assertEqual(kconfig.count("\ttristate "), 2)
        self.assertNotIn("!ANDROID_BINDER_IPC", kconfig)
        self.assertEqual((self.tree / "drivers/android/Kconfig").read_text(), _KCONFIG)
        self.assertEqual(source.tree(), copy)

    def test_another_version(self):
        self.write("Makefile", "VERSION = 7\nPATCHLEVEL = 4\n")
        self.refused("is Linux 7.4: point it at a Linux 7.3 tree")

    def test_no_tree(self):
        (self.tree / "Makefile").unlink()
        self.refused("is no kernel tree")

    def test_a_tree_that_was_built_in(self):
        self.write(".config", "")
        self.refused("make -C .* mrproper")

    def test_a_tree_without_debians_changes(self):
        self.write("drivers/android/Kconfig", _KCONFIG.replace("tristate", "bool"))
        self.refused("built in only(.|\n)*linux-source-7.3 of Debian(.|\n)*tools/install-into-kernel")


if __name__ == "__main__":
    unittest.main()
