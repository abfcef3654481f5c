# SPDX-License-Identifier: GPL-2.0
"""The driver of disks in user space on Debian's kernel, with some of the kernel's own tests; `make -C block selftests` runs all."""

import re

import parts
import suites
from lab import guest, kernel

# What the script `ublk/test` prints.
_EXPECTED = """\
way copy: the same
way -g: the same
way -u: the same
way -z: the same
way --auto_zc: the same
latency before: 1
latency: 20 requests; Invalid argument
of another device: 0 requests
events: 20 20
open: Resource temporarily unavailable
ublk_drv finds its name taken
thirty: 0 failed
unloaded
and so does ublk_rust
beside: ublk-control ublkb0 ublkb5 ublkc0 ublkc5 mine-control mineb5 minec5; the same
unloaded
"""
# Of the kernel's tests, those that take a few seconds each.
_SOME = ("generic_03", "generic_10", "generic_16", "loop_02", "loop_07", "part_01", "stripe_06")
_KINDS = 20


def test_disks():
    output = _run("disks", ["/lab/test"], {"/lab/test": parts.HERE / "ublk/test"} | parts.kublk() | parts.modules("ublk_drv") | parts.engine("dev"))
    assert output == _EXPECTED


def test_killed_servers():
    found = re.findall(r"^.*, recovery .*: (\d+) killed before, (\d+) after$", kills(4 * _KINDS), re.M)
    assert len(found) == _KINDS and all(sum(map(int, counts)) == 4 for counts in found)


def test_some_of_the_kernels():
    found, table = suites.selftests(parts.ublk(), _SOME), suites.recorded("ublk/selftests")
    assert {name: outcome.result for name, outcome in found.items()} == {name: table[name] for name in _SOME}
    assert table.keys() == set(suites.shell_tests())


def kills(count, name=parts.GUEST):
    """What is printed when at least so many servers are killed in a guest, as many of each kind."""
    files = parts.with_liburing("kills", parts.HERE / "ublk/kills.c")
    return _run(f"{count} killed servers", ["-c", f"insmod /lab/ublk_rust.ko && /lab/kills {-(-count // _KINDS)} && rmmod ublk_rust"], files, name)


def _run(title, words, files, name=parts.GUEST):
    job = guest.Job(argv=["/bin/sh", *words], driver="none", files=files | parts.ublk(name), cpus=2, timeout=8 * 3600)
    return guest.succeed(title, kernel.build(name), job).output
