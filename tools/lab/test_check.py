# SPDX-License-Identifier: GPL-2.0
"""The checks of the documents, and the parts of documents that commands write."""

import re

import pytest

from . import check, reports
from .versions import ROOT
from report import page

TABLE = "| file | | why |\n|---|---|---|\n| `a/ffi/` | 3 | C |\n| `b/queue.rs`, `queue/` | 5 | places |\n"


def test_a_link_has_the_words_of_headings_and_no_punctuation():
    text = "# On Debian's own kernel\n## Exact: `make bench` (30 s)\n### With [a link](x.md#y)\n"
    assert check.headings(text) == {"on-debians-own-kernel", "exact-make-bench-30-s", "with-a-link"}


def test_what_a_block_shows_is_no_heading():
    assert check.headings("```sh\n# a remark\n```\n# real\n") == {"real"}


def test_a_row_is_about_a_folder_or_a_file_and_its_folder():
    assert [*check.untold({"a/ffi/one.rs": 1, "a/ffi/two.rs": 2, "b/queue.rs": 4, "b/queue/small.rs": 1}, TABLE)] == []


def test_what_is_counted_otherwise_or_has_no_row_is_told():
    first, second = check.untold({"a/ffi/one.rs": 3, "b/queue.rs": 4, "b/queues.rs": 1}, TABLE)
    assert "b/queue.rs has 4 unsafe, not 5" in first and "no row has b/queues.rs, which has 1 unsafe" in second


def test_rules_and_lessons_that_are_cited_and_have_no_text():
    document = "- **TXN-1** A rule.\n- **IOCTL-FREEZE** A rule.\n- **R01** A lesson (a fault).\n"
    texts = {"a.rs": "// TXN-1, IOCTL-FREEZE, lesson R01\n// register R02, ABC-7\n", "b.rs": "// TXN-12\n// IOCTL-THAW\n// lessons R01 and R02\n"}
    assert [line.split(",")[0] for line in check.uncontracted(texts, document)] == ["b.rs: cites TXN-12", "b.rs: cites IOCTL-THAW", "b.rs: cites R02"]


GOOD = "# Title\n```sh\nmake boot   # a shell\nmake -C linux\n```\n- an item\n\n```text\nnothing to make\n```\n"


def test_fences_without_a_language_and_commands_that_are_gone(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "Makefile").write_text("TARGETS := boot\n")
    (tmp_path / "README.md").write_text(GOOD)
    assert check.commands(tmp_path) == []
    (tmp_path / "docs/a.md").write_text("One\n```\nls\n```\n```sh\n$ make gone ONLY=x\n```\n")
    assert check.commands(tmp_path) == ["docs/a.md:2: a fence names its language: sh, console, text, ...", "docs/a.md:5: there is no make gone"]


PLACES = "a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n<!-- begin: x y -->\n<!-- end: x y -->\n"


def test_a_block_is_replaced_and_nothing_else():
    made = reports.replaced(reports.replaced(PLACES, "x", r"new \1" + "\n"), "x y", "more\n")
    assert reports.replaced(PLACES, "y", "new") == PLACES
    assert made == PLACES.replace("old", r"new \1").replace("x y -->\n<", "x y -->\nmore\n<")


@pytest.mark.parametrize("document", sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")]), ids=lambda path: path.name)
def test_each_place_has_a_beginning_and_an_end_and_is_there_once(document):
    found = re.findall(r"<!-- (begin|end): (.*) -->", document.read_text())
    names = [name for mark, name in found if mark == "begin"]
    assert found == [(mark, name) for name in dict.fromkeys(names) for mark in ("begin", "end")]


def test_a_table_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "FOLDER", tmp_path)
    monkeypatch.setattr(reports, "shown", dict)
    reports.put("x", "A title", "2026-01-01, driver a", page.Table(("name", "n"), [["a: b", "1 000"], ["c", ""]]))
    assert reports.tables() == [("A title", ["name", "n"], [["a: b", "1 000"], ["c", ""]], "2026-01-01, driver a", "x")]
