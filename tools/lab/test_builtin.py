# SPDX-License-Identifier: GPL-2.0
"""Kernels of two configurations that are made of one tree with our driver in it."""

from . import cache, install, kernel, source


def test_each_has_the_present_driver(tmp_path, monkeypatch):
    driver, tree, guest = ["one"], tmp_path / "cache/source/builtin/tree", kernel.GUESTS["x86_64-builtin"]
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
