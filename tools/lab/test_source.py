# SPDX-License-Identifier: GPL-2.0
"""What of Debian's kernel tree is other in ours, and kernels of two configurations that are made of one tree with our driver in it."""

import os

import pytest

from . import cache, install, kernel, say, source

KCONFIG = """config ANDROID_BINDER_IPC
	tristate "Android Binder IPC Driver"

config ANDROID_BINDER_IPC_RUST
	bool "Rust version of Android Binder IPC Driver"
	depends on RUST && MMU && NET && !ANDROID_BINDER_IPC
"""


def test_both_drivers_can_be_modules_and_other_trees_stay_what_they_are(tmp_path):
    texts = {name: "".join(old for old, _ in edits) for name, edits in source._EDITS.items()} | {source._KCONFIG: KCONFIG}
    for name, text in texts.items():
        for tree in ("other", "ours"):
            (tmp_path / tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "other" / name).write_text(text)
        os.link(tmp_path / "other" / name, tmp_path / "ours" / name)
    source._prepare(tmp_path / "ours")
    made = (tmp_path / "ours" / source._KCONFIG).read_text()
    assert made.count("\ttristate ") == 2 and "!ANDROID_BINDER_IPC" not in made
    assert {name: (tmp_path / "other" / name).read_text() for name in texts} == texts
    assert source.untouched_kconfig(tmp_path / "ours") == KCONFIG
    with pytest.raises(say.LabError, match="not a Linux 7.3 tree"):
        source._prepare(tmp_path / "ours")


def test_each_kernel_of_a_tree_has_the_present_driver(tmp_path, monkeypatch):
    driver, tree, guest = ["one"], tmp_path / "cache/source/builtin/tree", kernel.GUESTS["um-builtin"]
    tree.mkdir(parents=True)

    def make(made, _fragments, _like):
        image = made.folder / kernel._IMAGES[guest.arch]
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_text((tree / "driver.rs").read_text())

    def built(configuration):
        return kernel._build_builtin(guest, tmp_path, [], [configuration]).image.read_text()

    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path / "cache"))
    for module, name, value in (
        (kernel, "BUILD", tmp_path / "build"), (kernel, "copy_objects", lambda *_: None), (kernel, "_build", make),
        (kernel, "build", lambda name: kernel.Kernel(guest, tmp_path, tmp_path / "like")), (source, "builtin_tree", lambda *_: tree),
        (install, "lay_into", lambda tree: (tree / "driver.rs").write_text(driver[0])), (install, "digest", lambda tree: cache.content(tree / "driver.rs")),
    ):
        monkeypatch.setattr(module, name, value)
    assert built("first") == "one"
    driver[0] = "two"
    assert built("second") == "two"
    assert built("first") == "two"
