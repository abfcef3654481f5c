# SPDX-License-Identifier: GPL-2.0
"""Whether a circle of files is found, and nothing else taken for one."""

import pathlib
import tempfile
import unittest

from . import circles

SOURCES = {
    "main.rs": "mod list;\nmod one;\nmod tool;\nuse list::all;\nfn main() { one::run() }",
    "list.rs": "use crate::one;\nuse crate::tool::{deep::Deep, Tool as Other};",
    "one.rs": "//! [`crate::list`] is no arrow, nor is \"crate::list\".\nuse crate::tool::Tool;\nfn f() { \"crate::list::all\"; }",
    "tool/mod.rs": "pub mod deep;\npub struct Tool;\n#[cfg(test)]\nmod tests {\n    use super::*;\n}",
    "tool/deep.rs": "use std::fmt;\npub struct Deep;",
}


class Circles(unittest.TestCase):
    def of(self, change=None):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**SOURCES, **(change or {})}.items():
                path = root / circles.CRATES[0] / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return circles.complaints(root)

    def refused(self, files, change):
        self.assertEqual(self.of(change), [f"{circles.CRATES[0]}: {files.count(',') + 1} files use each other in a circle: {files}"])

    def test_no_circle(self):
        self.assertEqual(self.of(), [])

    def test_two_files(self):
        self.refused("list.rs, one.rs", {"one.rs": "use crate::list::all;"})
        self.refused("list.rs, one.rs", {"one.rs": "fn f() { crate::list::all() }"})

    def test_three_files(self):
        self.refused("list.rs, one.rs, tool/deep.rs",
                     {"one.rs": "use crate::tool::deep::Deep;", "tool/deep.rs": "use crate::list;"})

    def test_a_file_and_its_folder(self):
        parent = SOURCES["tool/mod.rs"] + "\npub use deep::Deep;"
        self.assertEqual(self.of({"tool/mod.rs": parent}), [])
        self.refused("tool/deep.rs, tool/mod.rs", {"tool/mod.rs": parent, "tool/deep.rs": "use super::Tool;"})
        self.refused("tool/deep.rs, tool/mod.rs",
                     {"tool/mod.rs": SOURCES["tool/mod.rs"] + "fn f() { deep::g() }", "tool/deep.rs": "use crate::tool::Tool;"})

    def test_all_of_a_file(self):
        self.refused("tool/deep.rs, tool/mod.rs",
                     {"tool/mod.rs": SOURCES["tool/mod.rs"] + "\nuse deep::Deep;", "tool/deep.rs": "use super::*;"})

    def test_the_root(self):
        self.refused("list.rs, main.rs", {"list.rs": "use crate::NAME;"})

    def test_braces(self):
        self.refused("list.rs, tool/deep.rs", {"tool/deep.rs": "use crate::{one::{self, One},\n    list::{all, none}};",
                                               "one.rs": ""})

    def test_this_tree(self):
        self.assertEqual(circles.complaints(), [])


if __name__ == "__main__":
    unittest.main()
