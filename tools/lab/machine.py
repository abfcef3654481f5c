# SPDX-License-Identifier: GPL-2.0
"""A whole Debian machine with systemd and a stock kernel, on a disk of its own.

While it is off, commands run in its root by chroot, at native speed; on, they run in it as a service, under QEMU. The
disk is a file with one filesystem. The caller must be root, for loop devices.
"""

import contextlib
import os
import pathlib
import shlex
import subprocess
import tempfile

from . import cache, debian, proc, say

# The service that a user's machine has beside its kernel: a step of a test is /lab/step, and its output
# goes to the second serial line.
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
# In namespaces of its own, and as long as this program lives, whichever way that ends: no process stays, and no mount.
_ALONE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_OFF = """
root=$1
mount -o loop "$2" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
status=0
chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    sh /lab/step || status=$?
# Processes that a package's script has left behind end, as on a machine that is turned off.
kill -TERM -1 2>/dev/null || true
umount -l "$root/dev"
umount "$root/proc"
tries=0
until umount "$root" 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 60 ]
    sleep 0.5
done
exit $status
"""
# Runs a command in the root of the disk.
_MOUNTED = 'mount -o loop "$2" "$1"; root=$1; shift 2; cd "$root"; "$@"; cd /; umount "$root"'
_COPY = 'while [ $# -gt 0 ]; do mkdir -p "$(dirname "$2")"; cp -pL "$1" "$2"; shift 2; done'


class Machine:
    """A machine whose disk is the file `disk`."""

    def __init__(self, disk):
        self.disk = pathlib.Path(disk)

    def put(self, files):
        """Lay files of the host at paths of the machine, which is off."""
        words = [word for where, path in files.items() for word in (path, where.lstrip("/"))]
        self._mounted("sh", "-euc", _COPY, "sh", *words)

    def _mounted(self, *argv):
        with _mount_point() as root:
            proc.output(*_inside(_MOUNTED, root, self.disk, *argv))

    def off(self, title, script, files=None):
        """The output of the shell script `script` in the machine's root while it is off; the script must succeed."""
        with tempfile.NamedTemporaryFile("w") as step:
            step.write(script)
            step.flush()
            self.put({**(files or {}), "lab/step": step.name})
        with _mount_point() as root:
            return proc.logged(title, "machine-off", _inside(_OFF, root, self.disk)).read_text()

    def on(self, title, release, script, files=None, boot=(), timeout=600):
        """The output of `script` on the machine, which is started with the kernel `release` and ends with the script."""
        with tempfile.TemporaryDirectory() as folder, say.Step(title):
            folder = pathlib.Path(folder)
            (folder / "step").write_text(script)
            self.put({**(files or {}), "lab/step": folder / "step"})
            self._mounted("cp", "-L", f"boot/vmlinuz-{release}", f"boot/initrd.img-{release}", folder)
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


def debian_of(suites, kernel_packages, packages):
    """A disk with a Debian, its suite being the first of `suites`, a kernel and more packages; a file of the cache, to be copied."""
    if os.geteuid() != 0:
        raise say.LabError("only root can make a Debian machine, whose disk must be mounted")
    inputs = [debian.mirror(), suites, kernel_packages, packages, _SERVICE, _CUSTOMIZE, _INITRAMFS]

    def make(part):
        cache.need_space(8, "a Debian machine")
        part.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as disk:
            disk.truncate(12 << 30)
        proc.output("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", part)
        _install(part, suites)
        Machine(part).off("installing its kernel and compilers", "set -eu\napt-get update\n"
                          f"apt-get install -y --no-install-recommends {' '.join(kernel_packages)}\n"
                          f"apt-get install -y --no-install-recommends {' '.join(packages)}\napt-get clean\n")

    return cache.entry(f"machine/debian-{suites[0]}-{cache.key(*inputs)}", make)


def _install(disk, suites):
    """Debian itself, without a kernel, on a disk that has an empty filesystem."""
    base = "systemd-sysv,udev,kmod,initramfs-tools,dbus,ca-certificates,procps"
    sources = [f"deb {debian.mirror()} {suite} main" for suite in suites]
    with _mount_point() as root, tempfile.NamedTemporaryFile("w") as options:
        # Proxies, and what else the mirror needs.
        options.write(proc.output("apt-config", "dump", "Acquire"))
        options.flush()
        argv = _inside(_MOUNTED, root, disk, "mmdebstrap", "--variant=minbase", f"--include={base}", f"--aptopt={options.name}",
                       "--aptopt=APT::Install-Recommends \"false\"", "--skip=check/empty,cleanup/apt/lists",
                       f"--customize-hook={_CUSTOMIZE}", f"--customize-hook={_INITRAMFS}", suites[0], root, *sources)
        try:
            proc.logged(f"installing Debian {suites[0]}", "machine", argv)
        except say.LabError as error:
            raise say.LabError(f"is {debian.mirror()} reachable, and does it have {' and '.join(suites)}?\n{error}") from None


@contextlib.contextmanager
def _mount_point():
    """A folder to mount a disk at. Nothing is mounted there outside of the namespaces of who does that."""
    root = tempfile.mkdtemp(prefix="machine-")
    try:
        yield root
    finally:
        os.rmdir(root)


def _inside(script, *arguments):
    """The command line of a shell script that runs there, which may mount things and leaves none."""
    return [*_ALONE, "sh", "-euc", script, "sh", *arguments]


def _end(folder):
    return " | ".join((folder / "console").read_text(errors="replace").splitlines()[-8:])
