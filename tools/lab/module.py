# SPDX-License-Identifier: GPL-2.0
"""Our driver, or what tests a kernel from inside, as an external module of a guest's kernel."""

from . import cache, proc, say, source
from .versions import BUILD, ROOT

DRIVER = ROOT / "drivers/android"
# For numbers near their ends see drivers/android/pure/numbers.rs.
CHECKED = ("CONFIG_ANDROID_BINDER_IPC_RUST_NEAR_LIMITS=y", "CONFIG_ANDROID_BINDER_IPC_RUST_KUNIT_TEST=y")
# Kconfig's choices for the C driver, which a kernel without it cannot have; our tree's Makefile names other drivers, too.
_C_OPTIONS = ("CONFIG_ANDROID_BINDER_IPC=m", "CONFIG_ANDROID_BINDERFS=y", "CONFIG_ANDROID_BINDER_IPC_RUST=", "CONFIG_ANDROID_BINDER_ALLOC_KUNIT_TEST=",
              r'KCFLAGS=-DCONFIG_ANDROID_BINDERFS=1 -DCONFIG_ANDROID_BINDER_DEVICES=\"binder,hwbinder,vndbinder\"')
LONGEST_NAME = 400
# The kernels for which this process has built our driver: later edits count for the next command.
_current = set()


def build(kernel, sources=DRIVER, name="module", made="binder_rust.ko", arguments=()):
    """The path of the module `made`, built or brought up to date under build/ in folder `name`."""
    title = f"building {made} for {kernel.guest.name}"
    place = _place(kernel, name)
    if place in _current:
        return place / made
    with cache.lock(f"module-{cache.key(place)}"):
        out = folder(kernel, name)
        proc.logged(title, f"{name}-{kernel.guest.name}", command(kernel, out, *arguments, sources=sources), env=kernel.module_environment())
    if names := too_long(proc.output("nm", out / made)):
        raise say.LabError(f"names of more than {LONGEST_NAME} characters: {', '.join(names)}")
    if sources == DRIVER:
        _current.add(place)
    return out / made


def too_long(listed):
    """Names of functions in `nm`'s list at which a kernel may write beside its buffer when it prints them, in a stack trace or for `%pS`:
    from 512 on, `module_address_lookup()` returns a negative length (Linux 7.3). Another compiler may make them longer."""
    return [name for line in listed.splitlines() if len(name := line.split()[-1]) > LONGEST_NAME]


def _place(kernel, name):
    return BUILD / kernel.guest.name / name


def folder(kernel, name):
    """The folder of a module's build; empty if it was for another kernel."""
    out = _place(kernel, name)
    origin = out / ".kernel"
    if not origin.exists() or origin.read_text() != str(kernel.folder):
        proc.output("rm", "-rf", out)
        out.mkdir(parents=True)
        origin.write_text(str(kernel.folder))
    return out


def build_checked(kernel):
    """Our driver with its KUnit suites, and with numbers that start near their ends. Clippy compiles it: a lint is an error."""
    return build(kernel, name="module-checked", arguments=(*CHECKED, "CLIPPY=1", "KRUSTFLAGS=-Dwarnings"))


def of_c(kernel):
    """The C driver as an external module, for a kernel whose tree lacks it."""
    return build(kernel, source.c_driver(), "c-driver", "binder_linux.ko", _C_OPTIONS)


def command(kernel, out, *arguments, sources=DRIVER, target="modules"):
    """The kbuild call that makes a module, or another target, in folder `out`."""
    return kernel.module_command(sources, out, *arguments, target=target)
