# SPDX-License-Identifier: GPL-2.0
"""What the checks of the documents see.

    PYTHONPATH=tools python3 -m unittest lab.test_check
"""

import unittest

from . import check


class Headings(unittest.TestCase):
    def test_a_link_has_their_words_and_no_punctuation(self):
        text = "# On Debian's own kernel\n## Exact: `make bench` (30 s)\n### With [a link](x.md#y)\n"
        self.assertEqual(check.headings(text), {"on-debians-own-kernel", "exact-make-bench-30-s", "with-a-link"})

    def test_what_a_block_shows_is_no_heading(self):
        self.assertEqual(check.headings("```sh\n# a remark\n```\n# real\n"), {"real"})


class Unsafe(unittest.TestCase):
    TABLE = "| file | | why |\n|---|---|---|\n| `a/ffi/` | 3 | C |\n| `b/queue.rs`, `queue/` | 5 | places |\n"

    def test_a_row_is_about_a_folder_or_a_file_and_its_folder(self):
        counts = {"a/ffi/one.rs": 1, "a/ffi/two.rs": 2, "b/queue.rs": 4, "b/queue/small.rs": 1}
        self.assertEqual([*check.untold(counts, self.TABLE)], [])

    def test_what_is_counted_otherwise_or_has_no_row_is_told(self):
        wrong = [*check.untold({"a/ffi/one.rs": 3, "b/queue.rs": 4, "b/queues.rs": 1}, self.TABLE)]
        self.assertEqual(len(wrong), 2)
        self.assertIn("b/queue.rs has 4 unsafe, not 5", wrong[0])
        self.assertIn("no row has b/queues.rs, which has 1 unsafe", wrong[1])


if __name__ == "__main__":
    unittest.main()
