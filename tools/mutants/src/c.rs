// SPDX-License-Identifier: GPL-2.0
//! The operators on C. Nothing outside of functions is broken.

use crate::find::{is_in, Found, Site};
use crate::tree::{children, first_child, Source};
use tree_sitter::Node;

/// Nodes whose value the compiler must evaluate, and names of macros.
const CLOSED: &str =
    "case_statement array_declarator sizeof_expression preproc_def preproc_function_def preproc_include
    initializer_list comment type_descriptor ERROR";
const CHECKED_BY_COMPILER: &str = "BUILD_BUG_ON static_assert offsetof container_of min_t max_t";

/// All faults of a source, in the order of the text.
pub fn faults(source: &Source) -> Vec<Site> {
    let mut found = Found::new(source);
    visit(&mut found, source.tree.root_node());
    found.sites
}

fn visit<'a>(found: &mut Found<'a>, node: Node<'a>) {
    let source = found.source;
    if is_in(node.kind(), CLOSED) || is_in(source.field(node, "function"), CHECKED_BY_COMPILER) {
        return;
    }
    if node.kind() == "function_definition" {
        return function(found, node);
    }
    let is_inside = found.function.is_some();
    if is_inside {
        expression(found, node);
        if node.kind() == "compound_statement" {
            let may_go = |node| {
                is_simple(node) || is_in(node.kind(), "return_statement goto_statement break_statement")
            };
            found.statements(&children(node), may_go, is_simple);
        }
    }
    // A declaration's name is no expression.
    let parts: Vec<_> = match node.kind() {
        "declaration" if is_inside => {
            children(node).into_iter().filter(|part| part.kind() == "init_declarator").collect()
        }
        "init_declarator" if is_inside => node.child_by_field_name("value").into_iter().collect(),
        _ => children(node),
    };
    for part in parts {
        visit(found, part);
    }
}

fn function<'a>(found: &mut Found<'a>, node: Node<'a>) {
    let Some(body) = node.child_by_field_name("body") else { return };
    let name = found.source.field(node, "declarator").split('(').next().unwrap_or("").trim();
    let outer =
        found.function.replace(name.trim_matches(|c: char| c == '*' || c.is_whitespace()).to_string());
    let values: &[&str] = match found.source.field(node, "type") {
        _ if children(body).is_empty() => &[],
        _ if name.contains('*') => &[" NULL"],
        "void" => &[""],
        "int" | "long" => &[" 0", " -EPERM"],
        "bool" => &[" true", " false"],
        "size_t" | "u32" | "u64" => &[" 0"],
        _ => &[],
    };
    for value in values {
        found.return_at_once(body, format!("return{value};"));
    }
    visit(found, body);
    found.function = outer;
}

fn expression<'a>(found: &mut Found<'a>, node: Node<'a>) {
    match node.kind() {
        "if_statement" | "conditional_expression" => {
            let condition = node.child_by_field_name("condition");
            let is_enclosed = condition.is_some_and(|all| all.kind() == "parenthesized_expression");
            if let Some(inner) = if is_enclosed { condition.and_then(first_child) } else { condition } {
                found.condition(inner);
            }
        }
        "binary_expression" | "assignment_expression" => found.operator(node),
        _ => found.expression(node, ""),
    }
}

fn is_simple(node: Node<'_>) -> bool {
    let kinds = "call_expression assignment_expression update_expression";
    node.kind() == "expression_statement" && first_child(node).is_some_and(|inner| is_in(inner.kind(), kinds))
}
