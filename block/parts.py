# SPDX-License-Identifier: GPL-2.0
"""What guests run: modules of Debian's kernel, and programs."""

import dataclasses
import json
import pathlib
import subprocess
import tomllib

from lab import cache, debian, foreign, kernel, module, packages, proc, programs, say, source, stock
from lab.versions import BUILD, PINNED

HERE = pathlib.Path(__file__).resolve().parent
GUEST = stock.NAMES[0]
# With block devices and io_uring, at native speed: with sanitizers and without.
SANITIZED, PLAIN = "um-block", "um-block-plain"
# fio's libraries of its own.
_CEPH = f"usr/lib/{foreign.HERE.triple}/ceph"
for _name, _base in (SANITIZED, kernel.GUESTS["um"]), (PLAIN, kernel.GUESTS["um-plain"]):
    kernel.GUESTS[_name] = dataclasses.replace(_base, name=_name, fragments=(*_base.fragments, HERE / "um"))
_PINS = tomllib.loads((HERE / "versions.toml").read_text())
# Below kernel/ in the package of modules.
_MODULES = {name: f"{folder}/{name}.ko" for name, folder in (
    ("configfs", "fs/configfs"), ("ext4", "fs/ext4"), ("jbd2", "fs/jbd2"), ("mbcache", "fs"), ("crc16", "lib/crc"), ("null_blk", "drivers/block/null_blk"),
    ("brd", "drivers/block"), ("ublk_drv", "drivers/block"), ("nbd", "drivers/block"))}


def install():
    """Install the packages of compilers, guests and tests."""
    packages.ensure("base", "kernel", "rust", "test", "x86_64")


def modules(*names):
    """Modules, those of Debian's kernel and those that are built here: their paths in a guest, and the host's."""
    release = kernel.build(GUEST).release

    def make(part):
        part.mkdir()
        suite = debian.Suite(part / "apt", PINNED["stock"]["kernels"][GUEST]["suite"])
        suite.must_update()
        (package,) = suite.download(f"downloading the modules of Linux {release} (100 MB)", "apt-block", part, f"linux-modules-{release}")
        for name, path in _MODULES.items():
            inside = f"./usr/lib/modules/{release}/kernel/{path}.xz"
            proc.output("sh", "-ec", 'dpkg-deb --fsys-tarfile "$1" | tar -xO "$2" | xz -dc >"$3"', "sh", package, inside, part / f"{name}.ko")
        proc.output("rm", "-r", package, part / "apt")

    folder = cache.entry(f"block/modules-{cache.key(release, _MODULES)}", make)
    files = {f"/lab/{name}.ko": folder / f"{name}.ko" for name in names if name in _MODULES}
    for name in set(names) - set(_MODULES):
        files |= {"nullb_rust": nullb, "ublk_rust": ublk}[name]()
    return files


def nullb(*arguments):
    """The null block device in Rust, as a module."""
    folder = "-".join(["nullb", *(cache.key(argument) for argument in arguments)])
    made = module.build(kernel.build(GUEST), HERE / "nullb", f"block/{folder}", "nullb_rust.ko", ("KRUSTFLAGS=-Dwarnings", *arguments))
    return {"/lab/nullb_rust.ko": made, "/lab/nullb": HERE / "nullb/add"}


def ublk(name=GUEST):
    """The driver of disks in user space in Rust, as a module for a guest."""
    # The compiler for Debian's kernel has no Clippy.
    checks = ("KRUSTFLAGS=-Dwarnings", *(["CLIPPY=1"] if name != GUEST else []))
    return {"/lab/ublk_rust.ko": module.build(kernel.build(name), HERE / "ublk", "block/ublk", "ublk_rust.ko", checks)}


def program(path):
    """A program that is one file here: its path in a guest, and the host's."""
    made = BUILD / "block" / pathlib.Path(path).stem
    made.parent.mkdir(parents=True, exist_ok=True)
    proc.output(PINNED["rust"]["rustc"], "--edition", "2021", "-O", "-C", "target-feature=+crt-static", "-C", "strip=symbols", "-o", made, HERE / path)
    return {f"/lab/{made.name}": made}


def kublk():
    """The server of the kernel's own tests of ublk."""
    return with_liburing("kublk", *(path for path in sorted(_selftests().glob("*.c")) if path.name != "metadata_size.c"))


def with_liburing(name, *sources):
    """A program in C that uses liburing, and the kernel's newest headers: its path in a guest, and the host's."""
    root, kernel_headers = foreign.root(_PINS["liburing"]), source.tree() / "include/uapi/linux"
    headers = ("ublk_cmd.h", "io_uring.h", "io_uring", "fs.h")

    def make(part):
        (part / "include/linux").mkdir(parents=True)
        for header in headers:
            proc.output("cp", "-r", kernel_headers / header, part / "include/linux")
        argv = [f"{PINNED['llvm']['bin']}/clang", f"--target={foreign.HERE.triple}", f"--sysroot={root}", "-O3", "-w", "-static", "-D_GNU_SOURCE", "-D__user=",
                f"-I{part}/include", *sources, "-luring", "-lpthread", "-o", part / name]
        proc.logged(f"building {name}", name, argv)

    made_of = cache.key(root.name, source.tree().name, headers, cache.content(*sources))
    return {f"/lab/{name}": cache.entry(f"block/{name}-{made_of}", make) / name}


def selftests():
    """The kernel's own tests of ublk, and the programs that they need, but for bpftrace."""
    scripts = {f"/lab/ublk/{path.relative_to(_selftests())}": path for path in _selftests().rglob("*") if path.suffix in (".sh", ".bt")}
    programs = foreign.files(foreign.root(_PINS["fio"]), "bash", "dd", "fio", "lsblk", "mktemp", "sfdisk", "sort", private=[_CEPH])
    alone = with_liburing("metadata_size", _selftests() / "metadata_size.c")
    return {"/lab/suite": HERE / "ublk/suite", **scripts, **programs, **ext4(), **kublk(), **alone}


def blktests(folder):
    """The tests of blktests in a folder, and the programs that those of null_blk need."""
    kept = [path for name in ("check", "common", "tests") for path in (folder / name, *(folder / name).rglob("*")) if path.is_file()]
    programs = foreign.files(foreign.root(_PINS["fio"]), "bash", "blockdev", "column", "dd", "depmod", "find", "findmnt", "fio", "gawk", "getopt", "mktemp", "modinfo",
                             "modprobe", "sort", "stat", private=[_CEPH])
    built = kernel.build(GUEST)
    return {f"/lab/blktests/{path.relative_to(folder)}": path for path in kept} | programs | modules("configfs") | {
        "/lab/suite": HERE / "nullb/suite", f"/boot/config-{built.release}": built.config}


def bpftrace():
    """bpftrace, in a version that the kernel's tests of ublk can use."""
    return foreign.files(foreign.root(_PINS["bpftrace"]), "bpftrace")


def _selftests():
    return source.tree() / "tools/testing/selftests/ublk"


def nbdkit():
    """nbdkit with its memory, and nbd-client."""
    plugin = f"usr/lib/{foreign.HERE.triple}/nbdkit/plugins/nbdkit-memory-plugin.so"
    return foreign.files(foreign.root(_PINS["nbdkit"]), "nbdkit", "nbd-client", loaded=[plugin])


def ext4():
    """What makes, mounts and checks ext4."""
    return foreign.files(foreign.root(_PINS["e2fsprogs"]), "mkfs.ext4", "e2fsck") | modules("crc16", "mbcache", "jbd2", "ext4")


def engine(profile="release"):
    """The examples of engine/: their paths in a guest, and the host's."""
    made = [pathlib.Path(found["executable"]) for found in _built("build", "--profile", profile, "--examples") if found.get("executable")]
    return {f"/lab/{path.name}": path for path in made}


def libublk():
    """The tests of the crate libublk, in the version that engine/ uses, and the example that they call."""
    (manifest,) = {found["manifest_path"] for found in _built("build") if found.get("target", {}).get("name") == "libublk"}
    made = []
    # An example that "cargo test" builds by its name has no main function.
    for words in ("test", "--no-run", "--lib", "--test", "basic"), ("build", "--example", "ramdisk"):
        # Without Clippy, which denies one of its lines.
        made += _built(*words, "--manifest-path", manifest, RUSTC_WORKSPACE_WRAPPER="", CARGO_PROFILE_DEV_DEBUG="false")
    paths = {found["target"]["name"]: pathlib.Path(found["executable"]) for found in made if found.get("executable")}
    return {"/lab/ublk/" + ("examples/" if name == "ramdisk" else "") + name: path for name, path in paths.items()}


def _built(command, *words, **variables):
    """What cargo reports of its builds for engine/."""
    return list(map(json.loads, cargo("engine", command, *words, "--message-format=json-render-diagnostics", **variables).splitlines()))


def cargo(crate, command, *words, **variables):
    """What cargo prints when it runs a command in a folder here, with more environment variables."""
    name = f"block/{crate}"
    argv = [programs.CARGO, command, "--locked", "--target-dir", cache.root() / name, *words]
    with cache.lock(name), say.Step(f"cargo {command} in {name}"):
        done = subprocess.run(argv, cwd=HERE / crate, env=programs.environment() | variables, text=True, stdout=subprocess.PIPE)
    if done.returncode:
        raise say.LabError(f"cargo {command} in {name} failed, see above\n{done.stdout[-2000:]}")
    return done.stdout
