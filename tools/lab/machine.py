# SPDX-License-Identifier: GPL-2.0
"""A whole Debian machine with systemd and a stock kernel, on a disk of its own.

While it is off, commands run in its root by chroot, at native speed; on, they run in it as a service, under QEMU. The
disk is a file with one filesystem. Who calls this is root, which loop devices need.
"""

import os
import pathlib
import shlex
import subprocess
import tempfile

from . import cache, debian, proc, say

# What a machine of somebody who may want the packages has beside its kernel: a step of a test is /lab/step, and its words
# go to the second serial line.
_SERVICE = """
[Unit]
After=multi-user.target
[Service]
Type=idle
ExecStart=/bin/sh /lab/step
ExecStopPost=/bin/systemctl poweroff --force
StandardOutput=tty
StandardError=inherit
TTYPath=/dev/ttyS1
[Install]
WantedBy=default.target
"""
_CUSTOMIZE = f"""
printf %s {shlex.quote(_SERVICE)} >"$1/etc/systemd/system/lab.service"
chroot "$1" systemctl --quiet enable lab.service
chroot "$1" systemctl --quiet mask serial-getty@ttyS0.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer
mkdir -p "$1/lab"
echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/lab"
: >"$1/etc/fstab"
"""
# Drivers of QEMU's devices alone: the first filesystem is smaller, and unpacked sooner.
_INITRAMFS = """
mkdir -p "$1/etc/initramfs-tools/conf.d"
echo MODULES=list >"$1/etc/initramfs-tools/conf.d/lab"
printf '%s\\n' virtio_pci virtio_blk ext4 >>"$1/etc/initramfs-tools/modules"
"""
_OFF = """
disk=$1
root=$(mktemp -d)
mount -o loop "$disk" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
status=0
chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    sh /lab/step || status=$?
umount -l "$root/dev"
umount "$root/proc"
# What a package's script has left behind ends within seconds.
tries=0
until umount "$root" 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 60 ]
    sleep 0.5
done
rmdir "$root"
exit $status
"""
_COPY = """
root=$(mktemp -d)
mount -o loop "$1" "$root"
shift
while [ $# -gt 0 ]; do mkdir -p "$(dirname "$root/$2")"; cp -pL "$1" "$root/$2"; shift 2; done
"""


class Machine:
    """A machine whose disk is the file `disk`."""

    def __init__(self, disk):
        self.disk = pathlib.Path(disk)

    def put(self, files):
        """Lay files of the host at paths of the machine, which is off."""
        words = [word for where, path in files.items() for word in (path, where.lstrip("/"))]
        _inside(_COPY, self.disk, *words)

    def off(self, title, script, files=None):
        """What the shell script `script` prints in the machine's root while it is off; it must succeed."""
        with tempfile.NamedTemporaryFile("w") as step:
            step.write(script)
            step.flush()
            self.put({**(files or {}), "lab/step": step.name})
        log = proc.logged(title, "machine-off", ["unshare", "--mount", "sh", "-euc", _OFF, "sh", self.disk])
        return log.read_text()

    def on(self, title, release, script, files=None, boot=(), timeout=600):
        """What it prints on the machine, which is started for it with the kernel `release` and ends with it."""
        with tempfile.TemporaryDirectory() as folder, say.Step(title):
            folder = pathlib.Path(folder)
            (folder / "step").write_text(script)
            self.put({**(files or {}), "lab/step": folder / "step"})
            _inside('root=$(mktemp -d); mount -o loop,ro "$1" "$root"; cp -L "$root/boot/vmlinuz-$2" "$root/boot/initrd.img-$2" "$3"',
                    self.disk, release, folder)
            argv = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "1536", "-display", "none",
                    "-no-reboot", "-nodefaults", "-serial", f"file:{folder}/console", "-serial", f"file:{folder}/words",
                    "-drive", f"file={self.disk},format=raw,if=virtio,cache=unsafe", "-kernel", folder / f"vmlinuz-{release}",
                    "-initrd", folder / f"initrd.img-{release}",
                    "-append", " ".join(["root=/dev/vda rw console=ttyS0 panic=-1 no_timer_check", *boot])]
            try:
                subprocess.run(["setpriv", "--pdeathsig", "KILL", *map(str, argv)], timeout=timeout, check=True,
                               capture_output=True, text=True)
            except subprocess.TimeoutExpired:
                raise say.LabError(f"the machine did not end within {timeout} s: {_end(folder)}") from None
            except subprocess.CalledProcessError as error:
                raise say.LabError(f"QEMU failed: {error.stderr}") from None
            words = (folder / "words").read_text(errors="replace").replace("\r", "")
            if "@@ end" not in words:
                raise say.LabError(f"the machine ended before its step did: {words[-500:]} {_end(folder)}")
            return words


def debian_13(kernel_packages, packages):
    """A disk with Debian 13, its backports, a kernel and more packages; a file of the cache, to be copied."""
    if os.geteuid() != 0:
        raise say.LabError("a Debian machine is made by root, who may mount its disk")
    inputs = [debian.mirror(), kernel_packages, packages, _SERVICE, _CUSTOMIZE, _INITRAMFS]

    def make(part):
        cache.need_space(8, "a Debian machine")
        part.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as disk:
            disk.truncate(12 << 30)
        proc.output("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", part)
        base = "systemd-sysv,udev,kmod,initramfs-tools,dbus,ca-certificates,procps"
        folder = part.with_name(part.name + ".root")
        sources = [f"deb {debian.mirror()} {suite} main" for suite in ("trixie", "trixie-backports")]
        proc.logged("installing Debian 13", "machine", [
            "unshare", "--mount", "sh", "-euc", 'mkdir -p "$1"; mount -o loop "$2" "$1"; shift 2; exec "$@"', "sh", folder, part,
            "mmdebstrap", "--variant=minbase", f"--include={base}", "--aptopt=APT::Install-Recommends \"false\"",
            "--skip=check/empty,cleanup/apt/lists", f"--customize-hook={_CUSTOMIZE}", f"--customize-hook={_INITRAMFS}",
            "trixie", folder, *sources])
        proc.output("rmdir", folder)
        Machine(part).off("installing its kernel and compilers", "set -eu\napt-get update\n"
                          f"apt-get install -y --no-install-recommends {' '.join(kernel_packages)}\n"
                          f"apt-get install -y --no-install-recommends {' '.join(packages)}\napt-get clean\n")

    return cache.entry(f"machine/debian-13-{cache.key(*inputs)}", make)


def _inside(script, *arguments):
    """Run a shell script in a mount namespace of its own, which ends with it."""
    proc.output("unshare", "--mount", "sh", "-euc", script, "sh", *arguments)


def _end(folder):
    return " | ".join((folder / "console").read_text(errors="replace").splitlines()[-8:])
