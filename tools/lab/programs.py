# SPDX-License-Identifier: GPL-2.0
"""Static programs for the guests, from crates in this tree, with Debian's cargo.

All checkouts build in one place, so that a fresh clone compiles only the differences to the last build. Cargo detects
changes by the times of files, and does not distinguish checkouts. So it gets a copy of the tree, in
which files are written when their contents change.
"""

import contextlib
import functools
import json
import os
import pathlib
import shutil
import subprocess

from . import cache, kernel, packages, proc, say, toolchain
from .versions import BUILD, PINNED, ROOT

CARGO = PINNED["rust"]["cargo"]
# The sources of crates; the host's tests include sources of the driver.
_PARTS = (".cargo", "Cargo.lock", "Cargo.toml", "docs/contract.md", "docs/security.md", "drivers", "include", "rust", "tests", "tools")
# The options that build the standard library, and the variable that permits that with a released compiler.
STANDARD_LIBRARY = ("-Zbuild-std=std,panic_abort,panic_unwind", "-Zbuild-std-features=panic-unwind")
OWN_LIBRARY = {"RUSTC_BOOTSTRAP": "1"}
# Another one makes other folders.
_LAYOUT = "a copy of the tree beside the target folder"


def environment():
    """The environment of cargo: Debian's compiler, whatever else is on the machine."""
    rust = PINNED["rust"]
    # A tree on such a machine is not edited: data that would shorten the next build is of no use.
    once = {"CARGO_INCREMENTAL": "0"} if os.environ.get("CI") else {}
    # Clippy compiles what it checks: our own crates are compiled once for their programs and their lints.
    return proc.environment(RUSTC=rust["rustc"], RUSTDOC=rust["rustdoc"], RUSTC_WORKSPACE_WRAPPER=rust["clippy"], **once)


@contextlib.contextmanager
def workshop(kind):
    """The folders of cargo's builds, locked for this process: the copy of this tree, and the target folder. There is one for each toolchain
    and kind of build."""
    name = f"cargo/{kind}-{cache.key(toolchain.rustc(), _LAYOUT)}"
    folder = cache.root() / name
    with cache.lock(name):
        copy_into(folder / "tree")
        yield folder / "tree", folder / "target"


def copy_into(copy):
    """Bring a copy of what crates are made of up to date; only what differs is written."""
    wanted = _sources(ROOT)
    for name in _sources(copy).keys() - wanted.keys():
        (copy / name).unlink()
    for name, path in wanted.items():
        made, content = copy / name, path.read_bytes()
        if not made.exists() or made.read_bytes() != content:
            proc.write(made, content)


def _sources(tree):
    """The files of a tree that its crates are made of, by their names in it."""
    found = {}
    for part in _PARTS:
        top = tree / part
        for folder, folders, names in os.walk(top) if top.is_dir() else [(tree, [], [part])]:
            folders[:] = [name for name in folders if name not in ("target", "__pycache__")]
            paths = [pathlib.Path(folder, name) for name in names]
            found |= {str(path.relative_to(tree)): path for path in paths if path.is_file()}
    return found


def of_tests(crate):
    """The kind of build and the profile for tests and lints in folder `crate`: most of their dependencies have been compiled for the
    programs of that kind."""
    if crate == ROOT:
        return "static", "guest"
    return ("clients", "dev") if crate.is_relative_to(ROOT / "tests/clients") else ("test", "test")


@functools.cache
def build(crate, profile="guest", kind="static", flags=None, target=""):
    """The program of the crate in folder `crate`, linked statically, under build/programs.

    Crates of one `kind` share their dependencies' builds. For another `target` than the machine, the
    standard library is compiled, too: Debian has the compiler's own source, and libraries of the
    machine's architecture alone in the compiler's version. `flags` are for the compiler instead of those of the
    workspace. Once in a run: a second call returns without waiting for other builds.
    """
    if not (ROOT / crate / "Cargo.toml").exists():
        raise say.LabError(f"{crate} is no crate of this tree")
    env = environment() | ({"RUSTFLAGS": flags} if flags else {})
    argv = [CARGO, "build", "--profile", profile, "--locked", *_programs_of(crate),
            "--message-format=json-render-diagnostics"]
    if target:
        argv += ["--target", target, *STANDARD_LIBRARY]
        env |= OWN_LIBRARY
    with workshop(kind) as (tree, made_in), say.Step(f"building {crate}"):
        argv += ["--target-dir", made_in]
        done = subprocess.run([str(a) for a in argv], cwd=tree / crate, env=env, text=True, stdout=subprocess.PIPE)
        if done.returncode:
            raise say.LabError(f"building {crate} failed, see above" + _of_missing_crates(tree / crate, target, env))
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


def _of_missing_crates(folder, target, env):
    """The advice if cargo failed because crates are missing."""
    argv = [CARGO, "fetch", "--locked", "--offline", "--target", target or "host-tuple"]
    if subprocess.run(argv, cwd=folder, env=env, capture_output=True).returncode == 0:
        return ""
    return (": crates that it depends on are missing. Check the network, and the mirror in cargo's configuration; "
            "then run this again: it continues with the crates that are there")


def _programs_of(crate):
    """The arguments that select the programs of a crate's workspace. The features of a dependency depend on the chosen packages: all are
    chosen, so that a dependency is compiled once for all programs and tests."""
    alone = (ROOT / crate / "Cargo.lock").exists()
    return ["--bins"] if alone else ["--workspace", "--bin", pathlib.Path(crate).name]


def target_of(arch, width=64):
    """The section of versions.toml for programs of an architecture's guests; None if they are as this machine's."""
    return PINNED["rust"]["targets"].get(f"{arch}-{width}")


def build_for(name, crate, width=64):
    """The program of the crate in folder `crate` for tasks of that many bits in guest `name`, or on a kernel."""
    target = target_of(getattr(name, "guest", kernel.GUESTS.get(name)).arch, width)
    if target:
        packages.ensure("rust", target["packages"])
        return build(crate, kind="static-foreign", target=target["name"])
    if width != 64:
        raise say.LabError(f"guest {name} has no {width}-bit tasks")
    return build(crate)
