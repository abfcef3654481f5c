# SPDX-License-Identifier: GPL-2.0
"""The null block device on Debian's kernel."""

import parts
from lab import guest, kernel

# What the script `nullb/test` prints.
_EXPECTED = """\
at once: nullb0, 524288000
irqmode=0: 0 failed
irqmode=1 submit_queues=2 hw_queue_depth=4: 0 failed
irqmode=2 completion_nsec=200000: 0 failed
irqmode=0 blocksize=4096 blocking=1: 0 failed
irqmode=0 cache_size=1: 0 failed
irqmode=1 blocksize=4096 cache_size=32 fua=0: 0 failed
shape: 32768 1 32 4294966784 write through
discarded: 0 bytes are left, not those before
on: Device or resource busy
folder: Resource temporarily unavailable
off and on: 65536, with its data
size x: Invalid argument
size 99999999999999999999: Invalid argument
size -1: Invalid argument
open: Resource temporarily unavailable
bad: 10 2,14 7, bad
before the bad ones: 5120 bytes, now good
bad 5-6: Invalid argument
bad +6-5: Invalid argument
bad +5: Invalid argument
bad +x-y: Invalid argument
once: bad, then good; without memory: Invalid argument
log: 4, on: Device or resource busy
2 changes: 12
4 changes: 02
3 changes: 32
0 changes: 0
1 changes: 10
log: 2, off: Invalid argument
2 changes: 14
with data: Invalid argument; no log: Invalid argument
long: File name too long
blocksize=768: Invalid argument
blocksize=8192: Invalid argument
queue_mode=0: Invalid argument
hw_queue_depth=0: Invalid argument
home_node=7: Invalid argument
home_node=5000: Invalid argument
max_sectors=7: Invalid argument
cuts, blocks of 512: some are lost, some kept
cuts, blocks of 4096: some are lost, some kept
unloaded
bs=768: Invalid argument
nr_devices=-1: Invalid argument
parameters: 2097152 2097152 4096, 0 failed
taken: File exists
nullb0: TAG_QUEUE_SHARED
nullb1: TAG_QUEUE_SHARED
nullb2: TAG_QUEUE_SHARED
nullb02:
own: TAG_HCTX_SHARED
unloaded: 0 disks
both: nullb0 nullb_rust0
beside null_blk: 524288000 524288000
null_blk has no write_log
null_blk has no powercut
null_blk has no replay
"""
# Of losses of power in a test, with a file system.
_CUTS = 8
_FORGETFUL = "CONFIG_NULLB_FORGETS_FLUSHES=y"


def test_disks():
    output = _run("disks", ["/lab/test"], {"/lab/test": parts.HERE / "nullb/test"} | parts.nullb() | parts.modules("configfs", "null_blk")
                  | parts.engine("dev") | parts.program("nullb/cuts.rs"))
    assert output == _EXPECTED


def test_ext4_survives():
    assert ext4(_CUTS) == f"{_CUTS} cuts, all files are there; states behind writes have no error\n"


def test_a_cache_that_forgets_is_noticed():
    assert "\ncut " in "\n" + ext4(_CUTS, _FORGETFUL)
    script = ("insmod /lab/configfs.ko && insmod /lab/nullb_rust.ko && /lab/nullb a size=2 memory_backed=1 cache_size=1\n"
              "/lab/cuts /sys/kernel/config/nullb/a /dev/a 512 1 1 2>&1 | grep -o 'not one of'")
    output = _run("a forgetful cache", ["-c", script], parts.nullb(_FORGETFUL) | parts.modules("configfs") | parts.program("nullb/cuts.rs"))
    assert output == "not one of\n"


def ext4(cuts, *options):
    """What the script `nullb/ext4` prints."""
    return _run(f"{cuts} losses of power with ext4", ["/lab/ext4", str(cuts)], {"/lab/ext4": parts.HERE / "nullb/ext4"} | parts.nullb(*options)
                | parts.modules("configfs") | parts.ext4() | parts.program("nullb/crash.rs"))


def _run(title, words, files):
    job = guest.Job(argv=["/bin/sh", *words], driver="none", files=files, timeout=600)
    return guest.succeed(title, kernel.build(parts.GUEST), job).output
