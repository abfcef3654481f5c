# SPDX-License-Identifier: GPL-2.0
"""Litmus tests without their orders, the results of herd7 for them, and documents that are out of date."""

import pytest

from . import litmus, proc

TEST = """C passed-on

(*
 * Models: `rust/kernel/one.rs:give` (P0)
 *)

{}

P0(int *x, int *y)
{
	WRITE_ONCE(*x, 1);
	smp_store_release(y, 1);	// without release: WRITE_ONCE(*y, 1);
	smp_mb();	// without all order:
	smp_wmb();	// without all order: barrier(); // even without wmb:
}
"""
OUTPUT = """Test passed-on Allowed
States 3
No
Witnesses
Positive: 0 Negative: 3
Flag data-race
Condition exists (1:r0=1 /\\ 1:r1=0)
Observation passed-on Never 0 3
Time passed-on 0.01
"""
SOURCES = {
    "rust/kernel/one.rs": "fn give(&self) {\n    self.0.store(KBox::into_raw(make(self)),\n        Release);\n    self.0.load(Relaxed);\n}\n",
    "rust/kernel/one/tests.rs": "fn f() { a.load(Acquire) }",
    "drivers/android/helpers/two.c": "/* smp_mb() */\nint f(void)\n{\n\treturn READ_ONCE(x) + atomic_read_acquire(&y);\n}\n",
    "drivers/android/none.rs": "// A comment is no access: a.load(Acquire)\nfn f() { Command::Acquire; full().ok_or(Full)?; }",
    "tests/litmus/passed-on.litmus": TEST,
    "docs/ordering.md": "| give | `rust/kernel/one.rs:give` | `drivers/android/helpers/two.c:f` | [passed-on](../tests/litmus/passed-on.litmus) |\n",
}


NEVER, SOMETIMES, RACE = ("Never", []), ("Sometimes", []), ["data-race"]


def test_each_label_is_left_out_alone():
    made = litmus.variants(TEST)
    assert list(made) == ["", "without release", "without all order", "even without wmb"]
    assert "C passed-on\n" in made[""] and "\tsmp_store_release(y, 1);\n\tsmp_mb();\n\tsmp_wmb();\n" in made[""]
    assert "C passed-on-without-release\n" in made["without release"]
    assert "\tWRITE_ONCE(*x, 1);\n\tWRITE_ONCE(*y, 1);\n\tsmp_mb();\n\tsmp_wmb();\n" in made["without release"]
    assert "\tsmp_store_release(y, 1);\n\t\n\tbarrier();\n" in made["without all order"]
    assert "\tsmp_mb();\n\t\n}\n" in made["even without wmb"]


@pytest.mark.parametrize("path", litmus.tests(), ids=lambda path: path.stem)
def test_ours_can_all_fail(path):
    made = litmus.variants(path.read_text())
    assert len({*made.values()}) == len(made) > 1
    assert f"C {path.stem}\n" in made[""] and "//" not in "".join(made.values())


def test_what_herd7_says():
    assert litmus.read(OUTPUT) == ("Never", RACE)
    assert litmus.read("Warning: File \"x.litmus\": unbound\n") is None


@pytest.mark.parametrize("words, answers", [
    (None, {"": NEVER, "without release": SOMETIMES, "without lock": ("Always", RACE), "even without a": NEVER}),
    ("forbidden state can occur", {"": SOMETIMES, "without release": SOMETIMES}),
    ("can occur even without wmb", {"": NEVER, "without release": SOMETIMES, "even without wmb": SOMETIMES}),
    ("without release the state does not occur", {"": NEVER, "without release": NEVER}),
    ("data-race", {"": ("Never", RACE), "without release": SOMETIMES}),
    ("nothing shows", {"": NEVER, "even without wmb": NEVER}),
])
def test_verdicts(words, answers):
    wrong = litmus.judge(answers)
    assert len(wrong) == bool(words) and all(words in line for line in wrong)


@pytest.mark.parametrize("words, file, old, new", [
    (None, "rust/kernel/one.rs", "", ""),
    ("does not name drivers/android/none.rs", "drivers/android/none.rs", "Command::Acquire", "a.load(Relaxed)"),
    ("does not name rust/kernel/one.rs", "docs/ordering.md", "`rust/kernel/one.rs:give`", "it"),
    ("does not name drivers/android/helpers/two.c", "docs/ordering.md", "`drivers/android/helpers/two.c:f`", "it"),
    ("names no passed-on.litmus", "docs/ordering.md", "[passed-on](../tests/litmus/passed-on.litmus)", "–"),
    ("does not name the functions that it models", "tests/litmus/passed-on.litmus", "Models: `rust/kernel/one.rs:give` (P0)", "Models: one who gives"),
])
def test_the_document_names_what_the_sources_have(tmp_path, words, file, old, new):
    for name, text in SOURCES.items():
        assert name != file or old in text
        proc.write(tmp_path / name, text.replace(old, new) if name == file and old else text)
    wrong = litmus.complaints(tmp_path)
    assert words in wrong[0] and len(wrong) == 1 if words else wrong == []
