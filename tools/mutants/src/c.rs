// SPDX-License-Identifier: GPL-2.0
//! The operators on C. Nothing outside of functions is broken.

use crate::same::overlap;
use crate::site::{Fault, Place};
use crate::tree::{children, Source};
use tree_sitter::Node;

/// What the compiler has to know the value of.
const CLOSED: &[&str] = &[
    "case_statement",
    "array_declarator",
    "sizeof_expression",
    "preproc_def",
    "preproc_function_def",
    "preproc_include",
    "initializer_list",
    "comment",
    "type_descriptor",
    "ERROR",
];
const CHECKED_BY_COMPILER: &[&str] =
    &["BUILD_BUG_ON", "static_assert", "offsetof", "container_of", "min_t", "max_t"];

/// All faults of a source, in the order of the text.
pub fn faults(source: &Source) -> Vec<Fault> {
    let mut walk = Walk { source, found: Vec::new(), function: None };
    walk.visit(source.tree.root_node());
    walk.found
}

struct Walk<'a> {
    source: &'a Source,
    found: Vec<Fault>,
    function: Option<String>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, node: Node<'a>) {
        let called = self.source.field(node, "function");
        if CLOSED.contains(&node.kind()) || CHECKED_BY_COMPILER.contains(&called) {
            return;
        }
        if node.kind() == "function_definition" {
            return self.function(node);
        }
        if self.function.is_some() {
            self.expression(node);
            if node.kind() == "compound_statement" {
                self.statements(node);
            }
        }
        // A declaration's name is no expression.
        if matches!(node.kind(), "declaration" | "init_declarator") && self.function.is_some() {
            for value in children(node) {
                let is_value = node.kind() == "declaration" && value.kind() == "init_declarator";
                if is_value {
                    self.visit(value);
                }
            }
            if let Some(value) =
                node.child_by_field_name("value").filter(|_| node.kind() == "init_declarator")
            {
                self.visit(value);
            }
            return;
        }
        for child in children(node) {
            self.visit(child);
        }
    }

    fn function(&mut self, node: Node<'a>) {
        let Some(body) = node.child_by_field_name("body") else {
            return;
        };
        let declarator = self.source.field(node, "declarator");
        let name = declarator.split('(').next().unwrap_or("").trim();
        let is_pointer = name.contains('*');
        let outer =
            self.function.replace(name.trim_matches(|c: char| c == '*' || c.is_whitespace()).to_string());
        let returned = self.source.field(node, "type");
        let values: &[&str] = match returned {
            _ if children(body).is_empty() => &[],
            _ if is_pointer => &[" NULL"],
            "void" => &[""],
            "int" | "long" => &[" 0", " -EPERM"],
            "bool" => &[" true", " false"],
            "size_t" | "u32" | "u64" => &[" 0"],
            _ => &[],
        };
        for value in values {
            self.add(body, Place::First, "return at once", String::new(), format!("return{value};"));
        }
        self.visit(body);
        self.function = outer;
    }

    fn expression(&mut self, node: Node<'a>) {
        let text = self.source.at(node);
        match node.kind() {
            "if_statement" | "conditional_expression" => {
                if let Some(condition) = node.child_by_field_name("condition") {
                    self.condition(condition);
                }
            }
            "binary_expression" | "assignment_expression" => self.operator(node),
            "number_literal" => self.instead(node, "off by one", format!("{text} + 1")),
            "true" => self.instead(node, "boolean", "false".to_string()),
            "false" => self.instead(node, "boolean", "true".to_string()),
            "unary_expression" if text.starts_with('!') => {
                self.instead(node, "drop sign", format!("!!{}", &text[1..]));
            }
            "identifier" if is_errno(text) => {
                self.instead(node, "errno", if text == "EINVAL" { "EPERM" } else { "EINVAL" }.to_string());
            }
            _ => {}
        }
    }

    fn condition(&mut self, node: Node<'a>) {
        let inner = if node.kind() == "parenthesized_expression" {
            children(node).first().copied()
        } else {
            Some(node)
        };
        let Some(inner) = inner else {
            return;
        };
        let operator = self.source.field(inner, "operator");
        if !matches!(operator, "==" | "!=" | "!") {
            self.instead(inner, "negate condition", format!("!({})", self.source.at(inner)));
        }
    }

    fn operator(&mut self, node: Node<'a>) {
        let (kind, other) = match self.source.field(node, "operator") {
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
            "&" => ("arithmetic", "|"),
            "|" => ("arithmetic", "&"),
            "+=" => ("arithmetic", "-="),
            "-=" => ("arithmetic", "+="),
            _ => return,
        };
        let (left, right) = (self.source.field(node, "left"), self.source.field(node, "right"));
        self.instead(node, kind, format!("{left} {other} {right}"));
    }

    fn statements(&mut self, block: Node<'a>) {
        let all = children(block);
        for (index, node) in all.iter().enumerate() {
            let text = self.source.at(*node);
            if is_simple(*node)
                || matches!(node.kind(), "return_statement" | "goto_statement" | "break_statement")
            {
                self.add(*node, Place::Dropped, "drop statement", text.to_string(), String::new());
            }
            let next = all.get(index + 1).filter(|next| is_simple(**next) && is_simple(*node));
            let next = next.filter(|next| !self.are_independent(*node, **next));
            if let Some(next) = next.map(|next| self.source.at(*next)) {
                let (first, second) = (format!("{text} {next}"), format!("{next} {text}"));
                self.add(*node, Place::Swapped, "swap statements", first, second);
            }
        }
    }

    /// Whether two statements set variables or fields of different names, and neither reads what the other one
    /// sets: either order does the same.
    fn are_independent(&self, one: Node<'_>, other: Node<'_>) -> bool {
        let (Some((first, from_first)), Some((second, from_second))) =
            (self.assignment(one), self.assignment(other))
        else {
            return false;
        };
        let name = |text: &'a str| text.rsplit(['.', '>']).next().unwrap_or(text);
        let reads = |text: &str, name: &str| text.contains(name);
        name(first) != name(second)
            && !overlap(&first.replace("->", "."), &second.replace("->", "."))
            && ![first, from_first].iter().any(|text| reads(text, name(second)))
            && ![second, from_second].iter().any(|text| reads(text, name(first)))
    }

    /// What a statement sets, and from what, if it calls nothing and follows no pointer but to a field.
    fn assignment(&self, node: Node<'_>) -> Option<(&'a str, &'a str)> {
        let inner =
            children(node).first().copied().filter(|inner| inner.kind() == "assignment_expression")?;
        let (left, right) = (self.source.field(inner, "left"), self.source.field(inner, "right"));
        let is_plain = |text: &str| !text.contains(['(', '*', '[', '?', '{', '=']);
        (is_plain(left) && is_plain(right)).then_some((left, right))
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

fn is_simple(node: Node<'_>) -> bool {
    let kinds = ["call_expression", "assignment_expression", "update_expression"];
    let inner = children(node).first().copied();
    node.kind() == "expression_statement" && inner.is_some_and(|inner| kinds.contains(&inner.kind()))
}

fn is_errno(text: &str) -> bool {
    let known = text.len() > 2 && text.starts_with('E');
    known && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn has(text: &str, operator: &str, mutated: &str) {
        let found: Vec<_> =
            faults(&Source::c("a.c", text)).into_iter().map(|f| (f.operator, f.mutated)).collect();
        assert!(found.iter().any(|(o, m)| *o == operator && m == mutated), "{found:?}");
    }

    #[test]
    fn operators() {
        has("int f(int a) { if (a < 2) return -EINVAL; return 0; }", "comparison", "a <= 2");
        has("int f(int a) { if (a) return -EINVAL; return 0; }", "negate condition", "!(a)");
        has("int f(int a) { if (a) return -EINVAL; return 0; }", "errno", "EPERM");
        has("int f(void) { g(); h(); return 0; }", "swap statements", "h(); g();");
        has("int f(void) { a->b = c; d->b = e; return 0; }", "swap statements", "d->b = e; a->b = c;");
        has("int f(void) { a = c; d = a->b; return 0; }", "swap statements", "d = a->b; a = c;");
        let apart = faults(&Source::c("a.c", "int f(void) { a->b = c; a->d = &e; return 0; }"));
        assert!(apart.iter().all(|fault| fault.operator != "swap statements"), "{apart:?}");
        has("static void *f(void) { return g(); }", "return at once", "return NULL;");
        has("int f(void) { int a = 3; return a; }", "off by one", "3 + 1");
        assert!(faults(&Source::c("a.c", "static int a[4] = { 1 };\n#define B 3\n")).is_empty());
    }
}
