# SPDX-License-Identifier: GPL-2.0
"""Whether a document's command that make does not have is found."""

from . import commands

GOOD = "# Title\n```sh\nmake boot   # a shell\nmake -C linux\n```\n- an item\n\n```text\nnothing to make\n```\n"


def test_fences_without_a_language_and_commands_that_are_gone(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "Makefile").write_text("TARGETS := boot\n")
    (tmp_path / "README.md").write_text(GOOD)
    assert commands.complaints(tmp_path) == []
    (tmp_path / "docs/a.md").write_text("One\n```\nls\n```\n```sh\n$ make gone ONLY=x\n```\n")
    assert commands.complaints(tmp_path) == ["docs/a.md:2: a fence names its language: sh, console, text, ...", "docs/a.md:5: there is no make gone"]
