# SPDX-License-Identifier: GPL-2.0
"""Debian's own kernels as guests: their packages, and their headers made fit for modules in Rust.

Header packages have what C modules need, not the metadata of the kernel's Rust crates. packaging/dkms/rust-headers makes that from the
source package of that version, as on a machine that has our package. It uses the compilers that built the kernel, in a root of their suite.
No kernel is compiled.
"""

import dataclasses
import os
import pathlib
import re
import shutil

from . import cache, debian, foreign, module, proc, say, source
from .versions import PINNED, ROOT

STOCK = PINNED["stock"]
# The first one is what GUEST=debian means.
NAMES = tuple(STOCK["kernels"])
# Part of every key: raise it when kernels are prepared in another way.
_LAYOUT = 4

# Folders in the root of the compilers. Of the headers there are links to themselves.
_SOURCE, _OUTPUT, _TREE, _MADE = "work/source", "work/output", "work/tree", "work/made"
_RUST_HEADERS = "packaging/dkms/rust-headers"
# Upstream's driver, and the condition in a header by which the structures that it shares with C are in the kernel's Rust crates.
_UPSTREAM, _BINDINGS = "drivers/android/binder", "rust/bindings/bindings_helper.h"
_CONDITION = "#if IS_ENABLED(CONFIG_ANDROID_BINDER_IPC_RUST)"
# A file of a package that may lack it.
_TAKE_OUT = 'dpkg-deb --fsys-tarfile "$1" | tar -xO "$2" 2>/dev/null | xz -dc >"$3" 2>/dev/null; [ -s "$3" ] || rm "$3"'


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A stock kernel in the cache, with the interface of a kernel.Kernel."""

    guest: object
    folder: pathlib.Path

    @property
    def release(self):
        """Its release, as `uname -r` prints it."""
        return _release(self.folder)

    @property
    def image(self):
        return self.folder / "usr/lib/modules" / self.release / "vmlinuz"

    @property
    def config(self):
        return _headers(self.folder) / ".config"

    def module(self, driver):
        """The module file of Debian's C driver, or of upstream's driver in Rust, which Debian leaves out."""
        if driver == "c" and not self.has_c:
            return module.of_c(self)
        return {"c": self._c_driver, "upstream": self.folder / "rust_binder.ko"}[driver]

    @property
    def selftests(self):
        """The folder of the kernel's own test of binderfs."""
        return self.folder / "selftests"

    @property
    def has_c(self):
        """True if Debian has the C driver as a module of it."""
        return self._c_driver.exists()

    @property
    def _c_driver(self):
        return self.folder / "binder_linux.ko"

    def module_command(self, sources, out, *arguments, target="modules"):
        """The kbuild call that makes a module, or another target, of a folder of this tree's sources in folder `out`."""
        inside = f"{_TREE}/{sources.relative_to(ROOT)}" if sources.is_relative_to(ROOT) else _SOURCE
        mounts = {**_mounts(self.folder), ROOT: _TREE, sources: _SOURCE, out: _OUTPUT}
        return enter(compilers(STOCK["kernels"][self.guest.name]["compilers"]), mounts, [
            "make", "-C", f"/{_MADE}/headers", f"M=/{inside}", f"MO=/{_OUTPUT}",
            f"-j{os.cpu_count() or 2}", *arguments, target])

    def module_environment(self):
        return proc.environment()


def prepared(name):
    """The folder of the cache with kernel `name`, its headers ready for modules in Rust."""
    wanted = STOCK["kernels"][name]
    inputs = [wanted, STOCK["compilers"][wanted["compilers"]], (ROOT / _RUST_HEADERS).read_text(), _LAYOUT]
    return cache.in_place(f"stock/{name}-{cache.key(*inputs)}", lambda folder: _make(folder, name, wanted))


def _make(folder, name, wanted):
    """Files of an interrupted run are used."""
    cache.need_space(4.0, f"preparing the headers of {name}", folder)
    archives = folder / "packages"
    release = _download(archives, wanted)
    if not (folder / ".unpacked").exists():
        _unpack(folder, archives, release)
        (folder / ".unpacked").touch()
    _prepare(folder, archives, name, release)
    for rest in ("packages", "source"):
        proc.output("rm", "-rf", folder / rest)


def _download(folder, wanted):
    """Lay the packages of a kernel into `folder`; the kernel's release. Those that are there stay."""
    done = folder / "release"
    if done.exists():
        return done.read_text()
    folder.mkdir(exist_ok=True)
    suite = debian.Suite(folder / "apt", wanted["suite"])
    suite.must_update()
    release = newest(suite, wanted)
    base = release.removesuffix(f"-{wanted['flavour']}")
    version = suite.candidate(f"linux-headers-{release}")
    say.note(f"Linux {version} from {suite.name}"
             + ("" if version == wanted["tested"] else f" (tested with {wanted['tested']})"))
    series = ".".join(re.findall(r"\d+", wanted["series"])[:2])
    names = [f"linux-{part}-{release}" for part in ("binary", "modules", "base", "headers")]
    names += [f"linux-headers-{base}-common", f"linux-kbuild-{base}", f"linux-source-{series}"]
    suite.download(f"downloading {len(names)} packages of Linux {release} (300 MB)", f"apt-{release}", folder,
                   *(f"{package}={version}" for package in names))
    # On a full disk a file is made that stays empty.
    part = done.with_name("release.part")
    part.write_text(release)
    part.rename(done)
    return release


def newest(suite, wanted, section="stock.kernels"):
    """The newest release of the wanted series and flavour that the suite has headers of; `section` of versions.toml has `wanted`."""
    prefix = f"linux-headers-{wanted['series']}"
    form = re.compile(rf"linux-headers-({re.escape(wanted['series'])}(?:\.\d+)*(\+deb\d+)?-{wanted['flavour']})")
    found = [match.group(1) for match in map(form.fullmatch, suite.names(prefix)) if match]
    if not found:
        rest = sorted(name.removeprefix("linux-headers-") for name in suite.names("linux-headers-")
                      if name.endswith(f"-{wanted['flavour']}"))
        raise say.LabError(f"{suite.name} has no headers of Linux {wanted['series']} {wanted['flavour']} any more, but those of "
                           f"{', '.join(rest) or 'none'}: change [{section}] of versions.toml")
    return max(found, key=lambda release: [int(number) for number in re.findall(r"\d+", release)])


def _unpack(folder, archives, release):
    """Image, headers and tools for them as in the packages; of the modules only the C driver."""
    debian.unpack([path for path in sorted(archives.glob("*.deb"))
                   if not path.name.startswith(("linux-modules-", "linux-source-"))], folder)
    modules = next(archives.glob("linux-modules-*.deb"))
    path = f"./usr/lib/modules/{release}/kernel/drivers/android/binder_linux.ko.xz"
    proc.output("sh", "-c", _TAKE_OUT, "sh", modules, path, folder / "binder_linux.ko")


def _prepare(folder, archives, name, release):
    """Make headers that are fit for modules in Rust, beside those of the package."""
    tree = folder / "source"
    if not (folder / ".source").exists():
        proc.output("rm", "-rf", tree)
        source.unpack(next(archives.glob("linux-source-*.deb")), tree)
        (folder / ".source").touch()
    bindings = tree / _BINDINGS
    bindings.write_text(bindings.read_text().replace(_CONDITION, "#if 1"))
    made, out = folder / "made", folder / "upstream"
    for each in (made, out):
        each.mkdir(exist_ok=True)
    mounts, root = {**_mounts(folder), tree: _SOURCE, out: _OUTPUT, ROOT: _TREE}, compilers(STOCK["kernels"][name]["compilers"])
    argv = ["sh", f"/{_TREE}/{_RUST_HEADERS}", f"/usr/src/{_headers(folder).name}", f"/{_SOURCE}", f"/{_MADE}/headers"]
    proc.logged(f"preparing the headers of Linux {release}", f"stock-prepare-{name}", enter(root, mounts, argv))
    # Its trace events include a file by a path that begins in a folder beside drivers/.
    argv = ["make", "-C", f"/{_MADE}/headers", f"M=/{_SOURCE}/{_UPSTREAM}", f"MO=/{_OUTPUT}", f"-j{os.cpu_count() or 2}",
            "CONFIG_ANDROID_BINDER_IPC_RUST=m", f"KCFLAGS=-I/{_SOURCE}/drivers", "modules"]
    proc.logged(f"building upstream's driver for Linux {release}", f"stock-upstream-{name}", enter(root, mounts, argv))
    shutil.copy2(out / "rust_binder.ko", folder)
    proc.output("rm", "-rf", out)
    kept = Kernel(None, folder).selftests
    kept.mkdir(exist_ok=True)
    proc.output("sh", "-ec", 'cd "$1" && exec cp --parents *.h filesystems/binderfs/*.[ch] "$2"', "sh", tree / source.SELFTESTS, kept)


def _mounts(folder):
    """The packages' headers and tools and the prepared files, with their places in the root of the compilers, which has sources of its own
    in usr/src."""
    found = [*(folder / "usr/src").iterdir(), next((folder / "usr/lib").glob("linux-kbuild-*"))]
    return {**{path: path.relative_to(folder) for path in found}, folder / "made": _MADE}


def compilers(suite):
    """The root with a suite's compilers."""
    root = foreign.root(STOCK["compilers"][suite])
    if not os.path.lexists(root / "usr/bin/awk"):
        # A package's script chooses awk, and those scripts are not run.
        (root / "usr/bin/awk").symlink_to("mawk")
    return root


def enter(root, mounts, argv):
    """The command line that runs `argv` in a root in which folders of the host are mounted."""
    for where in ("dev", "proc", "tmp", *mounts.values()):
        (root / where).mkdir(parents=True, exist_ok=True)
    seen = {pathlib.Path("/dev"): root / "dev", pathlib.Path("/proc"): root / "proc", **{folder: root / where for folder, where in mounts.items()}}
    clean = ["/usr/bin/env", "-i", "PATH=/usr/bin:/usr/sbin", "HOME=/tmp", "LC_ALL=C.UTF-8"]
    return proc.with_mounts(seen, ["chroot", root, *clean, *argv])


def _release(folder):
    return next((folder / "usr/lib/modules").iterdir()).name


def _headers(folder):
    return folder / "usr/src" / f"linux-headers-{_release(folder)}"
