# SPDX-License-Identifier: GPL-2.0
"""Whether an installation into a kernel tree can be done again, continued after an interruption, and leaves other files alone."""

import pytest

from . import install, say
from .test_patches import tree  # noqa: F401


def test_a_second_installation_changes_nothing_and_files_that_left_us_leave_the_tree(tree):
    assert install.lay_into(tree)
    assert all((tree / name).exists() for name in install.files())
    assert not (tree / "drivers/android/binder").exists()
    assert install.lay_into(tree) == []
    manifest, gone = tree / install.MANIFEST, tree / "drivers/android/gone.rs"
    gone.write_text("")
    manifest.write_text(manifest.read_text() + "drivers/android/gone.rs\n")
    assert install.lay_into(tree) == ["drivers/android/gone.rs"] and not gone.exists()


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
