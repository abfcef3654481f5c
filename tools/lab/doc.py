# SPDX-License-Identifier: GPL-2.0
"""The site: the documents as an mdBook, and the driver's and `rust/kernel/`'s documentation, private items included, as rustdoc makes it."""

import re
import shlex
import shutil
import subprocess

from . import cache, kernel, module, packages, proc, programs, say, toolchain
from .versions import BUILD, PINNED, ROOT

OUT = BUILD / "doc"
CODE = OUT / "code"
_REPORT = BUILD / "report"
# What the compiler is told of its output, and rustdoc has no use for; after some of it comes a word that belongs to it.
_OUTPUT = ("--emit=", "--remap-path-scope", "-Cembed-bitcode", "-Clto", "-Csplit-debuginfo")
_OUTPUT_PAIRS = ("--out-dir", "--crate-type")


def run():
    """`make doc`."""
    book()
    with say.Step("documentation"):
        wrong = complaints()
    if wrong:
        raise say.LabError("\n".join(wrong))
    if _REPORT.is_dir():
        shutil.copytree(_REPORT, OUT / "report")
    say.note(f"open {OUT.relative_to(ROOT)}/index.html")


def book():
    """The documents as pages with a search, in the order of docs/SUMMARY.md."""
    source = BUILD / "book"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source / "src/docs")
    for path in ROOT.glob("*.md"):
        shutil.copy2(path, source / "src")
    contents = re.sub(r"\]\((?!\.\./)", "](docs/", (source / "src/docs/SUMMARY.md").read_text()).replace("](../", "](")
    (source / "src/docs/SUMMARY.md").unlink()
    (source / "src/SUMMARY.md").write_text(contents + "- [The driver's code](code.md)\n- [Report](report.md)\n")
    (source / "src/code.md").write_text("# The driver's code\n\n[Documentation of `drivers/android/` and `rust/kernel/`](code/rust_binder/index.html)\n")
    there = "[The page of the last `make bench`](report/index.html)" if _REPORT.is_dir() else "`make bench` makes a page of measurements, and `make doc` adds it here."
    (source / "src/report.md").write_text(f"# Report\n\n{there}\n")
    for path in source.rglob("*.md"):
        # A link to a source file leads nowhere in the book: its text stays.
        text = re.sub(r"\[([^]]*)\]\(([^)#:]+)(?:#[^)]*)?\)", lambda link: link[0] if link[2].startswith(("code/", "report/")) or (path.parent / link[2]).exists() else link[1], path.read_text())
        path.write_text(text)
    (source / "book.toml").write_text('[book]\ntitle = "Rust Binder"\n[output.html]\nno-section-label = true\n')
    proc.logged("building the book", "book", [_mdbook(), "build", source, "--dest-dir", OUT], env=proc.environment())


def _mdbook():
    pin = PINNED["mdbook"]

    def make(part):
        packages.ensure("rust")
        argv = [programs.CARGO, "install", "--locked", "mdbook", "--version", pin["version"], "--no-default-features", "--features", "search", "--root", part]
        proc.logged("building mdBook", "mdbook", argv, env=programs.environment() | {"RUSTC_WORKSPACE_WRAPPER": ""})

    return cache.entry(f"foreign/mdbook-{cache.key(pin)}", make) / "bin/mdbook"


def complaints():
    """What rustdoc says is wrong. The pages are in build/doc/code afterwards."""
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
            "--output", str(CODE), "-Dwarnings", "-Arustdoc::private_intra_doc_links"]
