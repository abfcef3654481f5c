# SPDX-License-Identifier: GPL-2.0
"""Our driver as an external module of a guest's kernel."""

from . import proc, toolchain
from .versions import BUILD, ROOT

DRIVER = ROOT / "drivers/android"


def build(kernel, driver=DRIVER, name="module"):
    """The path of binder_rust.ko, built or brought up to date under build/ in folder `name`."""
    out = BUILD / kernel.guest.name / name
    origin = out / ".kernel"
    if not origin.exists() or origin.read_text() != str(kernel.folder):
        proc.output("rm", "-rf", out)
        out.mkdir(parents=True)
        origin.write_text(str(kernel.folder))
    title = f"building the driver for {kernel.guest.name}"
    proc.logged(title, f"{name}-{kernel.guest.name}", command(kernel, out, driver=driver),
                env=toolchain.kernel_environment())
    return out / "binder_rust.ko"


def command(kernel, out, *arguments, driver=DRIVER):
    """The kbuild call that makes our module in folder `out`."""
    return [
        "make", "-C", kernel.folder, f"M={driver}", f"MO={out}",
        *toolchain.kernel_variables(kernel.guest.arch), *kernel.guest.flags, *arguments, "modules",
    ]
