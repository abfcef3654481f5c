# SPDX-License-Identifier: GPL-2.0
"""Litmus tests without their orders, what herd7 says of them, and whether a document that falls behind is found."""

import pathlib
import tempfile
import unittest
from unittest import mock

from lab import foreign, litmus, say
from lab.litmus import Answer

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
    "rust/kernel/one.rs": """
// Nothing is said by a comment: a.load(Acquire)
fn give(&self) {
    self.0.store(KBox::into_raw(make(self)), Release);
    self.0.cmpxchg(0, 1, ordering::Full);
    let _ = full().ok_or(Full)?;
    self.0.store(
        self.0.load(Relaxed).wrapping_add(1),
        Relaxed,
    );
}
""",
    "rust/kernel/one/tests.rs": "fn f() { a.load(Acquire) }",
    "rust/kernel_ext/two.c": "/* smp_mb() */\nint f(void)\n{\n\tsmp_mb();\n\treturn READ_ONCE(x) + atomic_read_acquire(&y);\n}\n",
    "drivers/android/none.rs": "fn f() { Command::Acquire }",
    "tests/litmus/passed-on.litmus": TEST,
    "docs/ordering.md": """
| give | `rust/kernel/one.rs:give` | `rust/kernel_ext/two.c:f` | [passed-on](../tests/litmus/passed-on.litmus) |

| file | ordered | relaxed |
|---|--:|--:|
| `rust/kernel/one.rs` | 2 | 2 |
| `rust/kernel_ext/two.c` | 2 | 1 |
""",
}


class Variants(unittest.TestCase):
    def test_each_label_is_left_out_alone(self):
        made = litmus.variants(TEST)
        self.assertEqual(list(made), ["", "without release", "without all order", "even without wmb"])
        self.assertIn("C passed-on\n", made[""])
        self.assertIn("\tsmp_store_release(y, 1);\n\tsmp_mb();\n\tsmp_wmb();\n", made[""])
        self.assertIn("C passed-on-without-release\n", made["without release"])
        self.assertIn("\tWRITE_ONCE(*x, 1);\n\tWRITE_ONCE(*y, 1);\n\tsmp_mb();\n\tsmp_wmb();\n", made["without release"])
        self.assertIn("\tsmp_store_release(y, 1);\n\t\n\tbarrier();\n", made["without all order"])
        self.assertIn("\tsmp_mb();\n\t\n}\n", made["even without wmb"])

    def test_ours_can_all_fail(self):
        for path in litmus.tests():
            made = litmus.variants(path.read_text())
            self.assertGreater(len(made), 1, path)
            self.assertEqual(len({*made.values()}), len(made), path)
            self.assertIn(f"C {path.stem}\n", made[""], path)
            self.assertNotIn("//", "".join(made.values()), path)


class Answers(unittest.TestCase):
    def test_what_herd7_says(self):
        self.assertEqual(litmus.read(OUTPUT), Answer("Never", ("data-race",)))
        self.assertIsNone(litmus.read("Warning: File \"x.litmus\": unbound\n"))

    def refused(self, word, **answers):
        wrong = litmus.judge({"" if label == "as_it_is" else label.replace("_", " "): answer for label, answer in answers.items()})
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn(word, wrong[0])

    def test_verdicts(self):
        never, sometimes = Answer("Never", ()), Answer("Sometimes", ())
        self.assertEqual(litmus.judge({"": never, "without release": sometimes, "without lock": Answer("Always", ("data-race",)), "even without a": never}), [])
        self.refused("can happen", as_it_is=sometimes, without_release=sometimes)
        self.refused("can happen even without wmb", as_it_is=never, without_release=sometimes, even_without_wmb=sometimes)
        self.refused("without release it does not happen", as_it_is=never, without_release=never)
        self.refused("data-race", as_it_is=Answer("Never", ("data-race",)), without_release=sometimes)
        self.refused("nothing shows", as_it_is=never, even_without_wmb=never)

    def test_a_package_that_cannot_be_had(self):
        with mock.patch.object(foreign, "root", side_effect=say.LabError("no suite gave herdtools7")):
            with self.assertRaisesRegex(say.LabError, "herdtools7"):
                litmus.command()


class Document(unittest.TestCase):
    def of(self, **change):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in SOURCES.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                for old, new in change.get(path.name.replace(".", "_").replace("-", "_"), {}).items():
                    self.assertIn(old, text)
                    text = text.replace(old, new)
                path.write_text(text)
            return litmus.complaints(root)

    def refused(self, word, **change):
        wrong = self.of(**change)
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn(word, wrong[0])

    def test_what_is_told(self):
        self.assertEqual(self.of(), [])

    def test_another_access(self):
        self.refused("one.rs has 3 ordered and 2 relaxed accesses, not 2 and 2", one_rs={"fn give": "fn get(&self) { self.0.load(Acquire) }\nfn give"})
        self.refused("two.c has 1 ordered and 1 relaxed", two_c={"\tsmp_mb();\n": ""})

    def test_another_file(self):
        self.refused("no row for drivers/android/none.rs", none_rs={"Command::Acquire": "a.load(Relaxed)"},
                     ordering_md={"| give |": "| `drivers/android/none.rs` |"})
        self.refused("drivers/android/none.rs is not there, or orders nothing", ordering_md={"|--:|--:|\n": "|--:|--:|\n| `drivers/android/none.rs` | 0 | 1 |\n"})

    def test_a_file_that_only_the_table_names(self):
        self.refused("one.rs is in the table only", ordering_md={"`rust/kernel/one.rs:give`": "it"})

    def test_a_test_that_is_not_told(self):
        self.refused("names no passed-on.litmus", ordering_md={"[passed-on](../tests/litmus/passed-on.litmus)": "–"})
        self.refused("does not say which functions it models", passed_on_litmus={"Models: `rust/kernel/one.rs:give` (P0)": "Models: one who gives"})


if __name__ == "__main__":
    unittest.main()
