# SPDX-License-Identifier: GPL-2.0
"""A machine's disk is left as it was found: no folder, no mount and no process stays, however the lab ends."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from . import machine, proc, say
from .versions import ROOT

BUSYBOX = "/bin/busybox"
IS_ROOT = os.geteuid() == 0
HAS_LOOPS = IS_ROOT and shutil.which("mkfs.ext4") and os.path.exists(BUSYBOX) and os.path.exists("/dev/loop-control")


@pytest.fixture
def box(tmp_path, monkeypatch):
    """A machine whose disk has a shell."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    disk = tmp_path / "disk"
    with open(disk, "wb") as made:
        made.truncate(16 << 20)
    proc.output("mkfs.ext4", "-q", "-F", disk)
    box = machine.Machine(disk)
    box.put({name: BUSYBOX for name in ("bin/sh", "bin/cat", "bin/sleep", "usr/bin/env", "proc/none", "dev/none")})
    yield box
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.skipif(not HAS_LOOPS, reason="loop devices need root, and a disk e2fsprogs and busybox")
def test_a_step_leaves_nothing_however_it_ends(box, tmp_path):
    (tmp_path / "words").write_text("said\n")
    box.put({"lab/words": tmp_path / "words"})
    assert box.off("reading", "cat /lab/words; cat /proc/1/comm") == "said\nsh\n"
    with pytest.raises(say.LabError):
        box.off("failing", "exit 3")
    with pytest.raises(say.LabError):
        box.put({"lab/words": tmp_path / "none"})
    box.off("leaving something behind", "sleep 4711 & echo begun")
    assert processes("4711") == []


@pytest.mark.skipif(not IS_ROOT, reason="namespaces without a user namespace need root")
def test_all_that_a_step_began_ends_when_the_lab_is_killed():
    code = ("import subprocess; from lab import machine; "
            "subprocess.run(machine._inside('sh -c \"sleep 4712; :\" & echo begun; wait'))")
    lab = subprocess.Popen([sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "tools")})
    assert lab.stdout.readline() == "begun\n"
    lab.send_signal(signal.SIGKILL)
    # A process that is left holds the other end.
    assert lab.communicate(timeout=30) == ("", None)
    assert processes("4712") == []


def processes(word):
    """The processes whose command lines have this word, as `sleep` has it."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if word in path.read_bytes().decode(errors="replace").split("\0") else []
        except OSError:
            continue
    return found
