# SPDX-License-Identifier: GPL-2.0
"""Checks of the sources before any of them runs: format, lints, checkpatch, links, places of unsafe code."""

import fnmatch
import re
import subprocess

from . import doc, kernel, layers, litmus, module, mutants, packages, programs, proc, prose, reports, say
from .run import Tally
from .versions import BUILD, PINNED, ROOT

_SKIPPED = {"build", "target", ".git"}
# The places where unsafe code is allowed: for features that the kernel crate lacks, and for calls of C.
_UNSAFE_HOMES = ("rust/kernel/", "drivers/android/entry/ffi.rs", "drivers/android/ffi/")
_UNSAFE_TABLE = "docs/architecture.md"
_CALLED = "docs/patches.md"
# What cites rules of the contract.
_CITING = ("drivers/**/*.rs", "rust/**/*.rs", "tests/**/*.rs", "tests/*.toml", "tools/**/*.rs", "docs/**/*.md")

_FENCE = re.compile(r"^```(\w*)$(.*?)^```$", re.M | re.S)
_MAKE = re.compile(r"^(?:\$ )?make (?=[a-z])([\w-]+)", re.M)
_TARGETS = re.compile(r"^TARGETS := (.*)$", re.M)

# The scripts that packages run on a machine.
_PACKAGING = ("packaging/dkms/*", "packaging/debian/*.p*", "packaging/system/[ls]*")


def run():
    """`make check`: the exit status."""
    tally = Tally()
    for name, (check, *_) in CHECKS.items():
        one(tally, name, check)
    return tally.finish()


def one(tally, name, check):
    """One check, which returns its complaints."""
    packages.ensure("check")
    with say.Step(f"check: {name}"):
        complaints = list(check())
    tally.nothing_wrong(f"check {name}", complaints[:40])


def crates():
    """Folders that hold a cargo package or workspace with a lock file of its own; this tree's first."""
    locks = [ROOT / "Cargo.lock", *ROOT.glob("t*/*/Cargo.lock"), *ROOT.glob("tests/clients/*/Cargo.lock")]
    return [p.parent for p in sorted(locks) if _tracked(p)]


def _tracked(path):
    return not _SKIPPED & set(path.relative_to(ROOT).parts)


def _files(*patterns):
    return sorted({p for g in patterns for p in ROOT.glob(g) if p.is_file() and _tracked(p)})


def _complaints(argv, **options):
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, **options)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).strip().splitlines()


def _rustfmt():
    driver = _files("drivers/android/**/*.rs", "rust/kernel/**/*.rs", "packaging/linux-*/**/*.rs", "tests/layouts/*.rs")
    wrong = _complaints(["/usr/bin/rustfmt", "--check", "--edition", "2021", *driver],
                        env=proc.environment(), cwd=ROOT)
    for crate in crates():
        wrong += _complaints(["/usr/bin/cargo-fmt", "fmt", "--all", "--check"],
                             env=programs.environment(), cwd=crate)
    # rustfmt leaves comments as they are; checkpatch permits 100 columns.
    return wrong + [f"{path.relative_to(ROOT)}:{number}: the comment has more than 100 columns"
                    for path in driver for number, line in enumerate(path.read_text().splitlines(), 1)
                    if len(line) > 100 and line.lstrip().startswith("//")]


def _narrow():
    """The rooms that need no kernel, for one of 32 bits: a constant that does not fit is an error."""
    argv = [programs.CARGO, "check", "-p", "rooms", "--lib", "--locked", "--quiet", "--target", PINNED["rust"]["targets"]["x86_64-32"]["name"],
            *programs.STANDARD_LIBRARY]
    with programs.workshop("narrow") as (tree, target):
        return _complaints([*argv, "--target-dir", target], env=programs.environment() | programs.OWN_LIBRARY,
                           cwd=tree / "tests/host")


def _clippy_driver():
    try:
        module.build_checked(kernel.build("um"))
    except say.LabError as error:
        return str(error).splitlines()
    return []


def without_schedstats():
    """The build of the driver for a kernel without CONFIG_SCHEDSTATS has to end with the reason; returns the problems."""
    built, out = kernel.build("um"), BUILD / "without-schedstats"
    proc.output("rm", "-rf", out)
    out.mkdir(parents=True)
    undefined = out / "undefined.h"
    undefined.write_text("#undef CONFIG_SCHEDSTATS\n")
    argv = module.command(built, out, f"KCFLAGS=-include {undefined}", sources=ROOT / "tests/layouts", target="c_side.o")
    done = subprocess.run([str(word) for word in argv], text=True, capture_output=True, env=built.module_environment())
    said = (done.stdout + done.stderr).splitlines()
    if done.returncode and any("error:" in line and "CONFIG_SCHEDSTATS" in line for line in said):
        return []
    return ["it is compiled, or ends without a word of CONFIG_SCHEDSTATS", *said[-10:]]


def features():
    """(names or patterns, what for) of the functions and variables that the module needs."""
    text = (ROOT / _CALLED).read_text().partition("## Kernel functions")[2].partition("\n## ")[0]
    return [(re.findall(r"`([\w*?]+)`", names), what.strip()) for names, what in re.findall(r"^\|([^|]*)\|([^|]*)\|$", text, re.M)]


def _called():
    """The kernel functions that the driver calls and the document does not explain. The rest is the compiler's, the architecture's or a
    debugging option's."""
    named = [*(name for names, _ in features() for name in names), "_R*", "rust_*", "__asan_*", "lock_[ar]*", "*lockdep_*", "__might_*", "preempt_*", "__list_*", "__kasan_*",
             "__srcu_*", "refcount_*", "should_fail_usercopy", "warn_*", "task_size", "um*"]
    symbols = proc.output("nm", "-u", module.build(kernel.build("um"))).split()[1::2]
    return [f"{_CALLED}: does not explain {symbol}" for symbol in symbols if not any(fnmatch.fnmatchcase(symbol, name) for name in named)]


def _checkpatch():
    script = kernel.build("um").tree / "scripts/checkpatch.pl"
    sources = _files("drivers/android/**/*.[ch]", "rust/**/*.[ch]", "include/**/*.h", "packaging/linux-*/**/*.[ch]", "tests/*/*.[ch]")
    events = _files("drivers/android/trace/events.h")
    wrong = []
    # Definitions of trace events have a form of their own, in which the kernel's files are laid out, too. Those of ours take
    # names of fields, which cannot be put in parentheses, and lists of them, which are gone through twice.
    for files, ignored in (([p for p in sources if p not in events], "NEW_TYPEDEFS"),
                           (events, "OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT,MACRO_ARG_PRECEDENCE,MACRO_ARG_REUSE")):
        wrong += _complaints(["perl", script, "--strict", "--no-tree", "--no-summary", "--terse",
                              "--showfile", "--ignore", ignored, "-f", *files],
                             env=proc.environment(), cwd=ROOT)
    return wrong


def _spdx():
    sources = _files("**/*.rs", "**/*.[ch]", "**/*.py", "**/*.toml", "configs/*", "Makefile",
                     "tools/lab/guest/*", "drivers/android/[KM]*", "drivers/android/exports*", "tests/*/Kbuild",
                     "tests/clients/**/*", "tests/litmus/*", "tests/packages/*", *_PACKAGING)
    return [f"{p.relative_to(ROOT)}: no SPDX line" for p in sources
            if p.name != "Cargo.lock" and "SPDX-License-Identifier: GPL-2.0" not in p.read_text()[:300]]


def _unsafe():
    """Count blocks for each file of the driver; blocks in other places are complaints, and so are other counts in the table."""
    wrong, counts = [], {}
    for path in _files("drivers/android/**/*.rs", "rust/kernel/**/*.rs"):
        code = re.sub(r"//.*", "", path.read_text())
        count = len(re.findall(r"\bunsafe\s*(?:\{|impl\b|fn\b|extern\b)", code))
        name = str(path.relative_to(ROOT))
        if count:
            counts[name] = count
        if count and not name.startswith(_UNSAFE_HOMES):
            wrong.append(f"{name}: {count} unsafe outside rust/kernel/ and the edge to C")
    return wrong + [*untold(counts, (ROOT / _UNSAFE_TABLE).read_text())]


def untold(counts, text):
    """Rows of the document's table of unsafe code with other counts than the files. A row is about a folder, or about a file and the
    folder of the same name."""
    told = set()
    for name, says in re.findall(r"^\| `([^`]+)`[^|]*\| (\d+) \|", text, re.M):
        row = {one for one in counts if one == name or one.startswith(name.removesuffix(".rs").rstrip("/") + "/")}
        told |= row
        count = sum(counts[one] for one in row)
        if count != int(says):
            yield f"{_UNSAFE_TABLE}: {name} has {count} unsafe, not {says}"
    for name in sorted(counts.keys() - told):
        yield f"{_UNSAFE_TABLE}: no row has {name}, which has {counts[name]} unsafe"


def _scripts():
    wrong = []
    for path in _files("tools/**/*.py"):
        try:
            compile(path.read_text(), str(path), "exec")
        except SyntaxError as error:
            wrong.append(f"{path}: {error}")
    for path in _files("tools/lab/guest/*", "tools/install-into-kernel", ".ci/run", "tests/clients/*/run",
                       "tests/clients/*/with-*", "tests/packages/*", *_PACKAGING):
        wrong += _complaints(["sh", "-n", path])
    return wrong


def _links():
    wrong = []
    for path in _files("*.md", "docs/**/*.md"):
        for target, place in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text()):
            named = path.parent / target if target else path
            if not named.exists():
                wrong.append(f"{path.relative_to(ROOT)}: link to {target}, which does not exist")
            elif place and named.suffix == ".md" and place not in headings(named.read_text()):
                wrong.append(f"{path.relative_to(ROOT)}: link to {target}#{place}, which has no such heading")
    return wrong


def headings(text):
    """The anchors of a document's headings: their words in lower case, without punctuation, hyphens between them."""
    found, within = set(), False
    for line in text.splitlines():
        within ^= line.startswith("```")
        heading = re.match(r"#+ (.*)", line)
        if heading and not within:
            words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def commands(root=ROOT):
    """Fences without a language in README and the documents, and commands in them that make does not have."""
    targets = {"help"} | {word for line in _TARGETS.findall((root / "Makefile").read_text()) for word in line.split()}
    wrong = []
    for path in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")]):
        text = path.read_text()
        for fence in _FENCE.finditer(text):
            place = f"{path.relative_to(root)}:{text.count(chr(10), 0, fence.start()) + 1}"
            if not fence[1]:
                wrong.append(f"{place}: a fence names its language: sh, console, text, ...")
            wrong += [f"{place}: there is no make {target}" for target in _MAKE.findall(fence[2])
                      if target not in targets]
    return wrong


def _apart():
    """Files that name a folder which can be removed."""
    named = re.compile(r"(?<![\w-])block" + "/")
    return [f"{path.relative_to(ROOT)} names the folder of block devices: nothing but README.md may, for the rest has to pass without it"
            for path in _files("*", ".ci/*", *(f"{top.name}/**/*" for top in ROOT.iterdir() if top.is_dir() and top.name not in ("block", ".git", "build")))
            if path.suffix != ".gz" and path != ROOT / "README.md" and named.search(path.read_text(errors="ignore"))]


def _names():
    """Files, functions of files and contract tests that the docs and litmus tests name and that are missing: `calls/send.rs:call`
    is a function, `freeze_links::lesson_r09_` the beginning of a test's name."""
    sources = _files("drivers/**/*", "rust/**/*", "tools/**/*", "tests/**/*", "include/**/*", "configs/*")
    groups = {}
    for path in _files("tests/contract/src/tests/**/*.rs"):
        group = path.relative_to(ROOT / "tests/contract/src/tests").parts[0].removesuffix(".rs")
        groups.setdefault(group, []).extend(re.findall(r"\bcase!\(\s*(\w+)", path.read_text()))
    wrong = []
    for path in _files("*.md", "docs/**/*.md", "tests/litmus/*"):
        named = re.findall(r"`([\w./-]+\.(?:rs|[ch]|py|toml)):([A-Za-z_]\w*)`", path.read_text())
        for file, name in named:
            places = [p for p in sources if f"/{p.relative_to(ROOT)}".endswith("/" + file)]
            if not any(re.search(rf"\b(?:fn|struct|enum|trait|const|static|type|macro_rules!) {name}\b|^[\w *]*\b{name}\(", p.read_text(), re.M)
                       for p in places):
                wrong.append(f"{path.relative_to(ROOT)}: {file}:{name} is not there")
        for group, test in re.findall(r"`(\w+)::([a-z]\w*)", path.read_text()):
            if group in groups and not any(name.startswith(test) for name in groups[group]):
                wrong.append(f"{path.relative_to(ROOT)}: there is no test {group}::{test}")
    return wrong


def _contract():
    """Rules that the sources cite and the contract does not have, mistakes in the contract, and entries whose tests are out of date."""
    document = (ROOT / "docs/contract.md").read_text()
    made = BUILD / "contract.md"
    proc.write(made, document)
    wrong = [*uncontracted({str(p.relative_to(ROOT)): p.read_text() for p in _files(*_CITING)}, document)]
    # It reads which tests the host has.
    wrong += _complaints([programs.build("tests/contract"), "rules", "--update", made], cwd=ROOT / "tests/contract")
    return wrong or ([] if made.read_text() == document else [f"docs/contract.md is not up to date: cp {made} docs/contract.md"])


def uncontracted(texts, document):
    """Citations of a rule (TXN-17), or of a lesson (R03) in a line with that word, without an entry in the contract."""
    entries = set(re.findall(r"^- \*\*([\w-]+)\*\*", document, re.M))
    rule = re.compile(rf"\b(?:{'|'.join(sorted({entry.split('-')[0] for entry in entries if '-' in entry}))})-(?:\d+|[A-Z][A-Z_]+)\b")
    for name, text in texts.items():
        for line in text.splitlines():
            lessons = re.findall(r"\b[RCST]\d\d\b", line) if "esson" in line else []
            yield from (f"{name}: cites {cited}, which docs/contract.md does not have" for cited in [*rule.findall(line), *lessons] if cited not in entries)


# The sources of tests/host: those files of the driver that need no kernel.
ROOMS = ("drivers/android/pure/", "drivers/android/range_alloc/", "drivers/android/range_alloc.rs", "rust/kernel/",
         "tests/host/")
_RUST = ("drivers/", "rust/", "tools/", "tests/")
_DOCUMENTS = ("docs/", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
# Each check by its name, with its inputs and about how many seconds it takes.
CHECKS = {
    "rustfmt": (_rustfmt, (*_RUST, "packaging/"), 10),
    "SPDX lines": (_spdx, ("",), 1),
    "unsafe in its home": (_unsafe, ("drivers/", "rust/", _UNSAFE_TABLE), 1),
    "shell and Python syntax": (_scripts, ("tools/", "tests/", "packaging/"), 2),
    "links in the docs": (_links, _DOCUMENTS, 1),
    "names in the docs": (_names, (*_DOCUMENTS, *_RUST), 5),
    "block devices apart": (_apart, ("",), 2),
    "prose": (prose.complaints, ("",), 5),
    "commands in the docs": (commands, (*_DOCUMENTS, "Makefile"), 1),
    "rules and lessons": (_contract, ("docs/contract.md", *_RUST), 1),
    "orderings in the docs": (litmus.complaints, ("drivers/", "rust/", "docs/ordering.md", "tests/litmus/"), 2),
    "who uses whom in the driver": (layers.complaints, ("drivers/", "rust/", "docs/architecture.md"), 2),
    "measured figures in the docs": (reports.complaints, (*_DOCUMENTS, "reports/", "docs/figures/"), 1),
    "faults made by hand": (mutants.misplaced, ("drivers/", "rust/", "tests/mutants.toml", "tests/oracle/"), 1),
    "clippy: driver": (_clippy_driver, ("drivers/", "rust/"), 40),
    "documentation": (doc.complaints, ("drivers/", "rust/"), 20),
    "32 bits": (_narrow, ROOMS, 20),
    "no CONFIG_SCHEDSTATS": (without_schedstats, ("drivers/android/helpers/layouts.c",), 3),
    "functions of the kernel": (_called, ("drivers/", "rust/", _CALLED), 10),
    "checkpatch": (_checkpatch, ("drivers/", "rust/", "include/", "packaging/", "tests/"), 10),
}
