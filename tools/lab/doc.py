# SPDX-License-Identifier: GPL-2.0
"""The driver's and `rust/kernel/`'s documentation, private items included, as rustdoc makes it: warnings are errors."""

import shlex
import subprocess

from . import kernel, module, say, toolchain
from .versions import BUILD, PINNED, ROOT

OUT = BUILD / "doc"
# Options of the compiler for its output, which rustdoc does not take; some are followed by a value.
_OUTPUT = ("--emit=", "--remap-path-scope", "-Cembed-bitcode", "-Clto", "-Csplit-debuginfo")
_OUTPUT_PAIRS = ("--out-dir", "--crate-type")


def run():
    """`make doc`."""
    with say.Step("documentation"):
        wrong = complaints()
    if wrong:
        raise say.LabError("\n".join(wrong))
    say.note(f"open {OUT.relative_to(ROOT)}/rust_binder/index.html")


def complaints():
    """The errors and warnings of rustdoc. The pages are in build/doc afterwards."""
    built = kernel.build("um")
    out = module.build(built).parent
    done = subprocess.run(_command(out), text=True, capture_output=True, cwd=out, env=toolchain.kernel_environment()
                          | {"OBJTREE": str(built.folder), "RUST_MODFILE": "./binder_rust",
                             "RUSTC_BOOTSTRAP": "1"})
    return [] if done.returncode == 0 else done.stderr.strip().splitlines()


def _command(out):
    """The call of rustdoc that corresponds to how kbuild compiled the module in folder `out`."""
    saved = (out / ".rust_binder.o.cmd").read_text().splitlines()[0].partition(" := ")[2]
    words = iter(shlex.split(saved))
    # The words before the compiler are kbuild's.
    next(word for word in words if word.endswith("rustc"))
    options = []
    for word in words:
        if word in _OUTPUT_PAIRS:
            next(words)
        elif not word.startswith(_OUTPUT):
            options.append(word)
    # The pages are for who reads the driver, not for who uses it: private items are there.
    return [PINNED["rust"]["rustdoc"], *options, "--crate-name", "rust_binder", "--document-private-items",
            "--output", str(OUT), "-Dwarnings", "-Arustdoc::private_intra_doc_links"]
