# SPDX-License-Identifier: GPL-2.0
"""Check the series of patches as docs/patches.md describes it."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from . import aosp, cache, contract, install, kernel, packages, patches, proc, say, source
from .versions import BUILD

SENDER = "Jane Doe <jane@example.org>"
GUEST = "um"
_BESIDE = ("CONFIG_ANDROID_BINDER_IPC=y", "CONFIG_ANDROID_BINDERFS=y", "CONFIG_ANDROID_BINDER_IMPL=y", "# CONFIG_ANDROID_BINDER_IMPL_RUST is not set")
# Guests with FLAVOUR=replace: more settings, words for the kernel, and what of the contract suite takes no hour. Arch makes no device by default, and
# Cuttlefish has Android's configuration.
_REPLACED = (
    ("x86_64", ('CONFIG_ANDROID_BINDER_DEVICES=""',), (), ("devices_are_a_parameter",)),
    ("x86_64", ('CONFIG_ANDROID_BINDER_DEVICES=""',), ("binder_rust.devices=binder,hwbinder,vndbinder",), ()),
    ("arm64-android", (), (), ("sync::", "binderfs::", "ioctl::", "mmap::", "fds::", "reclaim::")),
)
# Guests of Linux 6.18 likewise.
_ON_6_18 = (
    ("um", (), ()),
    ("um", contract.LSM, contract.SECURED),
    ("um", ("binder_rust.charge_buffers=1", "binder_rust.handoff=0"), ("charging::", "placement::")),
    ("x86_64-android", (), ()),
)
_CHECKPATCH = ("--strict", "--terse", "--no-summary", "--no-signoff")
# For each patch with a new file checkpatch expects a change of MAINTAINERS, which is a patch of its own. Lines: rustfmt formats Rust, `make check` tries C,
# test_patches.py comments, in which checkpatch counts the bytes of a drawing. Trace events: tools/lab/check.py. "acknowledgement", as it
# is written in Britain. `source` of Kconfig names the file that it stands in. The parameter is looked for in a tree without the patch.
_IGNORED = ("FILE_PATH_CHANGES", "NEW_TYPEDEFS", "LONG_LINE", "LONG_LINE_COMMENT", "LONG_LINE_STRING", "OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT",
            "MACRO_ARG_PRECEDENCE", "MACRO_ARG_REUSE", "TYPO_SPELLING", "EMBEDDED_FILENAME", "UNDOCUMENTED_SETUP")
# Of rustc, of modpost, and of clang about a file of ours.
_WARNING = re.compile(r"warning\b|WARNING: modpost|.*drivers/android/.*: warning: ")


def quick_suite(tally):
    """Both flavours as a stage of `make test`: one is the other and a patch more."""
    packages.ensure("base", "patches")
    with say.Step("the series of patches"):
        for name, wrong in quick(patches.base()).items():
            tally.nothing_wrong(f"patches {name}", wrong)


def quick(texts):
    """{flavour: complaints}: `git am` takes each patch, the tree is then the expected one, and the kernel's scripts print nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = patches.write(folder / "series", "beside", SENDER, texts)
        repository = patches.Repository(folder / "tree", SENDER)
        repository.commit(texts, "Linux\n")
        laid = folder / "laid"
        shutil.copytree(folder / "tree", laid, ignore=shutil.ignore_patterns(".git"))
        wrong = {}
        for flavour, part, change in (("replace", files[:-1], lambda: patches.lay(laid, SENDER)), ("beside", files[-1:], lambda: patches.choose(laid))):
            change()
            wrong[flavour] = taken(repository, part, folder)
            wrong[flavour] += [f"{file} is other than laid into a tree" for file in patches.changes(patches.contents(laid), repository.folder)]
            wrong[flavour] += _page(repository.folder / patches.PAGE)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                wrong[flavour] += [line for found in pool.map(lambda file: _scripts(file, repository.folder / "MAINTAINERS"), part) for line in found]
    return wrong


def taken(repository, files, folder):
    """The output of `git am` for patches, their white space included."""
    done = subprocess.run(["git", "-C", str(repository.folder), "am", "--quiet", "--whitespace=error-all", *map(str, files)], text=True,
                          capture_output=True, env=repository.environment)
    return [f"git am: {line.replace(f'{folder}/', '')}" for line in (done.stdout + done.stderr).splitlines()]


def _scripts(file, maintainers):
    """The complaints of checkpatch and get_maintainer about a patch, kept by the patch's contents."""
    tree = source.tree()
    check = ["perl", "scripts/checkpatch.pl", *_CHECKPATCH, "--ignore", ",".join(_IGNORED), file]
    ask = ["perl", "scripts/get_maintainer.pl", "--nogit", "--nogit-fallback", f"--mpath={maintainers}", file]
    # Without number and date, which are others at each commit of ours.
    text = re.sub(r"^Date: .*\n|(?<=^Subject: )\[PATCH \d+/\d+\]", "", file.read_text(), flags=re.M)

    def make(part):
        checked, asked = (subprocess.run([str(word) for word in argv], cwd=tree, text=True, capture_output=True, env=proc.environment())
                          for argv in (check, ask))
        found = (checked.stdout + checked.stderr).replace(str(file), "patch").splitlines() if checked.returncode else []
        if asked.returncode or asked.stderr.strip() or "@" not in asked.stdout:
            found.append(f"get_maintainer.pl: {asked.stderr.strip() or 'found no maintainer'}")
        part.write_text("".join(f"{line}\n" for line in found))

    key = cache.key(text, maintainers.read_text(), check[:-1], tree.name)
    return [f"{file.name}: {line}" for line in cache.entry(f"checkpatch/{key}", make).read_text().splitlines()]


def _page(path):
    """The complaints of docutils about the page for Documentation/."""
    done = subprocess.run(["rst2xml", "--report=1", "--halt=5", str(path), "/dev/null"], text=True, capture_output=True)
    return [f"{path.name}: {line}" for line in done.stderr.splitlines() if line.strip()]


def built(tally):
    """Apply the series to a tree like mainline's, and build User Mode Linux after each patch that changes what is compiled. Run tests on the kernels of
    FLAVOUR=replace, then the contract suite on both drivers of the kernel of FLAVOUR=beside."""
    base, like = source.variant("mainline"), kernel.build(GUEST)
    texts = patches.base()
    files = patches.write(BUILD / "patches/built", "beside", SENDER, texts)
    with _repository(base, texts) as repository:
        for file in files[:-1]:
            repository.git("am", "--quiet", file)
            if (repository.folder / install.KCONFIG_FILE).exists():
                _build(tally, file, repository.folder, like)
        for name, more, boot, only in _REPLACED:
            patched = kernel.of_tree(name, repository.folder, more)
            contract.suite(tally, patched, "rust", f"contract {name}-tree rust, replace", only=only, boot=boot)
        tally.one(f"aosp {GUEST}-tree rust, replace", not aosp.run(kernel.of_tree(GUEST, repository.folder, like=like), "rust"))
        repository.git("am", "--quiet", files[-1])
        patched = _build(tally, files[-1], repository.folder, like, *_BESIDE)
        for driver, boot in (("rust", ("binder.impl=rust",)), ("c", ())):
            contract.suite(tally, patched, driver, f"contract {GUEST}-tree {driver}, beside", boot=boot)


def linux_6_18(tally):
    """Apply the series for Linux 6.18 to its tree, and run the contract suite on kernels made of it, the driver built in."""
    base = source.linux_6_18()
    texts = patches.base(base)
    files = patches.write(BUILD / "patches/6.18", "replace", SENDER, texts)
    with _repository(base, texts) as repository:
        wrong = [*taken(repository, files, BUILD), *(line for file in files for line in _scripts(file, repository.folder / "MAINTAINERS"))]
        tally.nothing_wrong("patches for Linux 6.18", wrong)
        for name, boot, only in _ON_6_18:
            contract.suite(tally, kernel.of_tree(name, repository.folder), "rust", " ".join(["contract linux-6.18", name, "rust", *boot]), only=only, boot=boot)


@contextlib.contextmanager
def _repository(base, texts):
    """A copy of a tree in hard links, as a repository of these files."""
    tree = cache.root() / "source/patched" / base.name
    with cache.lock(f"source/patched/{base.name}"):
        shutil.rmtree(tree, ignore_errors=True)
        tree.parent.mkdir(parents=True, exist_ok=True)
        proc.output("cp", "-al", base, tree)
        repository = patches.Repository(tree, SENDER)
        repository.commit(texts, "Linux\n")
        yield repository


def _build(tally, file, tree, like, *more):
    """Build a kernel with our driver in it, which may have no warning about our files."""
    patched = kernel.of_tree(GUEST, tree, more, like)
    log = (BUILD / f"log/kernel-{patched.guest.name}.log").read_text()
    tally.nothing_wrong(f"a kernel after {file.name}", [line for line in log.splitlines() if _WARNING.match(line)])
    return patched
