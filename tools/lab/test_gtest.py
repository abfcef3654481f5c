# SPDX-License-Identifier: GPL-2.0
"""What is read from the output of GoogleTest programs."""

import unittest

from lab import gtest

GREEN, RED, END = "\x1b[0;32m", "\x1b[0;31m", "\x1b[m"


class Parse(unittest.TestCase):
    def outcomes(self, *lines, status=0):
        output = "\n".join(["@@ begin program -x", *lines, f"@@ end {status}"])
        return gtest.parse(output)["program -x"]

    def test_outcomes(self):
        tests = self.outcomes(
            f"{GREEN}[ RUN      ] {END}Suite.Good", f"{GREEN}[       OK ] {END}Suite.Good (3 ms)",
            "[ RUN      ] Suite.Bad", f"{RED}[  FAILED  ] {END}Suite.Bad (12 ms)",
            "[ RUN      ] All/Suite.Left/remote", "[  SKIPPED ] All/Suite.Left/remote (0 ms)",
            "[  PASSED  ] 1 test.", "[  FAILED  ] 1 test, listed below:", "[  FAILED  ] Suite.Bad", status=1)
        self.assertEqual(tests, {"Suite.Good": "passed", "Suite.Bad": "failed", "All/Suite.Left/remote": "skipped"})

    def test_parameters_of_a_failed_test(self):
        tests = self.outcomes("[ RUN      ] All/S.T/0", "[  FAILED  ] All/S.T/0, where GetParam() = 7 (1 ms)", status=1)
        self.assertEqual(tests, {"All/S.T/0": "failed"})

    def test_a_crash_leaves_a_test_unfinished(self):
        tests = self.outcomes("[ RUN      ] S.A", "[       OK ] S.A (0 ms)", "[ RUN      ] S.B", status=139)
        self.assertEqual(tests, {"S.A": "passed", "S.B": "unfinished"})

    def test_a_failure_outside_of_tests_counts(self):
        tests = self.outcomes("[ RUN      ] S.A", "[       OK ] S.A (0 ms)", status=1)
        self.assertEqual(tests, {"S.A": "passed", "(exit status)": "failed"})

    def test_a_program_without_tests_is_its_status(self):
        self.assertEqual(self.outcomes("10 per second"), {"program": "passed"})
        self.assertEqual(self.outcomes(status=1), {"program": "failed"})

    def test_a_program_that_never_ended(self):
        self.assertEqual(gtest.parse("@@ begin p\n[ RUN      ] S.A\n"), {"p": {"S.A": "unfinished"}})


if __name__ == "__main__":
    unittest.main()
