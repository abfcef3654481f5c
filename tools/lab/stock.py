# SPDX-License-Identifier: GPL-2.0
"""Debian's own kernels as guests: their packages, and their headers made fit for modules in Rust.

Header packages have what C modules need, not the metadata of the kernel's Rust crates. That is made
here: the source package of the same version is configured as the kernel was and prepared by the
compilers that built it, in a root of their suite. What comes out is laid into the headers, after a
look at whether the symbols in it are those that the shipped kernel exports. No kernel is compiled.
"""

import dataclasses
import os
import pathlib
import re
import subprocess

from . import cache, debian, foreign, proc, say, source
from .versions import PINNED, ROOT

STOCK = PINNED["stock"]
# The first one is what GUEST=debian means.
NAMES = tuple(STOCK["kernels"])
# Part of every key: raise it when kernels are prepared in another way.
_LAYOUT = 2

# Where things are in the root of the compilers.
_SOURCE, _OUTPUT, _TREE = "work/source", "work/output", "work/tree"
# Mounts made in a namespace of their own, which ends with the command; without privileges in a user's.
_ENTER = """
root=$1; shift
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
while [ "$1" != -- ]; do mount --rbind "$1" "$root/$2"; shift 2; done
shift
exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/usr/sbin HOME=/tmp LC_ALL=C.UTF-8 "$@"
"""
# What may differ from the shipped configuration: what signs modules, and revisions of compilers.
_INDIFFERENT = re.compile(
    r"CONFIG_(MODULE_SIG\w*|SYSTEM_TRUSTED_KEYS|OPENSSL_\w+|CC_VERSION_TEXT|[LA]S_VERSION|LD_VERSION|PAHOLE_VERSION)\b")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A stock kernel that is there, for what wants a kernel.Kernel."""

    guest: object
    folder: pathlib.Path

    @property
    def release(self):
        """What `uname -r` says in it."""
        return _release(self.folder)

    @property
    def image(self):
        return self.folder / "usr/lib/modules" / self.release / "vmlinuz"

    @property
    def config(self):
        return _headers(self.folder) / ".config"

    def module(self, driver):
        """The module file of Debian's C driver."""
        if driver != "c" or not self.has_c:
            raise say.LabError(f"Debian's {self.release} has no DRIVER={driver}")
        return self._c_driver

    @property
    def selftests(self):
        """Where the kernel's own test of binderfs is."""
        return self.folder / "selftests"

    @property
    def has_c(self):
        """Whether Debian has the C driver as a module of it."""
        return self._c_driver.exists()

    @property
    def _c_driver(self):
        return self.folder / "binder_linux.ko"

    def module_command(self, sources, out, *arguments, target="modules"):
        """The kbuild call that makes a module, or another target, of a folder of this tree's sources in folder `out`."""
        inside = pathlib.Path(sources).relative_to(ROOT)
        kbuild = _kbuild(self.folder)
        mounts = {self.folder / "usr/src": "usr/src", kbuild: kbuild.relative_to(self.folder), ROOT: _TREE, out: _OUTPUT}
        return enter(compilers(STOCK["kernels"][self.guest.name]["compilers"]), mounts, [
            "make", "-C", f"/usr/src/linux-headers-{self.release}", f"M=/{_TREE}/{inside}", f"MO=/{_OUTPUT}",
            f"-j{os.cpu_count() or 2}", *arguments, target])

    def module_environment(self):
        return proc.environment()


def prepared(name):
    """The folder of the cache with kernel `name`, its headers ready for modules in Rust."""
    wanted = STOCK["kernels"][name]
    inputs = [wanted, STOCK["compilers"][wanted["compilers"]], _LAYOUT]
    return cache.in_place(f"stock/{name}-{cache.key(*inputs)}", lambda folder: _make(folder, name, wanted))


def _make(folder, name, wanted):
    """What is there already of an interrupted run is used."""
    cache.need_space(4.0, f"preparing the headers of {name}")
    archives = folder / "packages"
    release = _download(archives, wanted)
    if not (folder / ".unpacked").exists():
        _unpack(folder, archives, release)
        (folder / ".unpacked").touch()
    _prepare(folder, archives, name, release)
    for rest in ("packages", "source", "output"):
        proc.output("rm", "-rf", folder / rest)


def _download(folder, wanted):
    """Lay the packages of a kernel into `folder`; the kernel's release. Those that are there stay."""
    done = folder / "release"
    if done.exists():
        return done.read_text()
    folder.mkdir(exist_ok=True)
    suite = debian.Suite(folder / "apt", wanted["suite"])
    if not suite.update():
        raise say.LabError(f"the package lists of {suite.name} cannot be read from {debian.mirror()}: "
                           "check the network, then run this again")
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
    done.write_text(release)
    return release


def newest(suite, wanted):
    """The newest release of the wanted series and flavour that the suite has headers of."""
    prefix = f"linux-headers-{wanted['series']}"
    form = re.compile(rf"linux-headers-({re.escape(wanted['series'])}(?:\.\d+)*(\+deb\d+)?-{wanted['flavour']})")
    found = [match.group(1) for match in map(form.fullmatch, suite.names(prefix)) if match]
    if not found:
        rest = sorted(name.removeprefix("linux-headers-") for name in suite.names("linux-headers-")
                      if name.endswith(f"-{wanted['flavour']}"))
        raise say.LabError(f"{suite.name} has no headers of Linux {wanted['series']} {wanted['flavour']} any more, but those of "
                           f"{', '.join(rest) or 'none'}: change [stock.kernels] of versions.toml")
    return max(found, key=lambda release: [int(number) for number in re.findall(r"\d+", release)])


def _unpack(folder, archives, release):
    """Image, headers and tools for them as in the packages; of the modules only the C driver."""
    debian.unpack([path for path in sorted(archives.glob("*.deb"))
                   if not path.name.startswith(("linux-modules-", "linux-source-"))], folder)
    modules = next(archives.glob("linux-modules-*.deb"))
    path = f"./usr/lib/modules/{release}/kernel/drivers/android/binder_linux.ko.xz"
    listed = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", modules], stdout=subprocess.PIPE)
    found = subprocess.run(["tar", "-xO", path], stdin=listed.stdout, capture_output=True)
    listed.communicate()
    if found.returncode == 0:
        (folder / "binder_linux.ko").write_bytes(
            subprocess.run(["xz", "-dc"], input=found.stdout, capture_output=True, check=True).stdout)


def _prepare(folder, archives, name, release):
    """Make the metadata of the kernel's Rust crates, and lay it into the headers."""
    tree, output, headers = folder / "source", folder / "output", _headers(folder)
    if not (folder / ".source").exists():
        proc.output("rm", "-rf", tree)
        source.unpack(next(archives.glob("linux-source-*.deb")), tree)
        (folder / ".source").touch()
    output.mkdir(exist_ok=True)
    proc.output("cp", headers / ".config", output / ".config")
    root = compilers(STOCK["kernels"][name]["compilers"])
    make = ["make", "-C", f"/{_SOURCE}", f"O=/{_OUTPUT}", f"-j{os.cpu_count() or 2}", *variables(headers)]

    def run(title, target):
        argv = enter(root, {tree: _SOURCE, output: _OUTPUT}, [*make, target])
        proc.logged(f"{title} Linux {release}", f"stock-{target}-{name}", argv)

    run("configuring", "olddefconfig")
    check_configuration(headers / ".config", output / ".config")
    run("preparing the headers of", "prepare")
    check_symbols(output / "rust/exports_kernel_generated.h", headers / "Module.symvers")
    (headers / "rust/kernel").mkdir(parents=True, exist_ok=True)
    made = [*(output / "rust").glob("*.rmeta"), *(output / "rust").glob("*.so")]
    proc.output("cp", *made, headers / "rust")
    proc.output("cp", *(output / "rust/kernel").glob("*.rs"), headers / "rust/kernel")
    proc.output("cp", output / "scripts/target.json", _kbuild(folder) / "scripts")
    kept = Kernel(None, folder).selftests
    kept.mkdir(exist_ok=True)
    proc.output("sh", "-ec", 'cd "$1" && exec cp --parents *.h filesystems/binderfs/*.[ch] "$2"', "sh", tree / source.SELFTESTS, kept)


def variables(headers):
    """What Debian's header package says of compilers."""
    said = dict(re.findall(r"^(?:override )?(\w+) = (.*)$", (headers / ".kernelvariables").read_text(), re.M))
    compiler = said["CC"].split()[-1].replace("$(CROSS_COMPILE)", said["CROSS_COMPILE"])
    return [f"ARCH={said['ARCH']}", f"KERNELRELEASE={said['KERNELRELEASE']}", f"CROSS_COMPILE={said['CROSS_COMPILE']}",
            f"CC={compiler}"]


def check_configuration(shipped, ours):
    """Other compilers or tools than the kernel was built with show in its configuration."""
    lines = set(shipped.read_text().splitlines()) ^ set(ours.read_text().splitlines())
    wrong = sorted(line for line in lines if "CONFIG_" in line and not _INDIFFERENT.search(line))
    if wrong:
        raise say.LabError("this kernel was configured with other tools than those of [stock.compilers] of versions.toml: "
                           + "; ".join(wrong[:8]))


def check_symbols(exports, symvers):
    """Whether the crates that modules are compiled against have the symbols that the kernel exports."""
    ours = set(re.findall(r"^EXPORT_SYMBOL_RUST_GPL\((\w+)\)", exports.read_text(), re.M))
    theirs = {line.split("\t")[1] for line in symvers.read_text().splitlines()}
    if not ours or ours - theirs:
        raise say.LabError(f"{len(ours - theirs)} of {len(ours)} symbols of the prepared crates are not exported by the "
                           "kernel: it was built by another compiler than that of [stock.compilers] of versions.toml")


def compilers(suite):
    """The root with a suite's compilers."""
    root = foreign.root(STOCK["compilers"][suite])
    if not os.path.lexists(root / "usr/bin/awk"):
        # Which awk it is a package's script decides, and those are not run.
        (root / "usr/bin/awk").symlink_to("mawk")
    return root


def enter(root, mounts, argv):
    """The command line that runs `argv` in a root in which folders of the host are mounted."""
    for where in ("dev", "proc", "tmp", *mounts.values()):
        (root / where).mkdir(parents=True, exist_ok=True)
    pairs = [word for folder, where in mounts.items() for word in (folder, where)]
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *user, "sh", "-ec", _ENTER, "sh", root, *pairs, "--", *argv]


def _release(folder):
    return next((folder / "usr/lib/modules").iterdir()).name


def _headers(folder):
    return folder / "usr/src" / f"linux-headers-{_release(folder)}"


def _kbuild(folder):
    return next((folder / "usr/lib").glob("linux-kbuild-*"))
