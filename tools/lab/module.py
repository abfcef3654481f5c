# SPDX-License-Identifier: GPL-2.0
"""Our driver, or what tests a kernel from inside, as an external module of a guest's kernel."""

from . import cache, proc, prune, say, toolchain
from .versions import BUILD, ROOT

DRIVER = ROOT / "drivers/android"
# What a module may be made of besides its own folder.
SOURCES = (DRIVER, ROOT / "rust", ROOT / "include")
# Numbers start near their ends: see drivers/android/pure/numbers.rs.
NEAR_LIMITS = "CONFIG_ANDROID_BINDER_IPC_RUST_NEAR_LIMITS=y"
KUNIT = "CONFIG_ANDROID_BINDER_IPC_RUST_KUNIT_TEST=y"
# Where the cache has modules that clones have made.
_KEPT = "module/"
# Where this process has brought our driver up to date: what is edited meanwhile is for the next command.
_current = set()


def build(kernel, sources=DRIVER, name="module", made="binder_rust.ko", arguments=()):
    """The path of the module `made`, built or brought up to date under build/ in folder `name`."""
    title = f"building {made} for {kernel.guest.name}"
    place = _place(kernel, name)
    if place in _current:
        return place / made
    with cache.lock(f"module-{cache.key(place)}"):
        out = folder(kernel, name)

        def make():
            proc.logged(title, f"{name}-{kernel.guest.name}", command(kernel, out, *arguments, sources=sources),
                        env=kernel.module_environment())

        if (out / made).exists():
            make()
        else:
            _first(kernel, out, made, (arguments, cache.content_below(*SOURCES, sources)), make)
    if sources == DRIVER:
        _current.add(place)
    return out / made


def _first(kernel, out, made, made_of, make):
    """Make a module in a folder that has none, or take what an earlier clone at this place made of the same: paths are in modules."""
    def keep(part):
        make()
        proc.output("cp", "-dR", out, part)

    key = cache.key(kernel.folder, toolchain.versions(), out, made, made_of)
    kept = cache.entry(f"{_KEPT}{kernel.guest.name}-{key}", keep)
    if not (out / made).exists():
        # With new times: these files are newer than the sources, and made of them.
        try:
            proc.output("cp", "-dR", f"{kept}/.", out)
        except BaseException:
            # What is there in part would be taken for made.
            proc.output("rm", "-rf", out)
            raise
        say.note(f"{made} for {kernel.guest.name} was made of the same before")
    # Whoever edits the driver, or clones to another place each time, has no use for the others.
    prune.outdated(_KEPT, days=1)


def _place(kernel, name):
    return BUILD / kernel.guest.name / name


def folder(kernel, name):
    """Where a module is built; empty if it was for another kernel."""
    out = _place(kernel, name)
    origin = out / ".kernel"
    if not origin.exists() or origin.read_text() != str(kernel.folder):
        proc.output("rm", "-rf", out)
        out.mkdir(parents=True)
        origin.write_text(str(kernel.folder))
    return out


def build_variant(kernel, near_limits=False, kunit=False):
    """Our driver with numbers that start near their ends, or with its KUnit suites."""
    chosen = [("-near-limits", NEAR_LIMITS)] * near_limits + [("-kunit", KUNIT)] * kunit
    if not chosen:
        return build(kernel)
    return build(kernel, name="module" + "".join(name for name, _ in chosen), arguments=tuple(word for _, word in chosen))


def command(kernel, out, *arguments, sources=DRIVER, target="modules"):
    """The kbuild call that makes a module, or another target, in folder `out`."""
    return kernel.module_command(sources, out, *arguments, target=target)
