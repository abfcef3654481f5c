# SPDX-License-Identifier: GPL-2.0
"""Whether what the document does not allow is found."""

import pathlib
import tempfile
import unittest

from . import layers

DOCUMENT = """
<!-- layers -->
| folder | what is in it | may use |
|---|---|---|
| `rust_binder.rs` | the root | `top/` |
| `top/` | above | `.`, `low/` |
| `.` | objects | `low/` |
| `low/` | below | `rust/kernel/` |
| `rust/kernel/` | lowest | – |
<!-- end -->
<!-- circle -->
| file | why |
|---|---|
| `one.rs` | knows two |
| `two.rs` | knows one |
<!-- end -->
<!-- upward -->
| from | to | what |
|---|---|---|
| `top/entry.rs` | `rust_binder.rs` | a parameter |
<!-- end -->
"""
SOURCES = {
    "drivers/android/rust_binder.rs": "mod low; mod one; mod top; mod two;\nuse top::entry;",
    "drivers/android/top/mod.rs": "mod entry;\nmod other;",
    "drivers/android/top/entry.rs": "use crate::{low::list::List, one::One};\nfn f() { crate::parameter(); super::other::g() }",
    "drivers/android/top/other.rs": "fn g() {}",
    "drivers/android/one.rs": "use crate::two::{self, Two as Other};\npub(crate) struct One;\nimpl One { }",
    "drivers/android/two.rs": "//! [`crate::top::entry`] is no arrow.\nuse crate::{\n    low::list, // a list\n    one::One,\n};\nimpl One {}",
    "drivers/android/low/mod.rs": "//! Lists.\npub(crate) mod list;",
    "drivers/android/low/list.rs": "use crate::kernel_ext::page;\npub(crate) struct List<T>(T);\nimpl<T> List<T> {}",
    "rust/kernel/page.rs": "use crate::kernel_ext::other;",
}


class Layers(unittest.TestCase):
    def of(self, change=None, document=DOCUMENT):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**SOURCES, **(change or {}), layers.TABLE: document}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return layers.complaints(root)

    def refused(self, word, *args, **kwargs):
        wrong = self.of(*args, **kwargs)
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn(word, wrong[0])

    def test_what_is_allowed(self):
        self.assertEqual(self.of(), [])

    def test_where_paths_begin_in_the_root(self):
        text = layers._from_crate("use top::{low::a, b};\nuse low::list;\nfn f() { low::g() }", "low|top")
        self.assertEqual(text, "use crate::top::{low::a, b};\nuse crate::low::list;\nfn f() { crate::low::g() }")

    def test_an_arrow_that_the_table_does_not_have(self):
        self.refused("does not let . use rust/kernel", {"drivers/android/one.rs": SOURCES["drivers/android/one.rs"] + "use crate::kernel_ext::page;"})
        self.refused("one.rs uses rust/kernel", {"drivers/android/one.rs": SOURCES["drivers/android/one.rs"] + "fn f() { crate::kernel_ext::page::new() }"})

    def test_an_arrow_up(self):
        up = {"drivers/android/low/list.rs": "use crate::{kernel_ext::page,\n    top::other::g};"}
        self.refused("low/list.rs uses top/other.rs, which is above it", up)
        self.refused("above it", {"rust/kernel/page.rs": "use crate::one::One;"})
        self.refused("low/list.rs uses top/other.rs", {"drivers/android/low/list.rs": "use crate::kernel_ext::page; use super::super::top::other::g;"})

    def test_too_many_arrows_up(self):
        document, change = DOCUMENT, {}
        for name in ("a", "b", "c"):
            change[f"drivers/android/low/{name}.rs"] = "use crate::top::other::g;"
            document = document.replace("| a parameter |\n", f"| a parameter |\n| `low/{name}.rs` | `top/other.rs` | g |\n")
        self.refused("4 arrows lead up", change, document=document)

    def test_an_arrow_up_that_is_gone(self):
        self.refused("which there is not", {"drivers/android/top/entry.rs": "use crate::{low::list, one::One};"})

    def test_a_circle(self):
        change = {"drivers/android/top/other.rs": "use super::entry::f;"}
        self.refused("a circle of 2 files, of which docs/architecture.md does not allow top/entry.rs", change)

    def test_a_file_comes_into_the_circle(self):
        change = {"drivers/android/three.rs": "use crate::one::One;",
                  "drivers/android/two.rs": "use crate::{low::list, one::One, three::Three};"}
        self.refused("a circle of 3 files, of which docs/architecture.md does not allow three.rs", change)

    def test_a_circle_that_is_cut(self):
        wrong = self.of({"drivers/android/two.rs": "use crate::low::list;"})
        self.assertEqual(len(wrong), 2, wrong)
        self.assertIn("allows one.rs in the circle", wrong[0])

    def test_a_circle_that_is_too_large(self):
        names = [f"n{number}.rs" for number in range(11)]
        change = {f"drivers/android/{name}": f"use crate::n{(number + 1) % 11};" for number, name in enumerate(names)}
        rows = "".join(f"| `{name}` | |\n" for name in names)
        self.refused("a circle of 11 files, 10 may be", change, document=DOCUMENT.replace("| `one.rs`", rows + "| `one.rs`"))

    def test_functions_of_a_type_that_is_at_home_elsewhere(self):
        change = {"drivers/android/top/other.rs": "impl One {\n    fn g(&self) {}\n}"}
        self.refused("top/other.rs has functions of One, whose home is one.rs", change)
        self.assertEqual(self.of({"drivers/android/top/other.rs": "impl From<u8> for One {\n}"}), [])

    def test_a_folder_without_a_row(self):
        self.refused("no row for new", {"drivers/android/new/mod.rs": "fn f() {}"})
        document = DOCUMENT.replace("| `low/` | below", "| `none/` | nothing | – |\n| `low/` | below")
        self.refused("has a row for none", document=document)

    def test_a_row_may_not_allow_an_arrow_up(self):
        document = DOCUMENT.replace("| below | `rust/kernel/` |", "| below | `rust/kernel/`, `top/` |")
        self.assertIn("docs/architecture.md: low may use top, which is not below it", self.of(document=document))

    def test_a_row_may_not_allow_what_nobody_needs(self):
        document = DOCUMENT.replace("| above | `.`, `low/` |", "| above | `.`, `low/`, `rust/kernel/` |")
        self.refused("top may use rust/kernel, and does not", document=document)


if __name__ == "__main__":
    unittest.main()
