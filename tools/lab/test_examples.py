# SPDX-License-Identifier: GPL-2.0
"""How worked examples are found in a document, and compared with what their commands print."""

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


def test_blocks():
    assert examples.blocks(TEXT, "c") == {"one": [("grep $CLIENT log\n", "a 7 of 0000000000001234\n")]}
    assert len(examples.blocks(TEXT, "rust")["one"]) == 2


def test_numbers_are_not_compared():
    scene = examples.blocks(TEXT, "c")["one"]
    said = "--- begin 0\r\na  99 of 00000000deadbeef\r\n--- end 0\r\n"
    assert examples.judge(scene, said) == []
    for wrong in (said.replace("of", "from"), said.replace("--- end", ""), "--- begin 0\n--- end 0\n"):
        assert examples.judge(scene, wrong)


def test_the_documents_have_them():
    scenes, found = ["buffer", "failed", "node", "slow", "waiting"], examples.blocks(examples.text(), "rust")
    assert sorted(examples.blocks(examples.text(), "c")) == scenes
    assert sorted(found) == sorted([*scenes, "machine", "shell"]) and len(found["shell"]) >= 4
