# SPDX-License-Identifier: GPL-2.0
"""The life of our packages on a Debian machine: installed, used, brought to another kernel, locked out, purged."""

import pathlib
import re
import tempfile

from . import clients, deb, machine, packages, proc
from .versions import PINNED, ROOT

_PINS = PINNED["machine"]
_SCRIPTS = ROOT / "tests/packages"
_FIRST, _SECOND = (_PINS[name]["release"] for name in ("first", "second"))
_LINE = re.compile(r"^(not )?ok \d+ - .*(?:\n# .*)*", re.M)
# What a script that runs in the machine's root finds there.
_APT = "set -eu\ncd /lab\ninstall='apt-get install -y --no-install-recommends'\n"
# All files but those that other packages, programs and the test itself write.
_LIST = r"""
find / -xdev \( -path /proc -o -path /dev -o -path /lab -o -path /srv -o -path /tmp -o -path /run -o -path /var/log \
    -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /home \
    -o -path /usr/lib/modules -o -path /usr/src -o -path /boot -o -path /var/lib/initramfs-tools \) -prune -o -print |
    grep -v '^/var/lib/dkms/mok\|^/etc/.*-$' | sort
"""


def run():
    """Every step in its order; whether all went well."""
    packages.ensure("um", "deb_test")
    made = {f"lab/{path.name}": path for path in deb.build()}
    base = machine.debian_13(_versions("first", "image", "headers"), _PINS["packages"])
    with tempfile.TemporaryDirectory(prefix="life-", dir=base.parent) as folder:
        disk = pathlib.Path(folder) / "disk"
        proc.output("cp", "--sparse=always", base, disk)
        steps = _life(machine.Machine(disk), made)
    print("\n".join(steps.lines))
    print(f"\n{steps.passed} passed, {steps.failed} failed")
    return 1 if steps.failed else 0


class _Steps:
    """What the steps have found."""

    def __init__(self):
        self.lines, self.passed, self.failed = [], 0, 0

    def add(self, where, words):
        """The checks among the words of a script."""
        found = [match.group() for match in _LINE.finditer(words)]
        wrong = [line for line in found if line.startswith("not")]
        self.passed += len(found) - len(wrong)
        self.failed += len(wrong)
        self.lines += [f"{where}: {len(found) - len(wrong)} of {len(found)}", *wrong]

    def check(self, name, good, words=""):
        """One check of its own."""
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        self.lines += [f"{name}: {'yes' if good else 'no'}", *([] if good else words.splitlines()[-15:])]


def _life(box, made):
    steps = _Steps()
    before = _files(box)
    _install(box, steps, made)
    box.put({f"lab/{name}": _SCRIPTS / name for name in ("check", "used", "purged", "locked")} | _clients())
    _use(box, steps, _FIRST)
    _upgrade(box, steps)
    _lock(box, steps)
    _use(box, steps, _SECOND, ". /lab/purged")
    left = sorted(path for path in _files(box) - before if _SECOND not in path and "linux-" not in path)
    steps.check("nothing is left", not left, "\n".join(left))
    return steps


def _install(box, steps, made):
    """First without the kernel's source, which then comes."""
    words = box.off("installing the packages without source", f"{_APT}$install ./*.deb\n", made)
    steps.check("a kernel without its source is told how to get it", "apt install linux-source-7.2=" in words, words)
    words = box.off(f"installing source, and compiling for {_FIRST}",
                    f"{_APT}$install {_versions('first', 'source')[0]}\nmodinfo -k {_FIRST} binder_rust")
    steps.check(f"the module is compiled for {_FIRST} when it has come", "vermagic" in words, words)


def _use(box, steps, release, more=""):
    steps.add(f"used on {release}", box.on(f"starting it with {release}", release, f". /lab/used\n{more}\nend", timeout=1200))


def _upgrade(box, steps):
    words = box.off(f"installing {_SECOND}, and compiling for it", f"{_APT}$install "
                    f"{' '.join(_versions('second', 'image', 'headers', 'source'))}\n"
                    f"modinfo -k {_SECOND} binder_rust; modinfo -k {_FIRST} binder_rust")
    steps.check(f"the module is compiled for {_SECOND} as that is installed", words.count("vermagic") == 2, words)


def _lock(box, steps):
    steps.add(f"locked down, {_SECOND}", box.on(f"starting {_SECOND} locked down", _SECOND, ". /lab/locked\nend",
                                                boot=("lockdown=integrity",), timeout=1200))


def _files(box):
    """The paths on its disk that are of interest."""
    return {line for line in box.off("listing files", _LIST).splitlines() if line.startswith("/")}


def _versions(which, *parts):
    """Names of packages of a kernel, as apt is asked for them."""
    pin = _PINS[which]
    series = re.match(r"\d+\.\d+", pin["release"]).group()
    names = {"image": f"linux-image-{pin['release']}", "headers": f"linux-headers-{pin['release']}", "source": f"linux-source-{series}"}
    return [f"{names[part]}/{pin['suite']}" for part in parts]


def _clients():
    """A root of its own with libgbinder's tools, rsbinder's service manager and a service: a container without more."""
    [part] = clients.parts("gbinder", "um")
    files = {f"srv/clients{where}": path for where, path in part.files.items()}
    for applet in ("sh", "sed", "grep", "sleep", "cat", "mkdir"):
        files[f"srv/clients/bin/{applet}"] = "/bin/busybox"
    return files
