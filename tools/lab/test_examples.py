# SPDX-License-Identifier: GPL-2.0
"""How worked examples are found in a document, and compared with what their commands print."""

import unittest

from . import examples

TEXT = """
<!-- example: one -->
```sh
CLIENT=12
grep $CLIENT log
```
```text
a 7 of 0000000000001234
```
<!-- example: one (rust alone) -->
```sh
true
```
```text
```
```sh
not an example
```
"""


class Examples(unittest.TestCase):
    def test_blocks(self):
        self.assertEqual(examples.blocks(TEXT, "c"), {"one": [("grep $CLIENT log\n", "a 7 of 0000000000001234\n")]})
        self.assertEqual(len(examples.blocks(TEXT, "rust")["one"]), 2)

    def test_numbers_are_not_compared(self):
        scene = examples.blocks(TEXT, "c")["one"]
        said = "--- begin 0\r\na  99 of 00000000deadbeef\r\n--- end 0\r\n"
        self.assertEqual(examples.judge(scene, said), [])
        self.assertTrue(examples.judge(scene, said.replace("of", "from")))
        self.assertTrue(examples.judge(scene, said.replace("--- end", "")))
        self.assertTrue(examples.judge(scene, "--- begin 0\n--- end 0\n"))

    def test_the_documents_have_them(self):
        scenes = ["buffer", "failed", "node", "slow", "waiting"]
        self.assertEqual(sorted(examples.blocks(examples.text(), "c")), scenes)
        found = examples.blocks(examples.text(), "rust")
        self.assertEqual(sorted(found), sorted([*scenes, "shell"]))
        self.assertGreaterEqual(len(found["shell"]), 4)


if __name__ == "__main__":
    unittest.main()
