# SPDX-License-Identifier: GPL-2.0
"""What programs out of packages need, for whichever processor they are.

    PYTHONPATH=tools python3 -m unittest lab.test_foreign
"""

import pathlib
import tempfile
import unittest
import unittest.mock

from . import foreign, say

_LISTED = {
    "program": " 0x0000000000000001 (NEEDED)             Shared library: [libone.so.1]\n 0x000000000000000e (SONAME)  Library soname: [x]\n",
    "libone.so.1": " 0x0000000000000001 (NEEDED)             Shared library: [libtwo.so.2]\n",
    "libtwo.so.2": " 0x0000000000000001 (NEEDED)             Shared library: [libone.so.1]\n",
}


class Needed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        said = unittest.mock.patch.object(foreign.proc, "output", lambda *words: _LISTED[pathlib.Path(words[-1]).name])
        said.start()
        self.addCleanup(said.stop)

    def needed(self):
        return foreign.needed([self.folder / "program"], [self.folder / "nowhere", self.folder])

    def test_what_libraries_need_is_there_once(self):
        for name in ("libone.so.1", "libtwo.so.2"):
            (self.folder / name).touch()
        self.assertEqual(self.needed(), {name: self.folder / name for name in ("libone.so.1", "libtwo.so.2")})

    def test_what_is_missing_is_named(self):
        (self.folder / "libone.so.1").touch()
        with self.assertRaisesRegex(say.LabError, "libtwo.so.2 is in none of"):
            self.needed()


class Roots(unittest.TestCase):
    def test_packages_are_of_the_guests_architecture(self):
        with unittest.mock.patch.object(foreign, "root", lambda section: section):
            section = {"package": "stress-ng"}
            self.assertEqual(foreign.root_for(section, "um"), section)
            self.assertEqual(foreign.root_for(section, "x86_64"), section)
            self.assertEqual(foreign.root_for(section, "arm64"), section | {"architecture": "arm64"})


if __name__ == "__main__":
    unittest.main()
