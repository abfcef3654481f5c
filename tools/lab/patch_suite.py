# SPDX-License-Identifier: GPL-2.0
"""Whether the series of patches does what docs/patches.md says.

`quick`: `git am` takes it, the tree is then what tools/lab/install.py makes, checkpatch and get_maintainer have nothing to say.
`built`: a kernel is built after each patch, and the contract suite run on the last one.
"""

import concurrent.futures
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from . import cache, guest, install, kernel, packages, patch_beside, patch_list, patch_stages, patches, proc, programs, say, source, toolchain, wrap
from .versions import BUILD

SENDER = "Jane Doe <jane@example.org>"
GUEST = "um"
# The kernel that is built: this one with our driver in it, of whose objects it is made.
_BUILT = dataclasses.replace(kernel.GUESTS[GUEST], name="um-patches", builtin=GUEST, builtin_c=True)
# The drivers that the contract suite is run on, and the words by which the kernel chooses them: C by default, in our configuration.
_DRIVERS = {"replace": {"rust": ()}, "beside": {"rust": ("binder.impl=rust",), "c": ()}}
_CHECKPATCH = ("--strict", "--terse", "--no-summary", "--no-signoff")
# Each patch with a new file asks for MAINTAINERS, which have ours in a patch of their own. What user space is told stays in one piece.
_IGNORED = ("FILE_PATH_CHANGES", "NEW_TYPEDEFS", "LONG_LINE_STRING")
# Of single patches: as in tools/lab/check.py; "acknowledgement", as it is written in Britain; `source` of Kconfig, which names the file
# that it stands in; the parameter, which checkpatch looks for in a tree that the patch, which documents it, is not applied to.
_ALSO_IGNORED = {
    "trace": ("OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT", "MACRO_ARG_PRECEDENCE", "MACRO_ARG_REUSE"),
    "transactions": ("TYPO_SPELLING",), "calls": ("TYPO_SPELLING",),
    "parts": ("EMBEDDED_FILENAME",), "enable": ("EMBEDDED_FILENAME",),
    "choice": ("UNDOCUMENTED_SETUP",),
}
# How the name of a patch's file is remembered.
_HERE = "(patch)"
# Of rustc, of modpost, and of clang about a file of ours.
_WARNING = re.compile(r"warning\b|WARNING: modpost|.*drivers/android/.*: warning: ")
_COUNTS = re.compile(r"(\d+) passed, (\d+) failed")


def quick_suite(tally, flavour):
    """The quick test as a stage of `make test`."""
    with say.Step(f"the series of patches, {flavour}"):
        wrong = quick(flavour)
    tally.nothing_wrong(f"patches {flavour}", wrong)


def quick(flavour):
    """Complaints about the series of a flavour: none, if all is well."""
    packages.ensure("base", "patches")
    texts = patches.base()
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        made = patches.write(pathlib.Path(name) / "series", flavour, SENDER, texts)
        tree = pathlib.Path(name) / "tree"
        repository = patches.Repository(tree.mkdir() or tree, SENDER)
        repository.commit(texts, "Linux")
        taken = subprocess.run(["git", "-C", str(tree), "am", "--quiet", *map(str, made.files)], text=True, capture_output=True,
                               env=repository.environment)
        if taken.returncode:
            return [f"git am: {line}" for line in (taken.stdout + taken.stderr).splitlines()]
        wrong += differences(flavour, texts, tree)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            for found in pool.map(lambda pair: _scripts(*pair, tree / "MAINTAINERS"), zip(made.stages.patches, made.files)):
                wrong += found
        wrong += _page(tree / patch_stages.PAGE)
    return wrong


def differences(flavour, texts, tree):
    """Where a tree with the series differs from one that the driver was laid into, but for what only the series has. Of
    both, the files count that the series knows."""
    with tempfile.TemporaryDirectory() as name:
        laid = pathlib.Path(name)
        for file, text in texts.items():
            (laid / file).parent.mkdir(parents=True, exist_ok=True)
            (laid / file).write_text(text)
        (laid / "Makefile").write_text((source.tree() / "Makefile").read_text())
        install.lay_into(laid)
        if flavour == "beside":
            _beside(laid)
        ours, theirs = _contents(laid), _contents(tree)
    return [f"{file}: {'is not in' if file not in theirs else 'is other than in' if file in ours else 'is only in'} a tree with the patches"
            for file in sorted((ours.keys() | theirs.keys()) - patch_stages.ALONE) if ours.get(file) != theirs.get(file)]


def _beside(laid):
    """Change a tree that the driver was laid into as docs/patches.md says of this flavour."""
    edits = {"drivers/android/Kconfig": patch_beside.kconfig, "drivers/android/Makefile": patch_beside.makefile,
             patch_beside.C_DRIVER: patch_beside.c_driver, patch_beside.PARAMETERS: patch_beside.documented}
    for name, text in patch_beside.added().items():
        (laid / name).write_text(text)
    for name in [*edits, *install.files()]:
        edit = edits.get(name, functools.partial(patch_beside.ours, name))
        (laid / name).write_text(edit((laid / name).read_text()))


def _contents(tree):
    known = (tree / ".git").exists()
    names = patches.Repository(tree, SENDER).git("ls-files").splitlines() if known else [
        str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()]
    return {name: (tree / name).read_bytes() for name in names if name not in ("Makefile", install.MANIFEST)}


def built(flavour, tally, since=None):
    """Apply the series to a whole tree, patch by patch, build a kernel after each, and run the contract suite on the last.
    `since`: the patches before that one are applied, and not built."""
    made = patches.write(BUILD / "patches" / f"{flavour}-built", flavour, SENDER, patches.base())
    like, base = kernel.build(GUEST), source.tree()
    where = f"{_BUILT.name}-{flavour}-{cache.key(base.name, like.folder.name)}"
    with cache.lock(f"kernel/{where}"):
        tree, folder = cache.root() / "source/patched" / where, cache.root() / "kernel" / where
        _clean_tree(tree, base, made.stages.base)
        folder.mkdir(parents=True, exist_ok=True)
        kernel.copy_objects(like.folder, folder)
        patched = kernel.Kernel(_BUILT, tree, folder)
        names = [patch.name for patch in made.stages.patches]
        if since and since not in names:
            raise say.LabError(f"no patch {since}: there are {', '.join(names)}")
        first = names.index(since) if since else 0
        title = f"patches {flavour}, a kernel after each" + (f" since {since}" if since else "")
        complaint = _build_each(patched, like, made, first)
        tally.nothing_wrong(title, [complaint] if complaint else differences(flavour, made.stages.base, tree))
        if not complaint:
            for driver, word in _DRIVERS[flavour].items():
                _contract(tally, f"contract of the patched kernel, {flavour}, {driver}", patched, driver, word)


def _clean_tree(tree, base, texts):
    """A whole tree that no file of ours is in: hard links, but for what the series changes, of which it has copies that git knows."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.parent.mkdir(parents=True, exist_ok=True)
    proc.output("cp", "-al", base, tree)
    patches.Repository(tree, SENDER).commit(texts, "Linux")


def _build_each(patched, like, made, first):
    """Build a kernel after each patch; gives what went wrong first."""
    repository, configured = patches.Repository(patched.tree, SENDER), None
    for number, (patch, file) in enumerate(zip(made.stages.patches, made.files), 1):
        title = f"patch {number} of {len(made.files)}, {patch.name}"
        try:
            repository.git("am", "--quiet", file)
            if number <= first:
                continue
            fragments = _fragments(patched.tree)
            if fragments != configured:
                kernel.configure(patched, fragments, like)
                configured = fragments
            target = [] if number == len(made.files) else ["vmlinux"]
            log = proc.logged(f"building {title}", "kernel-patched", patched.make(*target, like=like), env=toolchain.kernel_environment())
        except say.LabError as error:
            return f"{title}: {error}"
        if warnings := [line for line in log.read_text().splitlines() if _WARNING.match(line)]:
            return f"{title}: {warnings[0]}"
    return ""


def _fragments(tree):
    """The configuration of the kernel with what the tree has of our driver built in."""
    lines = [line for name in _BUILT.fragments for line in kernel.fragment(name) if f"CONFIG_{patch_stages.WHOLE}=" not in line]
    symbol = patch_stages.PARTS if (tree / patch_stages.PARTS_KCONFIG).exists() else patch_stages.WHOLE
    # As soon as both can be.
    if symbol == patch_stages.WHOLE and (tree / patch_beside.ADDED[0]).exists():
        lines = [line for line in lines if "CONFIG_ANDROID_BINDER_IPC=" not in line]
        lines += ["CONFIG_ANDROID_BINDER_IPC=y", "CONFIG_ANDROID_BINDER_IMPL=y", "# CONFIG_ANDROID_BINDER_IMPL_RUST is not set"]
    return [*lines, f"CONFIG_{symbol}=y"]


def _contract(tally, title, patched, driver, word):
    """The contract suite on a kernel that has the driver built in, which the command line has a word for if there are two."""
    argv = ["/lab/contract", "run", "--driver", driver, "--guest", GUEST, "--patience", "15", "--timeout", "90"]
    job = guest.Job(argv=argv, driver=driver, files={"/lab/contract": programs.build_for(GUEST, "tests/contract")}, timeout=2400, boot=word)
    with say.Step(title) as step:
        result = guest.run(patched, job, step.hear)
    (BUILD / "log" / f"contract-patched-{driver}.log").write_text(result.output)
    found = _COUNTS.search(result.output)
    passed, failed = map(int, found.groups()) if found else (0, 1)
    for line in [line for line in result.output.splitlines() if " FAILED " in line] + result.problems:
        say.lines(f"    {line}")
    tally.add(title, passed, failed or int(not result.good))


def _scripts(patch, file, maintainers):
    """What checkpatch and get_maintainer have to say about a patch; remembered by the patch's contents."""
    tree = source.tree()
    ignored = ",".join((*_IGNORED, *_ALSO_IGNORED.get(patch.name, ())))
    check = ["perl", "scripts/checkpatch.pl", *_CHECKPATCH, "--ignore", ignored, file]
    ask = ["perl", "scripts/get_maintainer.pl", "--nogit", "--nogit-fallback", f"--mpath={maintainers}", file]
    # Without number and date, which are others at each commit of ours.
    text = re.sub(r"^Date: .*\n|(?<=^Subject: )\[PATCH \d+/\d+\]", "", file.read_text(), flags=re.M)
    key = cache.key(text, maintainers.read_text(), check[:-1], tree.name)

    def run(part):
        done = subprocess.run([str(word) for word in check], cwd=tree, text=True, capture_output=True, env=proc.environment())
        found = [line.replace(str(file), _HERE) for line in (done.stdout + done.stderr).splitlines()] if done.returncode else []
        asked = subprocess.run([str(word) for word in ask], cwd=tree, text=True, capture_output=True, env=proc.environment())
        if asked.returncode or asked.stderr.strip() or "@" not in asked.stdout:
            found.append(f"{_HERE}: get_maintainer.pl: {asked.stderr.strip() or 'knows nobody'}")
        part.write_text("".join(f"{line}\n" for line in found))

    return told(cache.entry(f"checkpatch/{key}", run).read_text(), patch, file)


def told(output, patch, file):
    """What the scripts have said, without lengths of lines that are none: it counts bytes, so a drawing seems wide, and code in Rust and
    what it prints have the length that rustfmt gives them."""
    text, found = file.read_text().splitlines(), []
    for line in output.splitlines():
        place = re.match(rf"{re.escape(_HERE)}:(\d+): WARNING: line length of ", line)
        added = text[int(place[1]) - 1][1:].expandtabs(8) if place else ""
        is_comment = re.match(r"\s*//", added)
        if not place or (len(added) > wrap.WIDTH and (is_comment or not _is_rust(text, int(place[1])))):
            found.append(line.replace(_HERE, patch.name))
    return found


def _is_rust(text, number):
    """Whether a line of a patch is of a file of Rust."""
    head = next(line for line in reversed(text[:number]) if line.startswith("+++ "))
    return head.endswith(".rs")


def _page(path):
    """What docutils has to say about the page for Documentation/."""
    done = subprocess.run(["rst2xml", "--report=1", "--halt=5", str(path), "/dev/null"], text=True, capture_output=True)
    return [f"{path.name}: {line}" for line in done.stderr.splitlines() if line.strip()]
