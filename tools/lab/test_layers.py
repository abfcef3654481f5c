# SPDX-License-Identifier: GPL-2.0
"""Whether what docs/architecture.md does not allow is found."""

import pytest

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


ONE, LOW, TOP = (SOURCES[f"drivers/android/{name}"] for name in ("one.rs", "low/list.rs", "top/entry.rs"))


@pytest.fixture
def wrong(tmp_path):
    def of(change=None, *edits):
        document = DOCUMENT
        for old, new in edits:
            assert old in document
            document = document.replace(old, new)
        for name, text in {**SOURCES, **{f"drivers/android/{name}" if "/kernel/" not in name else name: text for name, text in (change or {}).items()},
                           layers.TABLE: document}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return layers.complaints(tmp_path)

    return of


def test_nothing_is_wrong(wrong):
    assert wrong() == []
    assert wrong({"top/other.rs": "impl From<u8> for One {\n}"}) == []
    # In braces only the front begins a path: `low` is no module of the root here.
    assert wrong({"rust_binder.rs": "mod low; mod one; mod top; mod two;\nuse top::{entry, low::List};"}) == []


@pytest.mark.parametrize("words, change, edits", [
    ("does not let . use rust/kernel", {"one.rs": ONE + "use crate::kernel_ext::page;"}, ()),
    ("one.rs uses rust/kernel", {"one.rs": ONE + "fn f() { crate::kernel_ext::page::new() }"}, ()),
    ("low/list.rs uses top/other.rs, which is above it", {"low/list.rs": "use crate::{kernel_ext::page,\n    top::other::g};"}, ()),
    ("low/list.rs uses top/other.rs, which is above it", {"low/list.rs": "use crate::{kernel_ext::{page, x},\n    top::{other::g}};"}, ()),
    ("rust/kernel/page.rs uses one.rs, which is above it", {"rust/kernel/page.rs": "use crate::one::One;"}, ()),
    ("low/list.rs uses top/other.rs", {"low/list.rs": "use crate::kernel_ext::page; use super::super::top::other::g;"}, ()),
    ("4 arrows lead up", {f"low/{name}.rs": "use crate::top::other::g;" for name in "abc"},
     [("| a parameter |\n", "| a parameter |\n" + "".join(f"| `low/{name}.rs` | `top/other.rs` | g |\n" for name in "abc"))]),
    ("which there is not", {"top/entry.rs": "use crate::{low::list, one::One};"}, ()),
    ("a circle of 2 files, of which docs/architecture.md does not allow top/entry.rs", {"top/other.rs": "use super::entry::f;"}, ()),
    ("a circle of 3 files, of which docs/architecture.md does not allow three.rs",
     {"three.rs": "use crate::one::One;", "two.rs": "use crate::{low::list, one::One, three::Three};"}, ()),
    ("a circle of 11 files, 10 may be", {f"n{number}.rs": f"use crate::n{(number + 1) % 11};\nuse crate::n0::x;" for number in range(11)},
     [("| `one.rs`", "".join(f"| `n{number}.rs` | |\n" for number in range(11)) + "| `one.rs`")]),
    ("top/other.rs has functions of One, whose home is one.rs", {"top/other.rs": "impl One {\n    fn g(&self) {}\n}"}, ()),
    ("no row for new", {"new/mod.rs": "fn f() {}"}, ()),
    ("has a row for none", {}, [("| `low/` | below", "| `none/` | nothing | – |\n| `low/` | below")]),
    ("top may use rust/kernel, and does not", {}, [("| above | `.`, `low/` |", "| above | `.`, `low/`, `rust/kernel/` |")]),
])
def test_one_thing_is_wrong(wrong, words, change, edits):
    [found] = wrong(change, *edits)
    assert words in found


def test_a_circle_that_is_cut(wrong):
    found = wrong({"two.rs": "use crate::low::list;"})
    assert len(found) == 2 and "allows one.rs in the circle" in found[0]


def test_a_row_may_not_allow_an_arrow_up(wrong):
    found = wrong({}, ("| below | `rust/kernel/` |", "| below | `rust/kernel/`, `top/` |"))
    assert "docs/architecture.md: low may use top, which is not below it" in found
