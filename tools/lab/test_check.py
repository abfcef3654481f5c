# SPDX-License-Identifier: GPL-2.0
"""What the checks of the documents see."""

from . import check

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
