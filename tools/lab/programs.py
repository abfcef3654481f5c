# SPDX-License-Identifier: GPL-2.0
"""Static programs for the guests, from crates in this tree, with Debian's cargo.

The target folder is in the cache, so that a fresh clone compiles only our own crates anew. Two
checkouts would write programs of one name into it: hence the lock, and the copy out under it.
"""

import functools
import json
import os
import pathlib
import shutil
import subprocess

from . import cache, packages, proc, say, toolchain
from .versions import BUILD, PINNED, ROOT

CARGO = PINNED["rust"]["cargo"]


def environment():
    """What cargo runs with: Debian's compiler, whatever else is on the machine."""
    rust = PINNED["rust"]
    return proc.environment(RUSTC=rust["rustc"], RUSTDOC=rust["rustdoc"])


def target_folder(kind):
    """One target folder for each toolchain and kind of build."""
    return cache.root() / f"cargo/{kind}-{cache.key(toolchain.rustc())}"


@functools.cache
def build(crate, profile="release", kind="static", flags="-C target-feature=+crt-static", target=""):
    """The program of the crate in folder `crate`, linked statically, under build/programs.

    Crates of one `kind` share their dependencies' builds. For another `target` than the machine, the
    standard library is compiled, too: Debian has the compiler's own source, and libraries of the
    machine's architecture alone in the compiler's version. Once in a run: who asks again does not wait for
    what is being built by then.
    """
    folder = ROOT / crate
    if not (folder / "Cargo.toml").exists():
        raise say.LabError(f"{crate} is no crate of this tree")
    env = environment() | {"RUSTFLAGS": flags}
    argv = [CARGO, "build", "--profile", profile, "--locked", "--bins", "--target-dir",
            target_folder(kind), "--message-format=json-render-diagnostics"]
    if target:
        argv += ["--target", target, "-Zbuild-std=std,panic_unwind"]
        # What lets a released compiler compile its own library.
        env["RUSTC_BOOTSTRAP"] = "1"
    with cache.lock(f"cargo-{kind}"), say.Step(f"building {crate}"):
        done = subprocess.run([str(a) for a in argv], cwd=folder, env=env, text=True,
                              stdout=subprocess.PIPE)
        if done.returncode:
            raise say.LabError(f"building {crate} failed, see above")
        made = [pathlib.Path(m["executable"]) for m in map(json.loads, done.stdout.splitlines())
                if m.get("reason") == "compiler-artifact" and m.get("executable")]
        if not made:
            raise say.LabError(f"{crate} has no program")
        copy = BUILD / "programs" / target / made[-1].name
        copy.parent.mkdir(parents=True, exist_ok=True)
        part = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copy2(made[-1], part)
        part.rename(copy)
    return copy


def build_32bit(crate):
    """The same program for 32-bit tasks."""
    packages.ensure("rust", "i386")
    return build(crate, kind="static-32", target=PINNED["rust"]["target_32bit"])
