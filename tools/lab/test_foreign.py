# SPDX-License-Identifier: GPL-2.0
"""What programs out of packages need, for whichever processor they are."""

import pathlib

import pytest

from . import foreign, say

LISTED = {
    "program": " 0x0000000000000001 (NEEDED)             Shared library: [libone.so.1]\n 0x000000000000000e (SONAME)  Library soname: [x]\n",
    "libone.so.1": " 0x0000000000000001 (NEEDED)             Shared library: [libtwo.so.2]\n",
    "libtwo.so.2": " 0x0000000000000001 (NEEDED)             Shared library: [libone.so.1]\n",
}


def test_libraries_of_libraries_are_there_once_and_a_missing_one_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign.proc, "output", lambda *words: LISTED[pathlib.Path(words[-1]).name])
    for name in ("program", "libone.so.1"):
        (tmp_path / name).touch()
    folders = [tmp_path / "nowhere", tmp_path]
    with pytest.raises(say.LabError, match="libtwo.so.2 is in none of"):
        foreign.needed([tmp_path / "program"], folders)
    (tmp_path / "libtwo.so.2").touch()
    assert foreign.needed([tmp_path / "program"], folders) == {name: tmp_path / name for name in ("libone.so.1", "libtwo.so.2")}
