# SPDX-License-Identifier: GPL-2.0
"""The driver's and `rust/kernel/`'s documentation, private items included, as rustdoc makes it: warnings are errors."""

import re
import shlex
import subprocess

from . import kernel, module, proc, say, toolchain
from .versions import BUILD, ROOT

OUT = BUILD / "doc"
RUSTDOC = "/usr/bin/rustdoc"
# What the compiler is told of its output, and rustdoc has no use for.
_OUTPUT = re.compile(r"--(out-dir|emit|crate-type|remap-path-scope)\b|-Cembed-bitcode|-Clto|-Csplit-debuginfo")


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
    words = shlex.split(saved)
    compiler = next(at for at, word in enumerate(words) if word.endswith("rustc"))
    options, skip = [], False
    for word in words[compiler + 1:]:
        if skip or _OUTPUT.match(word):
            skip = not skip and word in ("--out-dir", "--emit", "--crate-type")
            continue
        options.append(word)
    return [RUSTDOC, *options, "--crate-name", "rust_binder", "--document-private-items",
            # The pages are for who reads the driver, not for who uses it: private items are there.
            "--output", str(OUT), "-Dwarnings", "-Arustdoc::private_intra_doc_links"]
