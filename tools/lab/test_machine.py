# SPDX-License-Identifier: GPL-2.0
"""Whether a machine's disk is left as it was found: no folder, no mount and no process stays, however the lab ends."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from lab import machine, proc, say
from lab.versions import ROOT

_BUSYBOX = "/bin/busybox"
_NEEDED = os.geteuid() == 0 and shutil.which("mkfs.ext4") and os.path.exists(_BUSYBOX) and os.path.exists("/dev/loop-control")


@unittest.skipUnless(_NEEDED, "loop devices want root, and a disk e2fsprogs and busybox")
class Disk(unittest.TestCase):
    """A disk with a shell."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        tempfile.tempdir = str(self.temporary)
        disk = self.folder / "disk"
        with open(disk, "wb") as made:
            made.truncate(16 << 20)
        proc.output("mkfs.ext4", "-q", "-F", disk)
        self.box = machine.Machine(disk)
        self.box.put({name: _BUSYBOX for name in ("bin/sh", "bin/cat", "bin/sleep", "usr/bin/env", "proc/none", "dev/none")})

    def tearDown(self):
        self.assertEqual([path.name for path in self.temporary.iterdir()], [])

    def test_what_was_put_is_there_while_it_is_off(self):
        self.box.put({"lab/words": self.file("said\n")})
        self.assertEqual(self.box.off("reading", "cat /lab/words; cat /proc/1/comm"), "said\nsh\n")

    def test_a_step_that_fails_leaves_nothing_either(self):
        with self.assertRaises(say.LabError):
            self.box.off("failing", "exit 3")

    def test_a_file_that_is_missing_leaves_nothing_either(self):
        with self.assertRaises(say.LabError):
            self.box.put({"lab/words": self.folder / "none"})

    def test_what_a_step_began_ends_with_it(self):
        self.box.off("leaving something behind", "sleep 4711 & echo begun")
        self.assertEqual(_processes("4711"), [])

    def file(self, text):
        path = self.folder / "file"
        path.write_text(text)
        return path


@unittest.skipUnless(os.geteuid() == 0, "namespaces without a user's own want root")
class Killed(unittest.TestCase):
    """The lab itself is killed in the middle of a step."""

    def test_all_that_it_began_ends(self):
        code = ("import subprocess; from lab import machine; "
                "subprocess.run(machine._inside('sh -c \"sleep 4712; :\" & echo begun; wait'))")
        lab = subprocess.Popen([sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(ROOT / "tools")})
        self.assertEqual(lab.stdout.readline(), "begun\n")
        lab.send_signal(signal.SIGKILL)
        # Who is left holds the other end.
        self.assertEqual(lab.communicate(timeout=30), ("", None))
        self.assertEqual(_processes("4712"), [])


def _processes(word):
    """The command lines that have this word, as `sleep` has it."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if word in words:
            found.append(words)
    return found


if __name__ == "__main__":
    unittest.main()
