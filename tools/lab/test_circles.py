# SPDX-License-Identifier: GPL-2.0
"""Whether a circle is found, and where paths of Rust lead."""

from . import circles


def test_circles_are_sets_that_lead_to_each_other():
    assert circles.circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"f"}, "f": {"e"}}) == [["a", "b", "c"], ["e", "f"]]


def test_comments_and_strings_name_nothing():
    assert "::" not in circles.code('//! [`crate::list`]\nfn f() { "crate::list::all"; } /* crate::x */')
    assert circles.PATH.findall(circles.code("mod tests {\n    use super::*;\n}")) == ["self::*"]


def test_paths_lead_to_the_file_that_has_the_name():
    modules = {(): "main.rs", ("tool",): "tool/mod.rs", ("tool", "deep"): "tool/deep.rs"}
    for here, children, path, file in (
            ((), {"tool"}, "tool::deep::Deep", "tool/deep.rs"), (("tool",), {"deep"}, "self::deep::f", "tool/deep.rs"),
            (("tool", "deep"), set(), "super::Tool", "tool/mod.rs"), (("tool", "deep"), set(), "super::super::f", "main.rs"),
            (("tool",), set(), "crate::NAME", "main.rs"), (("tool",), set(), "std::fmt", None)):
        assert circles.end(here, children, path.split("::"), modules) == file, path
