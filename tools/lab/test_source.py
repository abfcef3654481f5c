# SPDX-License-Identifier: GPL-2.0
"""What of Debian's kernel tree is other in ours."""

import os

import pytest

from . import say, source

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
