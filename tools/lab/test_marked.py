# SPDX-License-Identifier: GPL-2.0
"""Places of documents for what commands write."""

import re

import pytest

from . import marked, say
from .versions import ROOT

TEXT = "a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n<!-- begin: x y -->\n<!-- end: x y -->\n"


def test_what_is_there_is_replaced_and_nothing_else(tmp_path):
    document = tmp_path / "a.md"
    document.write_text(TEXT)
    marked.put(document, "x", r"new \1" + "\n")
    marked.put(document, "x y", "more\n")
    assert document.read_text() == TEXT.replace("old", r"new \1").replace("x y -->\n<", "x y -->\nmore\n<")


@pytest.mark.parametrize("text, name, words", [(TEXT, "y", "no place for `y`"), (TEXT, "x.y", "no place for `x.y`"), (TEXT * 2, "x", "2 places for `x`")])
def test_a_place_that_is_not_there_once_is_told(text, name, words):
    with pytest.raises(say.LabError, match=words):
        marked.replaced(text, name, "new\n")


@pytest.mark.parametrize("document", sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")]), ids=lambda path: path.name)
def test_each_place_has_a_beginning_and_an_end_and_is_there_once(document):
    found = re.findall(r"<!-- (begin|end): (.*) -->", document.read_text())
    names = [name for mark, name in found if mark == "begin"]
    assert found == [(mark, name) for name in dict.fromkeys(names) for mark in ("begin", "end")]
