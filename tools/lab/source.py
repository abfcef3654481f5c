# SPDX-License-Identifier: GPL-2.0
"""The tree of Debian's kernel source package, made ready for our kernels.

The package comes from a newer suite of the archive that the machine already uses.
"""

from . import cache, debian, proc, say
from .versions import PINNED

KERNEL = PINNED["kernel"]
C_FILES = PINNED["c_driver"]["files"]
SELFTESTS = "tools/testing/selftests"
# Part of the key of every tree: raise it when `_EDITS` change.
PREPARATION = 2
_KCONFIG = "drivers/android/Kconfig"
_UNPACK = """set -o pipefail
deb=$1 folder=$2; shift 2
dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards "./usr/src/linux-source-*.tar.xz" | tar -xJ --strip-components=1 -C "$folder" --wildcards "$@"
"""


def tree():
    """A kernel tree in the cache in which all drivers can be chosen as modules."""
    archive = _package()

    def make(part):
        unpack(archive, part)
        _edit(part, _EDITS)

    return cache.entry(f"source/debian-{cache.key(archive.name, PREPARATION)}", make)


def c_package():
    """The package that the C driver is from: that of the kernel, unless its section names another one."""
    return _package(KERNEL | {name: value for name, value in PINNED["c_driver"].items() if name != "files"})


def c_driver():
    """The C driver's folder in the cache, with its files alone."""
    archive = c_package()
    made = cache.entry(f"source/c-driver-{cache.key(archive.name, C_FILES)}", lambda part: unpack(archive, part, *C_FILES))
    return made / "drivers/android"


def unpack(archive, folder, *names):
    """Unpack the tree that a source package holds into a new folder, or these files of it."""
    cache.need_space(0.1 if names else 2.5, "unpacking the kernel source")
    folder.mkdir()
    with say.Step("unpacking the kernel source"):
        proc.output("bash", "-c", _UNPACK, "bash", archive, folder, *(f"*/{name}" for name in names))


def variant(name):
    """A copy of that tree, in hard links, with the replacements of `_VARIANTS`."""
    base, edits = tree(), _VARIANTS[name]

    def make(part):
        proc.output("cp", "-al", base, part)
        _edit(part, edits)

    return cache.entry(f"source/{name}-{cache.key(base.name, edits)}", make)


def linux_6_18():
    """The tree of Linux 6.18 as its developers have it, but for what lets lockdep work in User Mode Linux."""
    pin = PINNED["linux_6_18"]

    def make(part):
        cache.need_space(2.5, "unpacking Linux 6.18")
        debian.unpack_source(pin, "downloading Linux 6.18 (157 MB)", "linux-6.18", part, "--strip-components=1")
        _edit(part, {name: _EDITS[name] for name in ("arch/um/kernel/dyn.lds.S", "arch/um/kernel/stacktrace.c")})

    return cache.entry(f"source/linux-6.18-{cache.key(pin, PREPARATION)}", make)


def builtin_tree(base, name):
    """A copy of `base` to lay our files into for guest `name`: hard links, since the installer replaces files.

    One folder deeper than trees that hold nothing of ours, which is where originality checks look.
    """

    def make(part):
        proc.output("cp", "-al", base, part)

    return cache.entry(f"source/builtin/{cache.key(base.name, name)}", make)


def _package(pin=KERNEL):
    """The source package's archive, downloaded once for each section of versions.toml that names one."""

    def make(part):
        # Packages of an interrupted download are not downloaded again.
        unfinished = part.with_name(part.name + ".deb")
        cache.need_space(0.5, "downloading the kernel source", unfinished)
        unfinished.mkdir(exist_ok=True)
        debian.suite_with(pin, unfinished / "apt").download("downloading the kernel source (165 MB)", "apt-source", unfinished, pin["package"])
        proc.output("rm", "-rf", unfinished / "apt")
        unfinished.rename(part)

    folder = cache.entry(f"download/linux-source-{cache.key(pin)}", make)
    return next(folder.glob("*.deb"))


# The replacements in files of the tree, each once.
_EDITS = {
    # Both incumbents can be modules of one kernel.
    _KCONFIG: (
        ('\tbool "Rust version of Android Binder', '\ttristate "Rust version of Android Binder'),
        ("depends on RUST && MMU && NET && !ANDROID_BINDER_IPC\n", "depends on RUST && MMU && NET\n"),
    ),
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


# As mainline has it: the C driver cannot be a module, and nothing is exported that only Binder's drivers call of all that can be one.
_UNEXPORTED = {
    "fs/file.c": ("file_close_fd",),
    "ipc/msgutil.c": ("init_ipc_ns",),
    "ipc/namespace.c": ("put_ipc_ns",),
    "kernel/sched/syscalls.c": ("can_nice",),
    "kernel/sched/wait.c": ("__wake_up_pollfree",),
    "kernel/task_work.c": ("task_work_add",),
    "mm/list_lru.c": ("list_lru_del",),
    "mm/memory.c": ("zap_vma_range",),
    "mm/mmap_lock.c": ("lock_vma_under_rcu",),
    "security/security.c": tuple(f"security_binder_{hook}" for hook in ("set_context_mgr", "transaction", "transfer_binder", "transfer_file")),
}
_VARIANTS = {
    # Without what Debian changes so that Binder's drivers can be modules (docs/patches.md).
    "mainline": {
        _KCONFIG: (('tristate "Android Binder IPC', 'bool "Android Binder IPC'), *((new, old) for old, new in _EDITS[_KCONFIG])),
        "drivers/android/Makefile": (
            ("+= binder_linux.o\nbinder_linux-y := ", "+= "),
            ("binder_linux-$(CONFIG_ANDROID_BINDERFS)", "obj-$(CONFIG_ANDROID_BINDERFS)"),
            ("binder_linux-$(CONFIG_ANDROID_BINDER_ALLOC", "obj-$(CONFIG_ANDROID_BINDER_ALLOC"),
        ),
        **{name: tuple((f"\nEXPORT_SYMBOL_GPL({symbol});\n", "\n") for symbol in symbols) for name, symbols in _UNEXPORTED.items()},
    },
    # In User Mode Linux, nothing registers a terminal's interrupt again after its reader was slow, and data may be read by two at once then.
    "kcov": {"arch/um/drivers/line.c": (("\tdeactivate_chan(line->chan_in, line->read_irq);\n", ""),
                                       ("\tline->throttled = 0;\n\tchan_interrupt(line, line->read_irq);\n", "\tline->throttled = 0;\n"))},
    # The thread sanitizer may be switched on for Rust code, too. It watches modules of other folders and Rust's atomics alone: KCSAN looks at one
    # access of so many, and nearly all would be the kernel's.
    "kcsan": {"scripts/generate_rust_target.rs": (('["kcfi", "kernel-address"]', '["kcfi", "kernel-address", "thread"]'),),
              "scripts/Makefile.lib": (("$(KCSAN_SANITIZE_$(target-stem).o)$(KCSAN_SANITIZE)$(is-kernel-object)), ",
                                        "$(if $(KBUILD_EXTMOD)$(filter helpers/%,$(target-stem)),y,n)), "),)},
}


def _edit(part, all_edits):
    """Make the edits in new files: other trees may have links to the old ones."""
    for name, edits in all_edits.items():
        path = part / name
        text = path.read_text()
        for old, new in edits:
            if text.count(old) != 1:
                raise say.LabError(f"{path} has {text.count(old)} times {old!r}: not a Linux {KERNEL['series']} tree")
            text = text.replace(old, new)
        path.unlink()
        path.write_text(text)
