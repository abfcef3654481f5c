// SPDX-License-Identifier: GPL-2.0
//! What would be no fault: changes of Rust statements after which the same happens, as a reader of the text can tell.
//!
//! Two statements that set different things may come in either order, if all that they do is to read, to compute and
//! to set, and neither reads what the other one sets. And a `drop` as the last statement of a block, of the variable
//! that was made last in it, is what happens next anyway.

use crate::find::is_in;
use crate::tree::{children, first_child, Source};
use tree_sitter::Node;

/// Whether two statements set variables or fields apart from each other: either order does the same.
pub fn are_independent(source: &Source, one: Node<'_>, other: Node<'_>) -> bool {
    let (Some((first, from_first)), Some((second, from_second))) =
        (assignment(source, one), assignment(source, other))
    else {
        return false;
    };
    !overlap(first, second) && !from_first.contains(second) && !from_second.contains(first)
}

/// What a statement sets, and from what, if it does nothing else.
fn assignment<'a>(source: &'a Source, node: Node<'_>) -> Option<(&'a str, &'a str)> {
    let inner = first_child(node)?;
    let is_assignment = is_in(inner.kind(), "assignment_expression compound_assignment_expr");
    let (left, right) = (inner.child_by_field_name("left")?, inner.child_by_field_name("right")?);
    let is_plain = is_assignment && is_plain(source, left) && is_plain(source, right);
    is_plain.then(|| (source.at(left), source.at(right)))
}

/// Whether an expression only reads and computes: no function of anybody's is called, but to make an
/// `Option`, a `Result`, or a number of one that is narrower.
fn is_plain(source: &Source, node: Node<'_>) -> bool {
    let are_plain = |nodes: Vec<Node<'_>>| nodes.into_iter().all(|part| is_plain(source, part));
    match node.kind() {
        "identifier"
        | "shorthand_field_initializer"
        | "self"
        | "scoped_identifier"
        | "primitive_type"
        | "integer_literal"
        | "boolean_literal" => true,
        "field_expression" | "field_initializer" => {
            node.child_by_field_name("value").is_some_and(|value| is_plain(source, value))
        }
        "call_expression" => {
            let function = source.field(node, "function");
            let number = function.strip_suffix("::from").unwrap_or_default();
            let is_known = is_in(number, "u8 u16 u32 u64 usize i32 i64") || is_in(function, "Some Ok Err");
            is_known && node.child_by_field_name("arguments").is_some_and(|all| are_plain(children(all)))
        }
        "struct_expression" => node.child_by_field_name("body").is_some_and(|body| are_plain(children(body))),
        "binary_expression" | "parenthesized_expression" | "type_cast_expression" => {
            are_plain(children(node))
        }
        _ => false,
    }
}

/// Whether a statement, one of all those of a block, drops what the end of the block drops first of all anyway.
pub fn is_dropped_anyway(source: &Source, node: Node<'_>, all: &[Node<'_>]) -> bool {
    let is_last = all.last().is_some_and(|last| last.id() == node.id());
    let call = first_child(node).filter(|_| is_last && node.kind() == "expression_statement");
    let newest = all.iter().rev().find(|statement| statement.kind() == "let_declaration");
    let (Some(call), Some(newest)) = (call, newest) else {
        return false;
    };
    let name = source.field(*newest, "pattern");
    source.field(call, "function") == "drop" && source.field(call, "arguments") == format!("({name})")
}

/// Whether one of two variables or fields is the other or a part of it.
pub fn overlap(one: &str, other: &str) -> bool {
    let is_part = |part: &str, all: &str| part.strip_prefix(all).is_some_and(|rest| rest.starts_with('.'));
    one == other || is_part(one, other) || is_part(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::{faults, Enums};

    fn count(text: &str, operator: &str) -> usize {
        let source = Source::new("a.rs", text.into());
        let enums = Enums::of(&[&source]);
        faults(&source, &enums).iter().filter(|fault| fault.operator == operator).count()
    }

    #[test]
    fn what_either_order_does_is_not_swapped() {
        let swaps = |text| count(text, "swap statements");
        assert_eq!(swaps("fn f() { s.a = 1; s.b += 2; }"), 0);
        assert_eq!(swaps("fn f() { best_room = room; best = Some(Gap { index, at: offset + 1 }); }"), 0);
        assert_eq!(swaps("fn f() { self.a -= u32::from(b); self.c -= u32::from(d); }"), 0);
        assert_eq!(swaps("fn f() { a = 1; b = a; }"), 1);
        assert_eq!(swaps("fn f() { a = 1; a.b = c; }"), 1);
        assert_eq!(swaps("fn f() { a.b = 1; c = Some(a.b); }"), 1);
        assert_eq!(swaps("fn f() { a = g(); b = 1; }"), 1);
        assert_eq!(swaps("fn f() { a = Gap { b: g() }; b = 1; }"), 1);
        assert_eq!(swaps("fn f() { *a = 1; b = 2; }"), 1);
    }

    #[test]
    fn what_the_end_of_a_block_drops_first_is_not_kept() {
        let drops = |text| count(text, "drop statement");
        assert_eq!(drops("fn f() { let b = g(); drop(b); }"), 0);
        assert_eq!(drops("fn f() { let mut b = g(); drop(b); }"), 0);
        assert_eq!(drops("fn f() { let b = g(); let c = h(); drop(b); }"), 1);
        assert_eq!(drops("fn f() { let b = g(); drop(b); i(); }"), 2);
        assert_eq!(drops("fn f() { let b = g(); { drop(b); } }"), 1);
        assert_eq!(drops("fn f() -> u8 { let b = g(); drop(b); 3 }"), 1);
    }
}
