// SPDX-License-Identifier: GPL-2.0
//! The operators on Rust: what can be wrong with an expression, a statement, a function.

use crate::enums::Enums;
use crate::same;
use crate::site::{Fault, Place};
use crate::tree::{children, Source};
use tree_sitter::Node;

/// Whose contents mean other things at compile time than the text of a function.
const CLOSED: &[&str] = &[
    "const_item",
    "static_item",
    "attribute_item",
    "inner_attribute_item",
    "enum_item",
    "struct_item",
    "union_item",
    "type_item",
    "use_declaration",
    "macro_definition",
    "macro_invocation",
    "const_block",
    "parameters",
    "type_arguments",
    "type_parameters",
    "array_type",
    "line_comment",
    "block_comment",
];

/// Methods that are easily taken for each other.
const METHODS: &[(&str, &str)] = &[
    ("min", "max"),
    ("max", "min"),
    ("any", "all"),
    ("all", "any"),
    ("first", "last"),
    ("last", "first"),
    ("push_back", "push_front"),
    ("push_front", "push_back"),
    ("pop_front", "pop_back"),
    ("pop_back", "pop_front"),
    ("take_first", "take_last"),
    ("take_last", "take_first"),
    ("notify_all", "notify_one"),
    ("is_some", "is_none"),
    ("is_none", "is_some"),
    ("is_ok", "is_err"),
    ("is_err", "is_ok"),
    ("fetch_add", "fetch_sub"),
    ("fetch_sub", "fetch_add"),
];

/// How methods are called that answer yes or no.
const PREDICATES: &[&str] =
    &["is_", "has_", "wants_", "contains", "starts_with", "ptr_eq", "accepts_", "exceeds_"];

/// All faults of a source, in the order of the text.
pub fn faults(source: &Source, enums: &Enums) -> Vec<Fault> {
    let mut walk = Walk { source, enums, found: Vec::new(), function: None, of_type: String::new() };
    walk.visit(source.tree.root_node());
    walk.found
}

struct Walk<'a> {
    source: &'a Source,
    enums: &'a Enums,
    found: Vec<Fault>,
    /// The function that is being read, outside of which nothing is broken.
    function: Option<String>,
    /// The type whose functions these are.
    of_type: String,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, node: Node<'a>) {
        if CLOSED.contains(&node.kind()) {
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
            "let_declaration" => {
                self.visit_fields(node, &["value", "alternative"]);
            }
            "let_condition" | "field_expression" | "type_cast_expression" => {
                self.visit_fields(node, &["value"])
            }
            "for_expression" => self.visit_fields(node, &["value", "body"]),
            "closure_expression" => self.visit_fields(node, &["body"]),
            "field_initializer" => self.visit_fields(node, &["value"]),
            "match_arm" => self.arm(node),
            "array_expression" => {
                let length = node.child_by_field_name("length").map(|length| length.id());
                self.visit_all(
                    children(node).into_iter().filter(|child| Some(child.id()) != length).collect(),
                );
            }
            "call_expression" => self.call(node),
            _ => {
                self.expression(node);
                if node.kind() == "block" {
                    self.statements(node);
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

    fn visit_fields(&mut self, node: Node<'a>, names: &[&str]) {
        for name in names {
            if let Some(field) = node.child_by_field_name(name) {
                self.visit(field);
            }
        }
    }

    /// What cannot be read; all that can be wrong with `matches!` is its answer.
    fn closed(&mut self, node: Node<'a>) {
        let is_matches = node.kind() == "macro_invocation" && self.source.field(node, "macro") == "matches";
        if is_matches && !is_negated(node) {
            self.instead(node, "negate condition", format!("!{}", self.source.at(node)));
        }
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
        let modifiers = children(node).into_iter().find(|child| child.kind() == "function_modifiers");
        let is_const = modifiers.is_some_and(|modifiers| self.source.at(modifiers).contains("const"));
        let Some(body) = node.child_by_field_name("body").filter(|_| !is_const) else {
            return;
        };
        let name = self.source.field(node, "name");
        let name =
            if self.of_type.is_empty() { name.to_string() } else { format!("{}::{name}", self.of_type) };
        let outer = self.function.replace(name);
        if !children(body).is_empty() {
            self.early_returns(body, self.source.field(node, "return_type").trim());
        }
        self.visit(body);
        self.function = outer;
    }

    /// A function that returns at once, with what its type allows.
    fn early_returns(&mut self, body: Node<'a>, returned: &str) {
        let values: Vec<String> = match returned {
            "" => vec!["".into()],
            "bool" => vec!["true".into(), "false".into()],
            "Result" | "Result<()>" => vec!["Ok(())".into(), "Err(kernel::error::code::EPERM)".into()],
            "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" | "isize" | "c_int" => {
                vec!["0".into(), "1".into()]
            }
            _ if returned.starts_with("Result<(), ") => vec!["Ok(())".into()],
            _ if returned.starts_with("Result<") && !returned.contains(", ") => {
                vec!["Err(kernel::error::code::EPERM)".into()]
            }
            _ if returned.starts_with("Option<") => vec!["None".into()],
            _ => {
                let variant = self.enums.first(&self.source.path, returned);
                variant.map(|variant| format!("{returned}::{variant}")).into_iter().collect()
            }
        };
        for value in values {
            let text = format!("return {value}").trim_end().to_string();
            self.add(body, Place::First, "return at once", String::new(), text);
        }
    }

    fn arm(&mut self, node: Node<'a>) {
        if let Some(condition) =
            node.child_by_field_name("pattern").and_then(|p| p.child_by_field_name("condition"))
        {
            self.condition(condition);
            self.visit(condition);
        }
        let Some(value) = node.child_by_field_name("value") else {
            return;
        };
        if matches!(value.kind(), "call_expression" | "block") && !children(value).is_empty() {
            self.instead(value, "skip arm", "()".to_string());
        }
        self.visit(value);
    }

    fn call(&mut self, node: Node<'a>) {
        let Some(function) = node.child_by_field_name("function") else {
            return;
        };
        let name = match function.kind() {
            "field_expression" => self.source.field(function, "field"),
            "scoped_identifier" => self.source.field(function, "name"),
            _ => "",
        };
        let other =
            METHODS.iter().find(|(this, _)| *this == name).filter(|_| function.kind() == "field_expression");
        if let Some((_, other)) = other {
            let receiver = self.source.field(function, "value");
            self.instead(
                node,
                "method",
                format!("{receiver}.{other}{}", self.source.field(node, "arguments")),
            );
        } else if PREDICATES.iter().any(|start| name.starts_with(start)) && !is_negated(node) {
            self.instead(node, "negate condition", format!("!{}", self.source.at(node)));
        }
        if !matches!(function.kind(), "scoped_identifier" | "identifier" | "generic_function") {
            self.visit(function);
        }
        self.visit_fields(node, &["arguments"]);
    }

    fn expression(&mut self, node: Node<'a>) {
        let text = self.source.at(node);
        match node.kind() {
            "if_expression" => {
                if let Some(condition) = node.child_by_field_name("condition") {
                    self.condition(condition);
                }
            }
            "while_expression" => {
                let condition = node.child_by_field_name("condition");
                if let Some(condition) =
                    condition.filter(|c| !matches!(c.kind(), "let_condition" | "let_chain"))
                {
                    self.instead(condition, "never loop", "false".to_string());
                }
            }
            "binary_expression" | "compound_assignment_expr" => self.operator(node),
            "unary_expression" if text.starts_with('!') || text.starts_with('-') => {
                self.instead(node, "drop sign", text[1..].to_string());
            }
            "integer_literal" => self.instead(node, "off by one", format!("({text} + 1)")),
            "boolean_literal" => {
                let other = if text == "true" { "false" } else { "true" };
                self.instead(node, "boolean", other.to_string());
            }
            "identifier" if is_errno(text) => {
                let other = if text == "EINVAL" { "EPERM" } else { "EINVAL" };
                self.instead(node, "errno", format!("kernel::error::code::{other}"));
            }
            "scoped_identifier" => self.variant(node),
            _ => {}
        }
    }

    fn condition(&mut self, node: Node<'a>) {
        let operator = self.source.field(node, "operator");
        let is_covered = matches!(operator, "==" | "!=") || self.source.at(node).starts_with('!');
        if !matches!(node.kind(), "let_condition" | "let_chain") && !is_covered {
            self.instead(node, "negate condition", format!("!({})", self.source.at(node)));
        }
    }

    fn operator(&mut self, node: Node<'a>) {
        let operator = self.source.field(node, "operator");
        let (kind, other) = match operator {
            "==" => ("comparison", "!="),
            "!=" => ("comparison", "=="),
            "<" => ("comparison", "<="),
            "<=" => ("comparison", "<"),
            ">" => ("comparison", ">="),
            ">=" => ("comparison", ">"),
            "&&" => ("logic", "||"),
            "||" => ("logic", "&&"),
            "+" => ("arithmetic", "-"),
            "-" => ("arithmetic", "+"),
            "*" | "/" => ("arithmetic", "+"),
            "%" => ("arithmetic", "/"),
            "&" => ("arithmetic", "|"),
            "|" => ("arithmetic", "&"),
            "<<" => ("arithmetic", ">>"),
            ">>" => ("arithmetic", "<<"),
            "+=" => ("arithmetic", "-="),
            "-=" => ("arithmetic", "+="),
            "|=" => ("arithmetic", "&="),
            "&=" => ("arithmetic", "|="),
            _ => return,
        };
        if node.child_by_field_name("left").is_some_and(|left| left.kind() == "let_condition") {
            return;
        }
        let (left, right) = (self.source.field(node, "left"), self.source.field(node, "right"));
        self.instead(node, kind, format!("{left} {other} {right}"));
    }

    fn variant(&mut self, node: Node<'a>) {
        let (path, name) = (self.source.field(node, "path"), self.source.field(node, "name"));
        let of_enum = match path.rsplit("::").next() {
            Some("Self") => self.of_type.as_str(),
            Some(last) => last,
            None => return,
        };
        if let Some(other) = self.enums.other(&self.source.path, of_enum, name) {
            self.instead(node, "variant", format!("{path}::{other}"));
        }
    }

    /// The statements of a block: each that does something may be left out, or come after the next.
    fn statements(&mut self, block: Node<'a>) {
        let all = children(block);
        for (index, node) in all.iter().enumerate() {
            if !self.does_something(*node) {
                continue;
            }
            let text = self.source.at(*node);
            if !same::is_dropped_anyway(self.source, *node, &all) {
                self.add(*node, Place::Dropped, "drop statement", text.to_string(), String::new());
            }
            let next = all.get(index + 1).filter(|next| is_simple(**next) && self.does_something(**next));
            let next =
                next.filter(|next| is_simple(*node) && !same::are_independent(self.source, *node, **next));
            if let Some(next) = next {
                let next = self.source.at(*next);
                let swapped = format!("{}; {};", next.trim_end_matches(';'), text.trim_end_matches(';'));
                self.add(*node, Place::Swapped, "swap statements", format!("{text} {next}"), swapped);
            }
        }
    }

    fn does_something(&self, node: Node<'_>) -> bool {
        match node.kind() {
            "expression_statement" => children(node).first().is_some_and(|inner| {
                matches!(
                    inner.kind(),
                    "call_expression"
                        | "try_expression"
                        | "assignment_expression"
                        | "compound_assignment_expr"
                        | "return_expression"
                        | "break_expression"
                        | "continue_expression"
                        | "for_expression"
                        | "while_expression"
                )
            }),
            "call_expression" => !matches!(self.source.field(node, "function"), "Ok" | "Err" | "Some"),
            "try_expression" | "for_expression" | "while_expression" => true,
            "let_declaration" => self.source.field(node, "pattern") == "_",
            _ => false,
        }
    }

    fn instead(&mut self, node: Node<'a>, operator: &'static str, mutated: String) {
        self.add(node, Place::Instead, operator, self.source.at(node).to_string(), mutated);
    }

    fn add(
        &mut self,
        node: Node<'a>,
        place: Place,
        operator: &'static str,
        original: String,
        mutated: String,
    ) {
        if let Some(function) = self.function.clone() {
            let line = node.start_position().row + 1;
            self.found.push(Fault { node: node.id(), place, operator, function, line, original, mutated });
        }
    }
}

/// Statements that only go on to the next.
fn is_simple(node: Node<'_>) -> bool {
    let inner =
        if node.kind() == "expression_statement" { children(node).first().copied() } else { Some(node) };
    let kinds = [
        "call_expression",
        "try_expression",
        "assignment_expression",
        "compound_assignment_expr",
        "let_declaration",
    ];
    inner.is_some_and(|inner| kinds.contains(&inner.kind()))
}

/// Whether another fault of the place above it is the same as negating it.
fn is_negated(node: Node<'_>) -> bool {
    node.parent().is_some_and(|parent| match parent.kind() {
        "unary_expression" => true,
        "if_expression" => parent.child_by_field_name("condition").is_some_and(|c| c.id() == node.id()),
        "match_pattern" => true,
        _ => false,
    })
}

fn is_errno(text: &str) -> bool {
    let known = text.len() > 2 && text.starts_with('E');
    known && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&'static str, String)> {
        let source = Source::rust("a.rs", text);
        let enums = Enums::of(std::slice::from_ref(&source));
        faults(&source, &enums).into_iter().map(|fault| (fault.operator, fault.mutated)).collect()
    }

    #[track_caller]
    fn has(text: &str, operator: &str, mutated: &str) {
        let found = found(text);
        assert!(found.iter().any(|(o, m)| *o == operator && m == mutated), "{found:?}");
    }

    #[test]
    fn expressions() {
        has("fn f(a: u32) { if a < 2 { g() } }", "comparison", "a <= 2");
        has("fn f(a: bool) { if a { g() } }", "negate condition", "!(a)");
        has("fn f(a: T) { h(a.is_new()) }", "negate condition", "!a.is_new()");
        has("fn f() -> u32 { 4 }", "off by one", "(4 + 1)");
        has("fn f() -> Result { Err(EINVAL) }", "errno", "kernel::error::code::EPERM");
        has("enum E { A, B(u8), C } fn f() { g(E::C) }", "variant", "E::A");
        has("enum E { A, C } impl E { fn f() -> E { Self::A } }", "variant", "Self::C");
        has("fn f(q: Q) { q.push_back(1); }", "method", "q.push_front(1)");
    }

    #[test]
    fn statements_and_functions() {
        has("fn f() { g(); h(); }", "drop statement", "");
        has("fn f() { g(); h(); }", "swap statements", "h(); g();");
        has("fn f() { a = 1; b = a; }", "swap statements", "b = a; a = 1;");
        has("fn f() -> Option<u8> { g() }", "return at once", "return None");
        has("fn f() -> bool { g() }", "return at once", "return false");
        has("fn f(a: u8) { match a { 1 => g(), _ => h() } }", "skip arm", "()");
    }

    #[test]
    fn what_is_known_when_it_is_compiled_stays() {
        assert!(found("const A: u32 = 1 + 2; static B: [u8; 3] = [0; 3];").is_empty());
        assert!(found("const fn f() -> bool { 1 < 2 }").is_empty());
        assert!(found("#[cfg(test)] mod t { fn f() -> bool { 1 < 2 } }").is_empty());
        let literals = found("fn f(a: T) { match a.0 { 1 => {} _ => {} } }");
        assert!(literals.iter().all(|(operator, _)| *operator != "off by one"), "{literals:?}");
    }
}
