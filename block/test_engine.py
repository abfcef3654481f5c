# SPDX-License-Identifier: GPL-2.0
"""Disks of engine/ on Debian's kernel."""

import parts
from lab import guest, kernel

# What the script `disks` prints.
_EXPECTED = """ram: 0 failed
discarded: 0 bytes are left
file: 0 failed, blocks of 4096, write back
kept: yes
cached: 0 failed
cached: some data are in the cache alone
cached: the same after the server was killed
Error: /tmp/data

Caused by:
    the file has something that is no cache
flaky: some failed
slow: more than a second
Error: the block size is a power of two from 512 to 4096, not 1000
Error: /tmp/none

Caused by:
    No such file or directory (os error 2)
panics: the write fails
panics: the server has ended by signal 6
panics: the write fails
panics: the server has ended by signal 6
thirty: 0 failed
distant: 0 failed
distant: many at a time
"""


def test_readme_shows_the_disk_in_thirty_lines():
    """Without its two lines of comment."""
    code = (parts.HERE / "engine/examples/thirty.rs").read_text().split("\n\n", 1)[1]
    assert code.count("\n") <= 30
    assert f"```rust,no_run\n{code}```" in (parts.HERE / "engine/README.md").read_text()


def test_storages():
    parts.cargo("engine", "test", "--lib")


def test_disks_in_a_guest():
    files = {"/lab/disks": parts.HERE / "disks", **parts.modules("ublk_drv"), **parts.engine("dev")}
    job = guest.Job(argv=["/bin/sh", "/lab/disks"], driver="none", files=files, timeout=300)
    result = guest.succeed("disks of block/engine", kernel.build(parts.GUEST), job)
    assert result.output == _EXPECTED
