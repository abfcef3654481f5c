# SPDX-License-Identifier: GPL-2.0
"""What the documents' commands are, and which of them nobody runs."""

import pathlib
import tempfile
import unittest
from unittest import mock

from . import commands

GOOD = """# Title
<!-- clean machine -->
```sh
make boot   # a shell
# only a remark
echo '#' >x
```
```text
no command
```
- an item

    that goes on

<!-- make test: soak -->
```console
$ make soak
```
<!-- make: deb-test -->
```sh
reboot
```
<!-- not run: it does not end -->
```sh
cat trace_pipe
```
"""


class Documents(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.root = pathlib.Path(made.name)
        (self.root / "docs").mkdir()
        (self.root / "Makefile").write_text("deb-test: all\n")
        self.enterContext(mock.patch.object(commands, "ROOT", self.root))

    def complaints(self, text):
        (self.root / "docs/a.md").write_text(text)
        return commands.complaints()

    def test_blocks_that_something_runs_are_good(self):
        self.assertEqual(self.complaints(GOOD), [])

    def test_commands_of_a_clean_machine_come_one_by_one_those_of_readme_first(self):
        (self.root / "docs/a.md").write_text(GOOD)
        (self.root / "README.md").write_text("<!-- clean machine -->\n```sh\nmake help\n```\n")
        self.assertEqual(commands.of_clean_machine(), [
            ("README.md:2", "make help"), ("docs/a.md:3", "make boot"), ("docs/a.md:3", "echo '#' >x")])

    def test_each_way_to_say_nothing_is_seen(self):
        for text, complaint in (
                ("```sh\nls\n```\n", "docs/a.md:1: nothing says"),
                ("<!-- clean machine -->\n\n```sh\nls\n```\n", "docs/a.md:3: nothing says"),
                ("<!-- not run -->\n```sh\nls\n```\n", "docs/a.md:2: the reason is missing"),
                ("<!-- make test: no such stage -->\n```sh\nls\n```\n", "docs/a.md:2: make test has no stage"),
                ("<!-- make: nothing -->\n```sh\nls\n```\n", "docs/a.md:2: there is no make nothing"),
                ("```\nls\n```\n", "docs/a.md:1: a fence says what is in it"),
                ("Do this:\n\n    ls\n", "docs/a.md:3: a block without a fence")):
            found = self.complaints(text)
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(complaint), found)


if __name__ == "__main__":
    unittest.main()
