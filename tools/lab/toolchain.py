# SPDX-License-Identifier: GPL-2.0
"""The compilers: checked against the pinned versions, and the variables for kbuild and cargo."""

import functools
import re

from . import cache, packages, proc, say
from .versions import PINNED

RUST, LLVM = PINNED["rust"], PINNED["llvm"]


@functools.cache
def rustc():
    """The exact version of the Rust compiler, part of the key of all programs."""
    packages.ensure("base", "rust")
    version = proc.output(RUST["rustc"], "--version").strip()
    if f" {RUST['version']} " not in version:
        raise say.LabError(f"{RUST['rustc']} is {version}, versions.toml requires {RUST['version']}: "
                           "run apt-get update && apt-get install rustc-web")
    return version


@functools.cache
def versions():
    """The exact versions of all compilers, part of the key of kernels."""
    packages.ensure("kernel")
    clang = proc.output(f"{LLVM['bin']}/clang", "--version").splitlines()[0]
    if not re.search(rf"version {LLVM['major']}\.", clang):
        raise say.LabError(f"{LLVM['bin']}/clang is {clang}, versions.toml requires {LLVM['major']}")
    return [rustc(), clang, PINNED["bindgen"]["version"]]


def bindgen():
    """The folder of the pinned bindgen, built by cargo on first use. Only its own crate is optimised."""
    version = PINNED["bindgen"]["version"]

    def make(part):
        argv = [RUST["cargo"], "install", "bindgen-cli", "--locked", "--version", version, "--config", "profile.release.opt-level=0",
                "--config", "profile.release.package.bindgen.opt-level=1", "--root", part, "--target-dir", str(part) + ".target"]
        # Elsewhere than in this tree, whose programs are static.
        proc.logged(f"building bindgen {version}", "bindgen", argv, env=proc.environment(RUSTC=RUST["rustc"]), cwd=cache.root())
        proc.output("rm", "-rf", str(part) + ".target")

    return cache.entry(f"bindgen/{cache.key(version, rustc())}", make) / "bin"


def kernel_environment():
    return proc.environment(bindgen())


def kernel_variables(arch):
    """Variables of every kbuild call; the compilers are named because PATH may hold others."""
    return [
        f"ARCH={arch}", "LLVM=1", f"RUSTC={RUST['rustc']}", f"RUSTDOC={RUST['rustdoc']}",
        f"HOSTRUSTC={RUST['rustc']}", "KBUILD_BUILD_USER=lab", "KBUILD_BUILD_HOST=rust-binder",
    ]
