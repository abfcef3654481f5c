# SPDX-License-Identifier: GPL-2.0
"""The site: the documents as an mdBook, and the driver's and `rust/kernel/`'s documentation, private items included, as rustdoc makes it."""

import re
import shlex
import shutil
import subprocess

from . import cache, kernel, module, packages, proc, programs, reports, say, toolchain
from .versions import BUILD, PINNED, ROOT

OUT = BUILD / "doc"
CODE = OUT / "code"
_REPORT = BUILD / "report"
# Options of the compiler for its output, which rustdoc does not take; some are followed by a value.
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
    made = {"report": ("Report", "[The page of the last `make bench`](report/index.html)" if _REPORT.is_dir() else "`make bench` makes the page, and `make doc` adds it here."),
            "code": ("Code", "[Documentation of `drivers/android/` and `rust/kernel/`](code/rust_binder/index.html)")}
    for report in reports.tables():
        rows = (f"| {' | '.join(row)} |\n" for row in (report.headers, ["---"] * len(report.headers), *report.rows))
        made[f"reports/{report.name}"] = report.title.capitalize(), f"{report.about}.\n\n{''.join(rows)}"
    (source / "src/reports").mkdir()
    for name, (title, text) in made.items():
        (source / f"src/{name}.md").write_text(f"# {title}\n\n{text}\n")
    (source / "src/SUMMARY.md").write_text(contents + "\n# Made by programs\n" + "".join(f"- [{title}]({name}.md)\n" for name, (title, _) in made.items()))
    for path in source.rglob("*.md"):
        # A link to a source file leads nowhere in the book: its text stays.
        there = lambda link: link[2].startswith(("code/", "report/")) or (path.parent / link[2]).exists()
        text = re.sub(r"(reports/[\w.-]+)\.tsv\)", r"\1.md)", path.read_text())
        path.write_text(re.sub(r"\[([^]]*)\]\(([^)#:]+)(?:#[^)]*)?\)", lambda link: link[0] if there(link) else link[1], text))
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
    """The errors and warnings of rustdoc. The pages are in build/doc/code afterwards."""
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
            "--output", str(CODE), "-Dwarnings", "-Arustdoc::private_intra_doc_links"]
