# SPDX-License-Identifier: GPL-2.0
"""What is compiled and not run: the driver by the oldest Rust compiler, and for a kernel that it refuses."""

import re
import subprocess

from . import cache, kernel, kunit, module, proc, source, stock
from .versions import BUILD, PINNED, ROOT

# The release whose Rust is the oldest one that the kernel takes.
_OLDEST = "trixie"
_ARCH = ("ARCH=x86", "CROSS_COMPILE=x86_64-linux-gnu-", "CC=x86_64-linux-gnu-gcc-14")
# Nobody runs it.
_FLAGS = ("KRUSTFLAGS=-Copt-level=0",)
# Debian's kernels are configured without KUnit; that kind of helpers needs LLVM.
_FRAGMENTS = ("common", "x86_64")
_CHANGED = ("CONFIG_KUNIT=y", "# CONFIG_RUST_INLINE_HELPERS is not set")
_SOURCE, _OUTPUT, _TREE, _MODULE = "work/source", "work/output", "work/tree", "work/module"
# Part of every key: raise it when the kernel's crates are prepared in another way.
_LAYOUT = 1


def by_oldest_rust():
    """The driver with its KUnit suites, by the oldest Rust compiler that the kernel takes; what is wrong."""
    out = _emptied("oldest-rust")
    mounts = {source.tree(): _SOURCE, _crates(): _OUTPUT, ROOT: _TREE, out: _MODULE}
    argv = ["make", "-C", f"/{_OUTPUT}", *_ARCH, *_FLAGS, f"M=/{_TREE}/drivers/android", f"MO=/{_MODULE}", *kunit.SWITCHES,
            "rust_binder.o"]
    status, said = _made(stock.enter(stock.compilers(_OLDEST), mounts, argv), proc.environment())
    wrong = [line for line in said if re.match(r"warning|error", line)]
    if status or wrong:
        return wrong or said[-10:]
    found, wanted = _suites(out / "rust_binder.o"), len(kunit.names())
    return [] if found == wanted else [f"{found} of {wanted} KUnit suites were compiled"]


def without_schedstats():
    """The driver for a kernel without CONFIG_SCHEDSTATS: its build has to end, and to say why; what is wrong."""
    built, out = kernel.build("um"), _emptied("without-schedstats")
    undefined = out / "undefined.h"
    undefined.write_text("#undef CONFIG_SCHEDSTATS\n")
    argv = module.command(built, out, f"KCFLAGS=-include {undefined}", target="rust_binder_helpers.o")
    status, said = _made(argv, built.module_environment())
    if status and any("error:" in line and "CONFIG_SCHEDSTATS" in line for line in said):
        return []
    return ["it is compiled, or ends without a word of CONFIG_SCHEDSTATS", *said[-10:]]


def _crates():
    """The kernel's crates with KUnit, compiled by that compiler in a folder of the cache; not the kernel."""
    lines = [*(line for name in _FRAGMENTS for line in kernel.fragment(name)), *_CHANGED]
    tree = source.tree()
    key = cache.key(tree.name, PINNED["stock"]["compilers"][_OLDEST], lines, _FLAGS, _LAYOUT)

    def make(folder):
        cache.need_space(0.5, "compiling the kernel's Rust crates", folder)
        (folder / "wanted.config").write_text("\n".join(lines) + "\n")
        make = ["make", "-C", f"/{_SOURCE}", f"O=/{_OUTPUT}", "-j2", *_ARCH, *_FLAGS]
        for title, words in (("configuring", (f"KCONFIG_ALLCONFIG=/{_OUTPUT}/wanted.config", "allnoconfig")),
                             ("compiling the crates of", ("prepare",))):
            argv = stock.enter(stock.compilers(_OLDEST), {tree: _SOURCE, folder: _OUTPUT}, [*make, *words])
            proc.logged(f"{title} a kernel by {_OLDEST}'s Rust", f"oldest-rust-{words[-1]}", argv)
        kernel.check_config(folder / ".config", lines)

    return cache.in_place(f"crates/{_OLDEST}-{key}", make)


def _emptied(name):
    folder = BUILD / name
    proc.output("rm", "-rf", folder)
    folder.mkdir(parents=True)
    return folder


def _made(argv, environment):
    """The exit status of a build, and what was said."""
    done = subprocess.run([str(word) for word in argv], text=True, capture_output=True, env=environment)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def _suites(path):
    """How many suites KUnit would find in an object: pointers of a section."""
    found = re.search(r" \.kunit_test_suites +\w+ +\w+ +\w+ +(\w+)", proc.output("readelf", "-SW", path))
    return int(found.group(1), 16) // 8 if found else 0
