# SPDX-License-Identifier: GPL-2.0
"""Kernel trees: Debian's source package, or the user's own tree, made ready for our kernels.

The package comes from a newer suite of the archive that the machine already uses.
"""

import os
import pathlib
import re
import subprocess

from . import cache, debian, proc, say
from .versions import PINNED

KERNEL = PINNED["kernel"]
SELFTESTS = "tools/testing/selftests"
# Part of the key of every tree: raise it when `_prepare` does something else.
PREPARATION = 2
_KCONFIG = "drivers/android/Kconfig"


def tree():
    """A kernel tree in the cache in which all drivers can be chosen as modules."""
    own = os.environ.get("KERNEL_SRC")
    if own:
        return _from_folder(pathlib.Path(own).absolute())
    archive = _package()

    def make(part):
        unpack(archive, part)
        _prepare(part)

    return cache.entry(f"source/debian-{cache.key(archive.name, PREPARATION)}", make)


def unpack(archive, folder):
    """Unpack the tree that a source package holds into a new folder."""
    cache.need_space(2.5, "unpacking the kernel source")
    folder.mkdir()
    with say.Step("unpacking the kernel source"):
        _pipe(
            ["dpkg-deb", "--fsys-tarfile", archive],
            ["tar", "-xO", "--wildcards", "./usr/src/linux-source-*.tar.xz"],
            ["tar", "-xJ", "--strip-components=1", "-C", folder],
        )


def untouched_kconfig():
    """The file that `_prepare` changes as the source package has it; of one's own tree as it is there."""
    own = os.environ.get("KERNEL_SRC")
    if own:
        return (pathlib.Path(own) / _KCONFIG).read_text()
    archive = _package()

    def make(part):
        part.mkdir()
        with say.Step("unpacking a file of the kernel source"):
            _pipe(
                ["dpkg-deb", "--fsys-tarfile", archive],
                ["tar", "-xO", "--wildcards", "./usr/src/linux-source-*.tar.xz"],
                ["tar", "-xJ", "--strip-components=1", "-C", part, "--wildcards", f"*/{_KCONFIG}"],
            )

    return (cache.entry(f"source/kconfig/{cache.key(archive.name)}", make) / _KCONFIG).read_text()


def builtin_tree(base, name):
    """A copy of `base` to lay our files into for guest `name`: hard links, since the installer replaces files.

    One folder deeper than trees that hold nothing of ours, which is where originality checks look.
    """

    def make(part):
        proc.output("cp", "-al", base, part)

    return cache.entry(f"source/builtin/{cache.key(base.name, name)}", make)


def _package():
    """The source package's archive, downloaded once for each [kernel] section of versions.toml."""

    def make(part):
        # What an interrupted download left there is not downloaded again.
        unfinished = part.with_name(part.name + ".deb")
        cache.need_space(0.5, "downloading the kernel source", unfinished)
        unfinished.mkdir(exist_ok=True)
        _download(unfinished)
        unfinished.rename(part)

    folder = cache.entry(f"download/linux-source-{cache.key(KERNEL)}", make)
    return next(folder.glob("*.deb"))


def _download(folder):
    state = folder / "apt"
    tried = []
    for name in KERNEL["suites"]:
        suite = debian.Suite(state / name, name, KERNEL["keyring"])
        version, missing = suite.offered(KERNEL["package"])
        if not version:
            tried.append(f"{name} ({missing})")
            continue
        say.note(f"{KERNEL['package']} {version} from {name}")
        if version != KERNEL["tested"]:
            say.note(f"  (tested with {KERNEL['tested']})")
        suite.download("downloading the kernel source (165 MB)", "apt-source", folder, KERNEL["package"])
        proc.output("rm", "-rf", state)
        return
    raise say.LabError(
        f"no suite of {debian.mirror()} gave {KERNEL['package']}: tried {', '.join(tried)}. "
        "Check the network, or set KERNEL_SRC to an unpacked Linux "
        f"{KERNEL['series']} tree"
    )


def _from_folder(folder):
    makefile = folder / "Makefile"
    head = makefile.read_text()[:400] if makefile.is_file() else ""
    version = ".".join(re.findall(r"^(?:VERSION|PATCHLEVEL) = (\d+)$", head, re.M))
    if version != KERNEL["series"]:
        what = f"Linux {version}" if version else "no kernel tree"
        raise say.LabError(f"KERNEL_SRC={folder} is {what}: point it at a Linux {KERNEL['series']} tree")
    if (folder / ".config").exists():
        raise say.LabError(f"KERNEL_SRC={folder} has been built in: run `make -C {folder} mrproper`")
    if not re.search(r"config ANDROID_BINDER_IPC\n\ttristate ", (folder / _KCONFIG).read_text()):
        raise say.LabError(f"KERNEL_SRC={folder} can have Binder drivers built in only, and exports to modules not all that they need: "
                           f"take {KERNEL['package']} of Debian, or lay our driver into it by tools/install-into-kernel")

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


# What is replaced in a file of the tree, each once.
_EDITS = {
    # clang's large code model has sections of its own. Without these, static lock classes lie outside of the kernel's data, and
    # lockdep turns itself off.
    "arch/um/kernel/dyn.lds.S": (
        ("*(.data.* .gnu.linkonce.d.*)", "*(.data.* .gnu.linkonce.d.* .ldata .ldata.*)"),
        ("*(.bss .bss.* .gnu.linkonce.b.*)", "*(.bss .bss.* .gnu.linkonce.b.* .lbss .lbss.*)"),
    ),
    # KASAN and lockdep save the reliable part of a stack, which is empty without frame pointers: they need not walk it.
    "arch/um/kernel/stacktrace.c": (
        ("struct stack_trace *trace)\n{\n\tdump_trace(",
         "struct stack_trace *trace)\n{\n\tif (IS_ENABLED(CONFIG_FRAME_POINTER))\n\t\tdump_trace("),
    ),
    # A guest with one CPU gets no interrupt from another: it saves two system calls of the host for each critical section.
    "arch/um/os-Linux/smp.c": (
        ("\tsigemptyset(&sigset);\n\tsigaddset(&sigset, IPI_SIGNAL);\n\n",
         "\tif (uml_ncpus == 1)\n\t\treturn;\n\n\tsigemptyset(&sigset);\n\tsigaddset(&sigset, IPI_SIGNAL);\n\n"),
        # A CPU that is not online yet may free nothing.
        ("static pthread_t cpu_threads[CONFIG_NR_CPUS];\n",
         "static pthread_t cpu_threads[CONFIG_NR_CPUS];\nstatic struct cpu_thread_data threads_data[CONFIG_NR_CPUS];\n"),
        ("\tdata = uml_kmalloc(sizeof(*data), UM_GFP_ATOMIC);\n", "\tdata = &threads_data[cpu];\n"),
        ("err:\n\tkfree(data);\n", "err:\n"),
        ("\tkfree(data);\n\tlongjmp(", "\tlongjmp("),
    ),
}


def _prepare(part):
    """Let both incumbents be modules of one kernel (upstream's Rust driver is built in or nothing), and mend User Mode Linux."""
    kconfig = part / _KCONFIG
    text = kconfig.read_text()
    block = re.search(r"config ANDROID_BINDER_IPC_RUST\n(\t.*\n)+", text)
    if not block:
        raise say.LabError(f"{kconfig} has no ANDROID_BINDER_IPC_RUST: not a Linux {KERNEL['series']} tree")
    changed = block.group(0).replace("\tbool ", "\ttristate ").replace(" && !ANDROID_BINDER_IPC", "")
    _replace(kconfig, block.group(0), changed)
    for name, edits in _EDITS.items():
        for old, new in edits:
            _replace(part / name, old, new)


def _replace(path, old, new):
    """Replace what stands in a file once, in a new file: other trees may have links to the old one."""
    text = path.read_text()
    if text.count(old) != 1:
        raise say.LabError(f"{path} has {text.count(old)} times {old!r}: not a Linux {KERNEL['series']} tree")
    path.unlink()
    path.write_text(text.replace(old, new))


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
