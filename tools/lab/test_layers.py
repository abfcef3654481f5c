# SPDX-License-Identifier: GPL-2.0
"""The check finds uses that docs/architecture.md does not allow."""

import pytest

from . import layers, proc

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
ONE = SOURCES["drivers/android/one.rs"]


@pytest.fixture
def wrong(tmp_path):
    def of(change, *edits):
        document = DOCUMENT
        for old, new in edits:
            assert old in document
            document = document.replace(old, new)
        changed = {name if "/kernel/" in name else f"drivers/android/{name}": text for name, text in change.items()}
        for name, text in {**SOURCES, **changed, layers.TABLE: document}.items():
            proc.write(tmp_path / name, text)
        return layers.complaints(tmp_path)

    return of


@pytest.mark.parametrize("change", [
    {},
    {"top/other.rs": "impl From<u8> for One {\n}"},
    # In braces only the front begins a path: `low` is no module of the root here.
    {"rust_binder.rs": "mod low; mod one; mod top; mod two;\nuse top::{entry, low::List};"},
    {"one.rs": ONE + "use crate::parameter;"},
    {"rust_binder.rs": "mod low; mod one;\nmod top {\n    mod entry;\n    mod other;\n}\nmod two;\nuse top::entry;"},
])
def test_nothing_is_wrong(wrong, change):
    assert wrong(change) == []


@pytest.mark.parametrize("words, change, edits", [
    ("does not let . use rust/kernel", {"one.rs": ONE + "use crate::kernel_ext::page;"}, ()),
    ("one.rs uses rust/kernel", {"one.rs": ONE + "fn f() { crate::kernel_ext::page::new() }"}, ()),
    ("low/list.rs uses top/other.rs", {"low/list.rs": "use crate::{kernel_ext::page,\n    top::other::g};"}, ()),
    ("low/list.rs uses top/other.rs", {"low/list.rs": "use crate::{kernel_ext::{page, x},\n    top::{other::g}};"}, ()),
    ("rust/kernel/page.rs uses one.rs", {"rust/kernel/page.rs": "use crate::one::One;"}, ()),
    ("low/list.rs uses top/other.rs", {"low/list.rs": "use crate::kernel_ext::page; use super::super::top::other::g;"}, ()),
    ("one/part.rs uses top/other.rs", {"one/part.rs": "use crate::top::other::g;"}, ()),
    ("top/other.rs has functions of One, whose home is one.rs", {"top/other.rs": "impl One {\n    fn g(&self) {}\n}"}, ()),
    ("no row for new", {"new/mod.rs": "fn f() {}"}, ()),
    ("has a row for none", {}, [("| `low/` | below", "| `none/` | nothing | – |\n| `low/` | below")]),
    ("top may use rust/kernel, and does not", {}, [("| above | `.`, `low/` |", "| above | `.`, `low/`, `rust/kernel/` |")]),
])
def test_one_thing_is_wrong(wrong, words, change, edits):
    [found] = wrong(change, *edits)
    assert words in found


def test_a_row_may_not_allow_what_is_above(wrong):
    found = wrong({}, ("| below | `rust/kernel/` |", "| below | `rust/kernel/`, `top/` |"))
    assert "docs/architecture.md: low may use top, which is not below it" in found
