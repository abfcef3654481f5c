# SPDX-License-Identifier: GPL-2.0
"""The driver's and `rust/kernel/`'s documentation, private items included, as rustdoc makes it: warnings are errors."""

import shlex
import subprocess

from . import kernel, module, say, toolchain
from .versions import BUILD, PINNED, ROOT

OUT = BUILD / "doc"
# What the compiler is told of its output, and rustdoc has no use for; after some of it comes a word that belongs to it.
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
    """What rustdoc says is wrong. The pages are in build/doc afterwards."""
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
    # What comes before is for kbuild's sake.
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
