# SPDX-License-Identifier: GPL-2.0
"""Kernel trees: Debian's source package, or the user's own tree, made ready for our kernels.

The package comes through a private apt state, so the machine's own sources stay as they are; the
mirror is the one that the machine already uses.
"""

import os
import pathlib
import re
import subprocess

from . import cache, proc, say
from .versions import PINNED

KERNEL = PINNED["kernel"]
# Part of the key of every tree: raise it when `_prepare` does something else.
PREPARATION = 1


def tree():
    """A kernel tree in the cache in which all drivers can be chosen as modules."""
    own = os.environ.get("KERNEL_SRC")
    if own:
        return _from_folder(pathlib.Path(own).absolute())
    archive = _package()

    def make(part):
        cache.need_space(2.5, "unpacking the kernel source")
        part.mkdir()
        with say.Step("unpacking the kernel source"):
            _pipe(
                ["dpkg-deb", "--fsys-tarfile", archive],
                ["tar", "-xO", "--wildcards", "./usr/src/linux-source-*.tar.xz"],
                ["tar", "-xJ", "--strip-components=1", "-C", part],
            )
        _prepare(part)

    return cache.entry(f"source/debian-{cache.key(archive.name, PREPARATION)}", make)


def builtin_tree(base):
    """A copy of `base` to lay our files into: hard links, since the installer replaces files.

    One folder deeper than trees that hold nothing of ours, which is where originality checks look.
    """

    def make(part):
        proc.output("cp", "-al", base, part)

    return cache.entry(f"source/builtin/{cache.key(base.name)}", make)


def _package():
    """The source package's archive, downloaded once for each [kernel] section of versions.toml."""

    def make(part):
        cache.need_space(0.5, "downloading the kernel source")
        part.mkdir()
        _download(part)

    folder = cache.entry(f"download/linux-source-{cache.key(KERNEL)}", make)
    return next(folder.glob("*.deb"))


def _download(folder):
    state = folder / "apt"
    tried = []
    for suite in KERNEL["suites"]:
        apt = _private_apt(state / suite, suite)
        update = subprocess.run(
            ["apt-get", *apt, "-qq", "update"], text=True, capture_output=True,
            env=proc.environment(),
        )
        policy = proc.output("apt-cache", *apt, "policy", KERNEL["package"])
        found = re.search(r"Candidate: (\d\S*)", policy)
        if update.returncode or not found:
            tried.append(f"{suite} ({'unreachable' if update.returncode else 'no such package'})")
            continue
        version = found.group(1)
        say.note(f"{KERNEL['package']} {version} from {suite}")
        if version != KERNEL["tested"]:
            say.note(f"  (tested with {KERNEL['tested']})")
        argv = ["apt-get", *apt, "download", KERNEL["package"]]
        proc.logged("downloading the kernel source (165 MB)", "apt-source", argv, cwd=folder)
        proc.output("rm", "-rf", state)
        return
    raise say.LabError(
        f"no suite of {_mirror()} gave {KERNEL['package']}: tried {', '.join(tried)}. "
        "Check the network, or set KERNEL_SRC to an unpacked Linux "
        f"{KERNEL['series']} tree"
    )


def _private_apt(state, suite):
    for sub in ("lists/partial", "cache/archives/partial"):
        (state / sub).mkdir(parents=True, exist_ok=True)
    sources = state / "sources.list"
    sources.write_text(f"deb [signed-by={KERNEL['keyring']}] {_mirror()} {suite} main\n")
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": state / "lists",
        "Dir::Cache": state / "cache",
        "APT::Default-Release": suite,
        "APT::Update::Error-Mode": "any",
    }
    if os.geteuid() == 0:
        options["APT::Sandbox::User"] = "root"
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def _mirror():
    """The archive that this machine's own apt reads Debian's main component from."""
    for line in proc.output(
        "apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(RELEASE)", "Created-By: Packages",
        "Component: main",
    ).splitlines():
        words = line.split()
        if "bookworm" in words[1:] or "stable" in words[1:]:
            return words[0]
    raise say.LabError("apt knows no Debian 12 archive: see /etc/apt/sources.list.d, or set KERNEL_SRC")


def _from_folder(folder):
    makefile = folder / "Makefile"
    head = makefile.read_text()[:400] if makefile.is_file() else ""
    version = ".".join(re.findall(r"^(?:VERSION|PATCHLEVEL) = (\d+)$", head, re.M))
    if version != KERNEL["series"]:
        what = f"Linux {version}" if version else "no kernel tree"
        raise say.LabError(f"KERNEL_SRC={folder} is {what}: point it at a Linux {KERNEL['series']} tree")
    if (folder / ".config").exists():
        raise say.LabError(f"KERNEL_SRC={folder} has been built in: run `make -C {folder} mrproper`")

    def make(part):
        cache.need_space(2.5, "copying the kernel source")
        with say.Step(f"copying {folder}"):
            proc.output("rsync", "-a", "--exclude=/.git", f"{folder}/", f"{part}/")
        _prepare(part)

    return cache.entry(f"source/own-{cache.key(_fingerprint(folder), PREPARATION)}", make)


def _fingerprint(folder):
    """Names, sizes and times of all files: what tells one state of a user's tree from another."""
    return proc.output(
        "find", folder, "-path", folder / ".git", "-prune", "-o", "-type", "f",
        "-printf", "%P %s %T@\n",
    )


def _prepare(part):
    """Let both incumbents be modules of one kernel: upstream's Rust driver is built in or nothing."""
    kconfig = part / "drivers/android/Kconfig"
    text = kconfig.read_text()
    block = re.search(r"config ANDROID_BINDER_IPC_RUST\n(\t.*\n)+", text)
    if not block:
        raise say.LabError(f"{kconfig} has no ANDROID_BINDER_IPC_RUST: not a Linux {KERNEL['series']} tree")
    changed = block.group(0).replace("\tbool ", "\ttristate ").replace(" && !ANDROID_BINDER_IPC", "")
    kconfig.unlink()
    kconfig.write_text(text.replace(block.group(0), changed))


def _pipe(*commands):
    """Run commands as a pipeline; every one must succeed."""
    running, source = [], subprocess.DEVNULL
    for argv in commands:
        last = argv is commands[-1]
        child = subprocess.Popen(
            [str(a) for a in argv], stdin=source, stdout=None if last else subprocess.PIPE
        )
        running.append(child)
        source = child.stdout
    for child, argv in reversed([*zip(running, commands)]):
        if child.wait():
            raise say.LabError(f"{argv[0]} could not unpack the kernel source: is the disk full?")
