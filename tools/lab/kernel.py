# SPDX-License-Identifier: GPL-2.0
"""Kernels for the guests: configured from our fragments, checked, built in the cache."""

import dataclasses
import functools
import os
import pathlib
import re
import shutil

from . import cache, install, module, packages, proc, say, source, stock, toolchain
from .versions import BUILD, ROOT

CONFIGS = ROOT / "configs"
LAYOUT = 1
# The image to boot, by architecture.
_IMAGES = {"um": "vmlinux", "x86_64": "arch/x86/boot/bzImage", "arm64": "arch/arm64/boot/Image",
           "riscv": "arch/riscv/boot/Image"}


@dataclasses.dataclass(frozen=True)
class Guest:
    """One kernel to boot: its architecture, its configuration, and where our driver is."""

    name: str
    arch: str
    fragments: tuple
    # Our driver is a part of it, and all else is as in this guest's kernel, of whose objects it is made.
    builtin: str = ""
    # The C driver may be a part of it, too.
    builtin_c: bool = False
    flags: tuple = ()
    # More of what QEMU emulates than of other guests of this architecture.
    machine: tuple = ()
    # For its kernel's command line, always.
    boot: tuple = ()
    # The features beside the page allocator that complain there (tests/watch/).
    watched: tuple = ()
    # The variant of the kernel's tree.
    tree: str = ""
    # QEMU may have a thread for each CPU, because the kernel does not rewrite its text.
    at_once: bool = False
    # Not built by us: Debian's own package (stock.py).
    stock: bool = False


# The flags of our Kbuild for our module, here for upstream's.
_UML_MODULES = ("RUSTFLAGS_MODULE=-Crelocation-model=static -Ccode-model=large",)
# Objects of the three drivers that report their coverage: ours, C's, upstream's. syzkaller's first check needs that of `mmap`, too.
_KCOV = tuple(f"KCOV_INSTRUMENT_{name}.o=y" for name in ("rust_binder", "rust_binderfs", "binderfs/inodes", "binderfs/logs",
                                                         "binder", "binder_alloc", "binderfs", "rust_binder_main", "mmap"))
# With QEMU 7.2 the kernel finds a wrong tag in its first slab, before any driver is initialised (docs/architectures.md); tags of programs work.
_NO_KASAN = ("kasan=off",)
# What scripts/Makefile.kcsan has for C.
_KCSAN = ("RUSTFLAGS_MODULE=-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer -Cllvm-args=-tsan-distinguish-volatile=1 -Cllvm-args=-tsan-instrument-read-before-write=1 "
          "-Cllvm-args=-tsan-instrument-func-entry-exit=0",)
_KCSAN_BOOT = ("kcsan.early_enable=1", "kcsan.skip_watch=1000", "kcsan.udelay_task=200")

GUESTS = {
    g.name: g
    for g in (
        Guest("um", "um", ("common", "um", "trace", "debug"), flags=_UML_MODULES, watched=("memory", "leak")),
        Guest("um-plain", "um", ("common", "um", "trace"), flags=_UML_MODULES),
        Guest("um-kcov", "um", ("common", "um", "trace", "debug", "kcov"), flags=(*_UML_MODULES, *_KCOV), tree="kcov"),
        Guest("um-builtin", "um", ("common", "um", "trace", "debug", "builtin"), builtin="um", flags=_UML_MODULES),
        Guest("x86_64", "x86_64", ("common", "x86_64", "trace", "bpf")),
        Guest("x86_64-coverage", "x86_64", ("common", "x86_64", "trace", "bpf", "coverage")),
        Guest("arm64", "arm64", ("common", "arm64", "trace")),
        Guest("arm64-16k", "arm64", ("common", "arm64", "trace", "arm64-hardened", "arm64-16k"), machine=("mte=on",), boot=_NO_KASAN,
              watched=("call",)),
        Guest("arm64-64k", "arm64", ("common", "arm64", "trace", "arm64-hardened", "arm64-64k"), watched=("memory", "call")),
        Guest("arm64-16k-builtin", "arm64", ("common", "arm64", "trace", "arm64-hardened", "arm64-16k", "builtin"),
              builtin="arm64-16k", machine=("mte=on",), boot=_NO_KASAN),
        Guest("riscv64", "riscv", ("common", "riscv64", "trace")),
        Guest("android", "um", ("common", "um", "trace", "android"), flags=_UML_MODULES),
        Guest("x86_64-android", "x86_64", ("common", "x86_64", "trace", "android", "android-qemu")),
        Guest("arm64-android", "arm64", ("common", "arm64", "trace", "arm64-hardened", "android", "android-qemu"), watched=("call",)),
        Guest("x86_64-rt", "x86_64", ("common", "x86_64", "trace", "rt")),
        Guest("x86_64-kcsan", "x86_64", ("common", "x86_64", "trace", "kcsan"), flags=_KCSAN, boot=_KCSAN_BOOT, tree="kcsan", at_once=True, watched=("race",)),
        *(Guest(name, "x86_64", (), stock=True) for name in stock.NAMES),
    )
}
# Those of other processors than this machine's; the driver is a module.
FOREIGN = tuple(name for name, which in GUESTS.items() if which.arch in ("arm64", "riscv") and not which.builtin)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A built kernel and where its parts are."""

    guest: Guest
    tree: pathlib.Path
    folder: pathlib.Path
    copy: pathlib.Path | None = None

    @property
    def image(self):
        return self.copy or self.folder / _IMAGES[self.guest.arch]

    @property
    def release(self):
        """Its release, as `uname -r` prints it."""
        return (self.folder / "include/config/kernel.release").read_text().strip()

    @property
    def selftests(self):
        """The folder of the kernel's own test of binderfs."""
        return self.tree / source.SELFTESTS

    @property
    def has_c(self):
        """True if the C driver is a part of its tree."""
        return (self.tree / "drivers/android/binder.c").exists()

    def module(self, driver):
        """The module file of one of the incumbents."""
        if driver == "c" and not self.has_c:
            return module.of_c(self)
        return self.folder / {
            "c": "drivers/android/binder_linux.ko",
            "upstream": "drivers/android/binder/rust_binder.ko",
        }[driver]

    def make(self, *arguments, like=None):
        """The kbuild call for the kernel itself. Kbuild recompiles objects of other commands, and paths are parts of commands. So tree and
        folder are mounted over those of the kernel `like`, whose objects can be used then."""
        at = like or self
        argv = [
            "make", "-C", at.tree, f"O={at.folder}", f"-j{os.cpu_count() or 2}",
            *toolchain.kernel_variables(self.guest.arch), *self.guest.flags, *arguments,
        ]
        return proc.with_mounts({self.tree: at.tree, self.folder: at.folder}, argv) if like else argv

    def module_command(self, sources, out, *arguments, target="modules"):
        """The kbuild call that makes a module, or another target, of a folder of sources in folder `out`."""
        return [
            "make", "-C", self.folder, f"M={sources}", f"MO={out}",
            *toolchain.kernel_variables(self.guest.arch), *self.guest.flags, *arguments, target,
        ]

    def module_environment(self):
        return toolchain.kernel_environment()


def build(name):
    """The kernel of guest `name`, from the cache or built now; a kernel is what it is."""
    if isinstance(name, (Kernel, stock.Kernel)):
        return name
    guest = GUESTS[name]
    if guest.stock:
        packages.ensure("base", "rust", guest.arch)
        return stock.Kernel(guest, stock.prepared(name))
    packages.ensure("base", "kernel", "rust", guest.arch)
    base = source.variant(guest.tree) if guest.tree else source.tree()
    if guest.builtin:
        return _build_builtin(guest, base)
    fragments = [line for f in guest.fragments for line in fragment(f)]
    where = f"kernel/{name}-{cache.key(base.name, fragments, guest.flags, toolchain.versions(), LAYOUT)}"

    def make(folder):
        _build(Kernel(guest, base, folder), fragments)

    return Kernel(guest, base, cache.in_place(where, make))


def of_tree(name, tree, more=(), like=None):
    """The kernel of a guest like `name` with `more` settings, made of a user's tree that our driver was laid into, and brought up to date now. `like`: a
    kernel of ours with mostly the same objects."""
    guest, tree = GUESTS[name], pathlib.Path(tree).absolute()
    install.must_be_kernel(tree)
    if guest.stock or guest.builtin:
        raise say.LabError(f"the kernel of GUEST={name} is not compiled from one tree: KERNEL_SRC= needs another guest, such as um or x86_64")
    if not (tree / install.KCONFIG_FILE).exists():
        raise say.LabError(f"{tree} lacks this driver: run tools/install-into-kernel {tree}, or `make patches KERNEL={tree}` and `git am`")
    packages.ensure("base", "kernel", "rust", guest.arch)
    folder = cache.root() / f"kernel/{name}-of-{cache.key(str(tree), toolchain.versions())}"
    guest = dataclasses.replace(guest, name=f"{name}-tree", builtin=name, builtin_c="CONFIG_ANDROID_BINDER_IPC=y" in more)
    built = Kernel(guest, tree, folder)
    with cache.lock(f"kernel/{folder.name}"):
        folder.mkdir(parents=True, exist_ok=True)
        if like:
            copy_objects(like.folder, folder)
        parts = [*guest.fragments, "builtin", *(path.with_suffix("") for path in install.backports(tree).glob(f"{guest.arch}.config"))]
        _build(built, [*(line for part in parts for line in fragment(part)), *more], like)
    return built


@functools.cache
def _build_builtin(guest, base):
    """Lay this checkout's driver into the tree that all checkouts share, and build what that changes.

    One tree for all, so that a new clone rebuilds the driver and not the kernel. The result is
    copied before another checkout gets its turn.
    """
    like, tree = build(guest.builtin), source.builtin_tree(base, guest.name)
    image = BUILD / guest.name / pathlib.Path(_IMAGES[guest.arch]).name
    image.parent.mkdir(parents=True, exist_ok=True)
    with cache.lock(f"{tree.relative_to(cache.root())}-files"):
        install.lay_into(tree)
        built = of_tree(guest.builtin, tree, like=like)
        shutil.copy2(built.image, image)
    return dataclasses.replace(built, guest=guest, copy=image)


def copy_objects(made, folder):
    """Begin a kernel's folder with what another one has made, times included, but not with its stamp."""
    done = folder / ".begun"
    if done.exists():
        return
    proc.output("cp", "-a", *(path for path in made.iterdir() if path.name != ".complete"), folder)
    done.touch()


def _build(kernel, fragments, like=None):
    """Build a kernel; of the objects of the kernel `like`, which are in its folder, what differs is compiled again."""
    name, env = kernel.guest.name, toolchain.kernel_environment()
    cache.need_space(1.5, f"building the {name} kernel", kernel.folder)
    configure(kernel, fragments, like)
    image = _IMAGES[kernel.guest.arch]
    argv = kernel.make(*([pathlib.Path(image).name, "modules"] if kernel.guest.arch != "um" else []), like=like)
    proc.logged(f"building the {name} kernel", f"kernel-{name}", argv, env=env)


def configure(kernel, fragments, like=None):
    """Configure a kernel from fragments, all of whose lines have to be granted."""
    name, wanted = kernel.guest.name, kernel.folder / "wanted.config"
    wanted.write_text("\n".join(fragments) + "\n")
    argv = kernel.make(f"KCONFIG_ALLCONFIG={wanted}", "allnoconfig", like=like)
    proc.logged(f"configuring the {name} kernel", f"config-{name}", argv, env=toolchain.kernel_environment())
    check_config(kernel.folder / ".config", fragments)


def fragment(name):
    """The settings of one fragment, comments dropped: editing a comment rebuilds nothing."""
    lines = (CONFIGS / f"{name}.config").read_text().splitlines()
    return [l for l in lines if l.startswith("CONFIG_") or l.endswith(" is not set")]


def check_config(config, fragments):
    """Kconfig silently drops options that it cannot set; later fragments override earlier ones."""
    have = set(config.read_text().splitlines())
    wanted = {re.match(r"(?:# )?(\w+)", line)[1]: line for line in fragments}
    lost = [
        line for symbol, line in wanted.items()
        if line not in have
        and not (line.endswith(" is not set") and not any(h.startswith(symbol + "=") for h in have))
    ]
    if lost:
        raise say.LabError(f"the kernel's configuration does not grant {', '.join(lost)}")
