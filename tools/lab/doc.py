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
    """The documents as pages with a search, in the order of docs/SUMMARY.md, and the measured tables behind them."""
    folder = BUILD / "book"
    source = folder / "src"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source / "docs")
    for path in ROOT.glob("*.md"):
        shutil.copy2(path, source)
    (source / "reports").mkdir()
    pages = _pages()
    for name, (title, text) in pages.items():
        (source / f"{name}.md").write_text(f"# {title}\n\n{text}\n")
    # mdBook reads the list of pages at the top, from where the documents are a folder down.
    contents = (source / "docs/SUMMARY.md").rename(source / "SUMMARY.md")
    listed = re.sub(r"\]\((?!\.\./)", "](docs/", contents.read_text()).replace("](../", "](")
    contents.write_text(listed + "\n# Made by programs\n" + "".join(f"- [{title}]({name}.md)\n" for name, (title, _) in pages.items()))
    for path in source.rglob("*.md"):
        path.write_text(_linked(path))
    (folder / "book.toml").write_text('[book]\ntitle = "Rust Binder"\n[output.html]\nno-section-label = true\n')
    proc.logged("building the book", "book", [_mdbook(), "build", folder, "--dest-dir", OUT], env=proc.environment())


def _pages():
    """{name: (title, text)} of pages that are no documents."""
    report = "[The page of the last `make bench`](report/index.html)" if _REPORT.is_dir() else "`make bench` makes the page, and `make doc` adds it here."
    made = {"report": ("Report", report), "code": ("Code", "[Documentation of `drivers/android/` and `rust/kernel/`](code/rust_binder/index.html)")}
    for table in reports.tables():
        rows = (f"| {' | '.join(row)} |" for row in (table.headers, ["---"] * len(table.headers), *table.rows))
        made[f"reports/{table.name}"] = table.title.capitalize(), "\n".join([f"{table.about}.", "", *rows])
    return made


def _linked(path):
    """The text of a page. Links to measured tables lead to their pages; of a link to a source file, the text stays."""
    def kept(link):
        return link[0] if link[2].startswith(("code/", "report/")) or (path.parent / link[2]).exists() else link[1]

    text = re.sub(r"(reports/[\w.-]+)\.tsv\)", r"\1.md)", path.read_text())
    return re.sub(r"\[([^]]*)\]\(([^)#:]+)(?:#[^)]*)?\)", kept, text)


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
