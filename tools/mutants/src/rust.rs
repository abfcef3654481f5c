// SPDX-License-Identifier: GPL-2.0
//! The operators on Rust: faults of an expression, a statement, a function.

use crate::find::{is_in, Found, Site};
use crate::tree::{children, first_child, Source};
use tree_sitter::Node;

/// Nodes whose contents have another meaning at compile time than the text of a function.
const CLOSED: &str = "const_item static_item attribute_item inner_attribute_item enum_item struct_item union_item type_item
    use_declaration macro_definition macro_invocation const_block parameters type_arguments type_parameters array_type
    line_comment block_comment";

/// Pairs of methods that are easily taken for each other.
const METHODS: &str =
    "min max any all first last push_back push_front pop_front pop_back take_first take_last
    notify_all notify_one is_some is_none is_ok is_err fetch_add fetch_sub";

/// Prefixes of the names of methods that return a bool.
const PREDICATES: &str = "is_ has_ wants_ contains starts_with ptr_eq accepts_ exceeds_";

/// All faults of a source, in the order of the text.
pub fn faults(source: &Source) -> Vec<Site> {
    let mut walk = Walk { found: Found::new(source), source, of_type: String::new() };
    walk.visit(source.tree.root_node());
    walk.found.sites
}

struct Walk<'a> {
    found: Found<'a>,
    source: &'a Source,
    /// The type whose functions these are.
    of_type: String,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, node: Node<'a>) {
        if is_in(node.kind(), CLOSED) {
            return self.closed(node);
        }
        match node.kind() {
            "mod_item" | "impl_item" | "trait_item" | "function_item" if self.is_for_tests(node) => {}
            "impl_item" => {
                let of_type = self.source.field(node, "type").split('<').next().unwrap_or("").to_string();
                let outer = std::mem::replace(&mut self.of_type, of_type);
                self.visit_all(children(node));
                self.of_type = outer;
            }
            "function_item" => self.function(node),
            "let_declaration" => self.visit_fields(node, "value alternative"),
            "let_condition" | "field_expression" | "type_cast_expression" | "field_initializer" => {
                self.visit_fields(node, "value");
            }
            "for_expression" => self.visit_fields(node, "value body"),
            "closure_expression" => self.visit_fields(node, "body"),
            "match_arm" => self.arm(node),
            "array_expression" => {
                let length = node.child_by_field_name("length").map(|length| length.id());
                let values = children(node).into_iter().filter(|child| Some(child.id()) != length);
                self.visit_all(values.collect());
            }
            "call_expression" => self.call(node),
            _ => {
                self.expression(node);
                if node.kind() == "block" {
                    let (source, all) = (self.source, children(node));
                    let may_go =
                        |node| does_something(source, node) && !is_dropped_anyway(source, node, &all);
                    let may_swap = |node| does_something(source, node) && is_simple(node);
                    self.found.statements(&all, may_go, may_swap);
                }
                self.visit_all(children(node));
            }
        }
    }

    fn visit_all(&mut self, nodes: Vec<Node<'a>>) {
        for node in nodes {
            self.visit(node);
        }
    }

    fn visit_fields(&mut self, node: Node<'a>, names: &str) {
        self.visit_all(names.split(' ').filter_map(|name| node.child_by_field_name(name)).collect());
    }

    /// Syntax that cannot be read; all that can be wrong with `matches!` is its answer.
    fn closed(&mut self, node: Node<'a>) {
        let is_matches = node.kind() == "macro_invocation" && self.source.field(node, "macro") == "matches";
        if is_matches && !is_negated(node) {
            self.negate(node);
        }
    }

    fn negate(&mut self, node: Node<'a>) {
        self.found.instead(node, "negate condition", format!("!{}", self.source.at(node)));
    }

    fn is_for_tests(&self, node: Node<'_>) -> bool {
        let mut before = node.prev_named_sibling();
        while let Some(attribute) = before.filter(|before| before.kind() == "attribute_item") {
            let text = self.source.at(attribute);
            if text.contains("cfg(test") || text.contains("kunit") {
                return true;
            }
            before = attribute.prev_named_sibling();
        }
        false
    }

    fn function(&mut self, node: Node<'a>) {
        let Some(body) = node.child_by_field_name("body").filter(|_| !is_const(self.source, node)) else {
            return;
        };
        let mut name = self.source.field(node, "name").to_string();
        if !self.of_type.is_empty() {
            name = format!("{}::{name}", self.of_type);
        }
        let outer = self.found.function.replace(name);
        if !children(body).is_empty() {
            self.early_returns(body, self.source.field(node, "return_type").trim());
        }
        self.visit(body);
        self.found.function = outer;
    }

    /// A function that returns at once, with what its type allows.
    fn early_returns(&mut self, body: Node<'a>, returned: &str) {
        const REFUSED: &str = " Err(kernel::error::code::EPERM)";
        let values: &[&str] = match returned {
            "" => &[""],
            "bool" => &[" true", " false"],
            "Result" | "Result<()>" => &[" Ok(())", REFUSED],
            "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" | "isize" | "c_int" => &[" 0", " 1"],
            _ if returned.starts_with("Result<(), ") => &[" Ok(())"],
            _ if returned.starts_with("Result<") && !returned.contains(", ") => &[REFUSED],
            _ if returned.starts_with("Option<") => &[" None"],
            _ => &[],
        };
        for value in values {
            self.found.return_at_once(body, format!("return{value}"));
        }
    }

    fn arm(&mut self, node: Node<'a>) {
        let pattern = node.child_by_field_name("pattern");
        if let Some(condition) = pattern.and_then(|pattern| pattern.child_by_field_name("condition")) {
            self.condition(condition);
            self.visit(condition);
        }
        let Some(value) = node.child_by_field_name("value") else { return };
        if is_in(value.kind(), "call_expression block") && !children(value).is_empty() {
            self.found.instead(value, "skip arm", "()".to_string());
        }
        self.visit(value);
    }

    fn call(&mut self, node: Node<'a>) {
        let Some(function) = node.child_by_field_name("function") else { return };
        let is_method = function.kind() == "field_expression";
        let name = match function.kind() {
            "field_expression" => self.source.field(function, "field"),
            "scoped_identifier" => self.source.field(function, "name"),
            _ => "",
        };
        let methods: Vec<_> = METHODS.split_whitespace().collect();
        let known = methods.iter().position(|method| is_method && *method == name);
        if let Some(index) = known {
            let other = methods[index ^ 1];
            let (receiver, arguments) =
                (self.source.field(function, "value"), self.source.field(node, "arguments"));
            self.found.instead(node, "method", format!("{receiver}.{other}{arguments}"));
        } else if PREDICATES.split(' ').any(|start| name.starts_with(start)) && !is_negated(node) {
            self.negate(node);
        }
        if !is_in(function.kind(), "scoped_identifier identifier generic_function") {
            self.visit(function);
        }
        self.visit_fields(node, "arguments");
    }

    fn expression(&mut self, node: Node<'a>) {
        let condition = node.child_by_field_name("condition");
        match node.kind() {
            "if_expression" => {
                if let Some(condition) = condition {
                    self.condition(condition);
                }
            }
            "while_expression" => {
                if let Some(condition) = condition.filter(|condition| !is_let(*condition)) {
                    self.found.instead(condition, "never loop", "false".to_string());
                }
            }
            "binary_expression" | "compound_assignment_expr" => {
                if node.child_by_field_name("left").is_none_or(|left| left.kind() != "let_condition") {
                    self.found.operator(node);
                }
            }
            _ => self.found.expression(node, "kernel::error::code::"),
        }
    }

    fn condition(&mut self, node: Node<'a>) {
        if !is_let(node) {
            self.found.condition(node);
        }
    }
}

/// Returns true if a statement of a block drops the value that the end of the block drops first anyway.
fn is_dropped_anyway(source: &Source, node: Node<'_>, all: &[Node<'_>]) -> bool {
    let is_last = all.last().is_some_and(|last| last.id() == node.id());
    let newest = all.iter().rev().find(|statement| statement.kind() == "let_declaration");
    let name = newest.map_or("", |newest| source.field(*newest, "pattern"));
    is_last && source.at(node) == format!("drop({name});")
}

fn does_something(source: &Source, node: Node<'_>) -> bool {
    let kinds =
        "call_expression try_expression assignment_expression compound_assignment_expr return_expression
        break_expression continue_expression for_expression while_expression";
    match node.kind() {
        "expression_statement" => first_child(node).is_some_and(|inner| is_in(inner.kind(), kinds)),
        "call_expression" => !is_in(source.field(node, "function"), "Ok Err Some"),
        "try_expression" | "for_expression" | "while_expression" => true,
        "let_declaration" => source.field(node, "pattern") == "_",
        _ => false,
    }
}

pub fn is_const(source: &Source, function: Node<'_>) -> bool {
    let modifiers = children(function).into_iter().find(|child| child.kind() == "function_modifiers");
    modifiers.is_some_and(|modifiers| source.at(modifiers).contains("const"))
}

fn is_let(condition: Node<'_>) -> bool {
    is_in(condition.kind(), "let_condition let_chain")
}

/// Returns true for statements that only continue with the next one.
fn is_simple(node: Node<'_>) -> bool {
    let inner = if node.kind() == "expression_statement" { first_child(node) } else { Some(node) };
    let kinds =
        "call_expression try_expression assignment_expression compound_assignment_expr let_declaration";
    inner.is_some_and(|inner| is_in(inner.kind(), kinds))
}

/// Returns true if another fault of the parent node equals negating this node.
fn is_negated(node: Node<'_>) -> bool {
    node.parent().is_some_and(|parent| match parent.kind() {
        "unary_expression" | "match_pattern" => true,
        "if_expression" => parent.child_by_field_name("condition").is_some_and(|c| c.id() == node.id()),
        _ => false,
    })
}
