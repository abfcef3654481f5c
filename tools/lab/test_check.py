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


if __name__ == "__main__":
    unittest.main()
