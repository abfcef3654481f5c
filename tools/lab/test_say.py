# SPDX-License-Identifier: GPL-2.0
"""What a terminal of 100 columns shows of a long step."""

import contextlib
import io
import unittest

from lab import say


class Progress(unittest.TestCase):
    def test_a_line_of_progress_fits_100_columns(self):
        for live in (False, True):
            step = say.Step("a step whose title takes a good part of a line")
            with contextlib.redirect_stdout(io.StringIO()) as told, step:
                step.live, step.shown = live, -say.QUIET_INTERVAL
                step.progress("a test whose name is longer than what is left of it " * 3)
            lines = told.getvalue().replace("\r", "\n").splitlines()
            self.assertIn("a test whose name", told.getvalue())
            self.assertLess(max(map(len, lines)), 100, lines)


if __name__ == "__main__":
    unittest.main()
