# SPDX-License-Identifier: GPL-2.0
"""What of the words of a Debian machine counts as checks, and that none is lost."""

import unittest

from lab import deb_test


class Steps(unittest.TestCase):
    def of(self, words):
        steps = deb_test._Steps()
        steps.add("here", words)
        return steps.passed, steps.failed, steps.lines

    def test_checks_are_counted_with_what_they_say(self):
        passed, failed, lines = self.of("ok 1 - one\n# more\nnot ok 2 - two\n# why\nok 3 - three\n1..3\n@@ end 1\n")
        self.assertEqual((passed, failed), (2, 1))
        self.assertEqual(lines, ["here: 2 of 3", "not ok 2 - two\n# why"])

    def test_what_systemd_tells_the_terminal_is_no_part_of_a_line(self):
        begun = "\x1b]3008;start=1;unit=lab.service\x1b\\\x1b[0m\x1b]104\x07\x1b[!p\x1bP+q6E616D65\x1b\\"
        self.assertEqual(self.of(f"{begun}not ok 1 - one\nok 2 - two\n1..2\n")[:2], (1, 1))

    def test_a_check_that_is_not_told_has_failed(self):
        passed, failed, lines = self.of("Started: ok 1 - one\nok 2 - two\n1..2\n")
        self.assertEqual((passed, failed), (1, 1))
        self.assertIn("of 2 checks 1 are told", lines[1])


if __name__ == "__main__":
    unittest.main()
