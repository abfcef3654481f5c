# SPDX-License-Identifier: GPL-2.0
"""The series of patches: the patch of each file, the tree of each flavour, and refused edits; an installation into a tree can be repeated,
continued after an interruption, and leaves other files alone."""

import contextlib
import re

import pytest

from . import install, layers, patch_suite, patches, say

BASE = {
    "Makefile": "VERSION = 7\nPATCHLEVEL = 3\n",
    "drivers/android/Kconfig": "menu \"Android\"\n\nconfig ANDROID_BINDER_IPC_RUST\n\tbool \"upstream\"\n\thelp\n\t  Words.\n\n\t  More.\n\nendmenu\n",
    "drivers/android/Makefile": "obj-$(CONFIG_ANDROID_BINDER_IPC)\t+= binder.o\nobj-$(CONFIG_ANDROID_BINDER_IPC_RUST)\t+= binder/\n",
    "rust/bindings/bindings_helper.h": "a\n#if IS_ENABLED(CONFIG_ANDROID_BINDER_IPC_RUST)\n#include \"b\"\n#endif\n",
    "Documentation/admin-guide/index.rst": "   bcache\n   binderfs\n",
    "Documentation/admin-guide/kernel-parameters.txt": "\tbgrt_disable\n\n\tblkdevparts=\tWords\n",
    "MAINTAINERS": "ANDROID CONFIG FRAGMENTS\nM:\tA\n\nANDROID DRIVERS\nM:\tB\n",
    "drivers/android/binder/rust_binder_main.rs": "upstream\n",
    "drivers/android/binder.c": '#include "binder_internal.h"\nint binder_init(void)\n{\n\tret = binder_alloc_shrinker_init();\n}\n',
}


@pytest.fixture
def tree(tmp_path):
    patches.put(tmp_path / "tree", BASE)
    return tmp_path / "tree"


@pytest.mark.parametrize("globs, files, refused", [
    ((["a/*"], ["a/one.rs"]), {"a/one.rs": 1, "a/b/two.rs": 0}, None),
    ((["a/*"],), {"a/one.rs": 0, "b/new.rs": 0}, r"b/new\.rs belongs to no patch: packaging/patches/series\.toml"),
    ((["a/*", "b/*"],), {"a/one.rs": 0}, r"no file belongs to b/\*"),
])
def test_a_file_belongs_to_the_patch_whose_glob_fits_best(globs, files, refused):
    rows = [{"files": one} for one in globs]
    with pytest.raises(say.LabError, match=refused) if refused else contextlib.nullcontext():
        assert patches.owners(rows, files) == {name: rows[at] for name, at in files.items()}


def test_messages_are_as_git_wants_them_and_name_patches_that_are_there():
    rows = patches.rows("beside")
    assert len(rows) <= 25 and rows[:-1] == patches.rows("replace")
    for row in rows:
        assert row.keys() <= {"subject", "body", "files", "flavour"}
    assert len(patches.rows("replace", "6.18")) == len(rows)
    for row in patches.rows("replace", "6.18"):
        assert all(len(line) <= 75 for line in patches.message(row).splitlines()), row["subject"]
        assert "Signed-off-by" not in row["body"]
    quoted = re.findall(r'"((?:binder|rust): [^"]+)"', " ".join((patches.FOLDER / "cover-letter.txt").read_text().split()))
    assert quoted and set(quoted) <= {row["subject"] for row in rows}


def test_git_takes_the_patches_and_only_the_last_ones_change_what_is_there(tmp_path):
    first, second = (patches.write(tmp_path / name, "beside", patch_suite.SENDER, BASE) for name in "ab")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    repository = patches.Repository(tmp_path / "tree", patch_suite.SENDER)
    repository.commit(BASE, "Linux\n")
    assert patch_suite.taken(repository, first, tmp_path) == []
    subjects = [row["subject"] for row in patches.rows("beside")]
    assert repository.git("log", "--format=%s", "--reverse").splitlines() == ["Linux", *subjects]
    enabled = next(at for at, subject in enumerate(subjects) if "take the place" in subject)
    added = repository.git("diff", "--name-status", f"HEAD~{len(subjects)}", f"HEAD~{len(subjects) - enabled}").splitlines()
    assert added and all(line.startswith("A\t") for line in added)


def test_the_patches_are_what_the_installer_lays(tree):
    patches.lay(tree, patch_suite.SENDER)
    there = patches.contents(tree)
    assert {name: there[name] for name in install.files()} == {name: (install.ROOT / name).read_text() for name in install.files()}
    assert there.keys() - set(install.files()) == BASE.keys() - {"drivers/android/binder/rust_binder_main.rs"} | {patches.PAGE}
    assert re.search(rf"ANDROID BINDER DRIVER IN RUST\nM:\t{patch_suite.SENDER}\n(?:.+\n)+\nANDROID DRIVERS\n", there["MAINTAINERS"])
    assert "binder_impl" not in "".join(there.values())


def test_both_drivers_in_one_kernel(tree):
    patches.lay(tree, patch_suite.SENDER)
    patches.choose(tree)
    there = patches.contents(tree)
    events = re.findall(r"^(?:EVENT\(\w+, |\w*EVENT\()(\w+)", there["drivers/android/trace/events.h"], re.M)
    assert len(events) > 30 and all(name.startswith("rust_binder_") for name in events if name != "macro")
    assert "\tif (!binder_impl_is_c())\n\t\treturn 0;\n\n\tret = binder_alloc_shrinker_init();\n" in there["drivers/android/binder.c"]
    with pytest.raises(say.LabError, match="rust_binder.rs has no `_devices: Devices,`"):
        patches.choose(tree)


@pytest.mark.parametrize("sender", ["", "Jane", "jane@example.org", "Jane <jane>", "Jane <a@b> <c@d>"])
def test_a_sender_that_is_none(tmp_path, sender):
    with pytest.raises(say.LabError, match="is no sender"):
        patches.write(tmp_path / "series", "replace", sender, BASE)


def test_trees_that_the_series_is_not_for(tmp_path):
    def refused(words, name, text, flavour="replace"):
        patches.put(tmp_path, {name: text})
        with pytest.raises(say.LabError, match=words):
            patches.base(tmp_path, flavour)

    refused("there is no .*/MAINTAINERS", "Makefile", BASE["Makefile"])
    refused("has no drivers/android/binder.c: .* upstream's takes its place.*FLAVOUR=replace, or .* name=", "Makefile", BASE["Makefile"], "beside")
    refused("FLAVOUR=replace", "drivers/android/binder_pick.c", "", "beside")
    refused("already has a drivers/android/node.rs", "drivers/android/node.rs", "")
    refused("is Linux 6.1", "Makefile", "VERSION = 6\nPATCHLEVEL = 1\n")


def test_a_tree_without_the_c_driver_is_replaced_all_the_same(tmp_path):
    tree = {name: text for name, text in BASE.items() if name != "drivers/android/binder.c"}
    patches.put(tmp_path / "tree", tree | {"drivers/android/binder/rust_binder_main.rs": "upstream\n"})
    texts = patches.base(tmp_path / "tree")
    assert "drivers/android/binder.c" not in texts
    assert len(patches.write(tmp_path / "series", "replace", patch_suite.SENDER, texts)) == len(patches.rows("replace"))


def test_a_second_installation_changes_nothing_and_files_that_left_us_leave_the_tree(tree):
    assert install.lay_into(tree)
    assert all((tree / name).exists() for name in install.files())
    assert not (tree / "drivers/android/binder").exists()
    assert install.lay_into(tree) == []
    manifest, gone = tree / install.MANIFEST, tree / "drivers/android/gone.rs"
    gone.write_text("")
    manifest.write_text(manifest.read_text() + "drivers/android/gone.rs\n")
    assert install.lay_into(tree) == ["drivers/android/gone.rs"] and not gone.exists()


def test_what_linux_6_18_lacks_applies_to_the_driver(tmp_path):
    """The tree is made of the texts that are replaced: whether a real one has them, `make torture ONLY=linux_6_18` finds out."""
    before = BASE | {"Makefile": "VERSION = 6\nPATCHLEVEL = 18\n"}
    patches.put(tmp_path, before)
    replaced = install.backport_edits(tmp_path)
    theirs = {name: pairs for name, pairs in replaced.items() if name not in install.files()}
    patches.put(tmp_path, {name: before.get(name, "") + "".join(f"{old}\n" for old, _ in pairs) for name, pairs in theirs.items()})
    assert len(patches.write(tmp_path / "series", "replace", patch_suite.SENDER, patches.contents(tmp_path))) == len(patches.rows("replace", "6.18"))
    assert install.lay_into(tmp_path) and install.lay_into(tmp_path) == []
    assert all(new in (tmp_path / name).read_text() for name, pairs in replaced.items() for _, new in pairs)
    rust = [name for name in install.files() if name.endswith(".rs")]
    # Such a literal is no `CStr` of the kernel there.
    literals = {root: [name for name in rust if "c" in re.findall(r'(\w*)"(?:[^"\\]|\\.)*"', layers.COMMENT.sub("", (root / name).read_text()))]
                for root in (install.ROOT, tmp_path)}
    assert literals[install.ROOT] and not literals[tmp_path]
    with pytest.raises(say.LabError, match="use a clean tree, or change the edit"):
        install._edited("a.rs", "", [("old", "new")])


def test_an_interrupted_installation_is_continued(tree, monkeypatch):
    write, left = install._write, [True] * 5
    monkeypatch.setattr(install, "_write", lambda path, text: left.pop() and write(path, text))
    with pytest.raises(IndexError):
        install.lay_into(tree)
    monkeypatch.undo()
    assert install.lay_into(tree) and install.lay_into(tree) == []


def test_a_file_that_is_not_ours_stays(tree):
    theirs = tree / install.files()[0]
    theirs.write_text("theirs")
    with pytest.raises(say.LabError, match="not ours: use a clean tree"):
        install.lay_into(tree)
    assert theirs.read_text() == "theirs"


def test_bindings_in_unknown_lines():
    include = '#include "../../drivers/android/binder/rust_binder.h"\n'
    assert install.bindings(f"a\n#if IS_ENABLED(CONFIG_ANDROID_BINDER_IPC_RUST)\n{include}#endif\n") == "a\n"
    with pytest.raises(say.LabError, match="not known here"):
        install.bindings(f"#ifdef CONFIG_ANDROID_BINDER_IPC_RUST\n{include}#endif\n")
