# SPDX-License-Identifier: GPL-2.0
"""QEMU: the machine that it emulates for each architecture, and the command line of a guest.

A guest has two lines out: its kernel's console, which goes to a file, and the line for the program's output.
"""

import dataclasses
import functools

from . import proc


@dataclasses.dataclass(frozen=True)
class Machine:
    """The emulated machine of one architecture."""

    program: str
    cpu: str
    # The machine type of QEMU with its properties; QEMU's default if empty.
    model: tuple = ()
    # For the kernel's command line, when its clock counts instructions, and when it does not.
    counted: str = ""
    timed: str = ""
    # QEMU's options for the line of the program's output, and its terminal in the guest.
    talk: tuple = ()
    tty: str = ""
    # The name of the kernel's console.
    console: str = ""
    # True if QEMU may have a thread for each CPU whatever the kernel does.
    at_once: bool = False


MACHINES = {
    "x86_64": Machine(
        "qemu-system-x86_64",
        # QEMU executes these two byte by byte; a kernel without them clears and copies by words instead.
        cpu="max,-erms,-fsrm",
        counted="norandmaps tsc=reliable",
        # On a busy host the timer ticks too late for the kernel's test of it at boot, which then panics.
        timed="no_timer_check",
        talk=("-serial", "chardev:talk"),
        tty="ttyS1",
        console="ttyS0",
    ),
    "arm64": Machine(
        "qemu-system-aarch64",
        # Pointers are signed by the architecture's own algorithm otherwise, which takes most of the emulation's time. The timer ticks
        # each nanosecond, as Armv8.6 has it; QEMU's own choice is 16.
        cpu="max,pauth-impdef=on,cntfrq=1000000000",
        model=("virt", "gic-version=3"),
        counted="norandmaps",
        # This machine has one serial port.
        talk=("-device", "virtio-serial-device", "-device", "virtconsole,chardev=talk"),
        tty="hvc0",
        console="ttyAMA0",
        # Its kernel has each CPU take notice of text that was rewritten.
        at_once=True,
    ),
    "riscv": Machine(
        "qemu-system-riscv64",
        cpu="rv64",
        model=("virt",),
        # QEMU 7.2 describes its processors in an old format, which kernels read with this option.
        counted="norandmaps riscv_isa_fallback",
        timed="riscv_isa_fallback",
        talk=("-device", "virtio-serial-device", "-device", "virtconsole,chardev=talk"),
        tty="hvc0",
        console="ttyS0",
        at_once=True,
    ),
}
# Instructions as time: the guest's clock counts them, and two runs are the same to the byte.
_COUNTED = ("-accel", "tcg", "-icount", "shift=0,sleep=off,align=off", "-smp", "1", "-seed", "1", "-rtc", "base=2026-01-01,clock=vm")


def command(kernel, job, initrd, console):
    """The call that boots a guest: it talks on our standard input and output, and its kernel writes into the file `console`."""
    machine = MACHINES[kernel.guest.arch]
    extra = [machine.counted if job.icount else machine.timed]
    line = " ".join([f"console={machine.console} panic=-1 loglevel=5", *filter(None, extra), *kernel.guest.boot, *job.boot])
    return [machine.program, *words(kernel, job), *job.qemu, "-m", job.memory, "-display", "none", "-no-reboot",
            "-nodefaults", "-serial", f"file:{console}", "-chardev", "stdio,id=talk,signal=off", *machine.talk,
            "-kernel", kernel.image, "-initrd", initrd, "-append", line]


def two_nodes(memory):
    """Words that give each of two CPUs half of so many megabytes as memory of its own."""
    # CPUs of one socket are taken for being on one node.
    found = ["-smp", "2,sockets=2"]
    for node in (0, 1):
        found += ["-object", f"memory-backend-ram,id=node{node},size={memory // 2}M", "-numa", f"node,nodeid={node},cpus={node},memdev=node{node}"]
    return tuple(found)


def words(kernel, job):
    """The options for the machine that QEMU emulates."""
    machine = MACHINES[kernel.guest.arch]
    model = [*machine.model, *kernel.guest.machine]
    return [*(["-M", ",".join(model)] if model else []), "-cpu", machine.cpu, *(_COUNTED if job.icount else _timed(kernel, job))]


def _timed(kernel, job):
    # With a thread for each CPU, QEMU 7.2 may execute an old translation of x86-64's text after another CPU has rewritten it, so CPUs take
    # turns there.
    return ["-accel", "tcg,thread=multi" if kernel.guest.at_once or MACHINES[kernel.guest.arch].at_once else "tcg,thread=single", "-smp", str(job.cpus)]


@functools.cache
def version(arch):
    """QEMU's version."""
    return proc.output(MACHINES[arch].program, "--version")
