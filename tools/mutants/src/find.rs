// SPDX-License-Identifier: GPL-2.0
//! The faults of a source as they are found, and the operators that C and Rust share.

use crate::tree::Source;
use serde::Serialize;
use tree_sitter::Node;

/// The form of a fault in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In place of an expression.
    #[default]
    Instead,
    /// In place of a statement, a body or another block, with all that is in it.
    Around,
}

/// A fault: its place and its text.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Site {
    /// The value of the module's parameter for it: 1 and above.
    pub number: u32,
    /// Made of the file, the function, and what the fault does: edits elsewhere leave it as it is.
    pub key: String,
    pub file: String,
    pub line: usize,
    pub function: String,
    pub operator: &'static str,
    /// The text that is replaced, and what replaces it, in one line each.
    pub original: String,
    pub mutated: String,
    /// The syntax tree's number of the expression, statement or body.
    #[serde(skip)]
    pub node: usize,
    #[serde(skip)]
    pub place: Place,
    /// A statement that is left out as well, as the mutated text has it.
    #[serde(skip)]
    pub absent: Option<usize>,
    /// The mutated text as it is written.
    #[serde(skip)]
    pub text: String,
}

/// The operator of faults that are written by hand.
pub const BY_HAND: &str = "by hand";

/// The faults found so far.
pub struct Found<'a> {
    pub source: &'a Source,
    pub sites: Vec<Site>,
    /// The function that is being read. Operators find faults in functions only.
    pub function: Option<String>,
}

impl<'a> Found<'a> {
    pub fn new(source: &'a Source) -> Self {
        Self { source, sites: Vec::new(), function: None }
    }

    pub fn instead(&mut self, node: Node<'a>, operator: &'static str, mutated: String) {
        self.add(node, Place::Instead, operator, self.source.at(node).to_string(), mutated);
    }

    /// Adds a fault that has no number and key yet.
    pub fn add(
        &mut self,
        node: Node<'a>,
        place: Place,
        operator: &'static str,
        original: String,
        text: String,
    ) {
        if let Some(function) = self.function.clone() {
            self.sites.push(Site {
                file: self.source.path.clone(),
                line: node.start_position().row + 1,
                function,
                operator,
                original: plain(&original),
                mutated: plain(&text),
                node: node.id(),
                place,
                text,
                ..Site::default()
            });
        }
    }

    pub fn return_at_once(&mut self, body: Node<'a>, value: String) {
        self.add(body, Place::Around, "return at once", String::new(), value);
    }

    /// The statements of a block: one may be left out, or come after the next, unless both set something and call nothing.
    pub fn statements(
        &mut self,
        all: &[Node<'a>],
        may_go: impl Fn(Node<'a>) -> bool,
        may_swap: impl Fn(Node<'a>) -> bool,
    ) {
        for (index, node) in all.iter().enumerate() {
            let text = self.source.at(*node);
            if may_go(*node) {
                self.add(*node, Place::Around, "drop statement", text.to_string(), String::new());
            }
            let Some(next) = all.get(index + 1).filter(|next| may_swap(*node) && may_swap(**next)) else {
                continue;
            };
            let (absent, next) = (next.id(), self.source.at(*next));
            if text.contains('(') || next.contains('(') {
                let swapped = format!("{}; {};", next.trim_end_matches(';'), text.trim_end_matches(';'));
                self.add(*node, Place::Around, "swap statements", format!("{text} {next}"), swapped);
                if let Some(site) = self.sites.last_mut() {
                    site.absent = Some(absent);
                }
            }
        }
    }

    /// Expressions that C and Rust write alike; the names of errnos begin with `path`.
    pub fn expression(&mut self, node: Node<'a>, path: &str) {
        let text = self.source.at(node);
        match node.kind() {
            "integer_literal" | "number_literal" => {
                self.instead(node, "off by one", format!("({text} + 1)"));
            }
            "boolean_literal" | "true" | "false" => {
                self.instead(node, "boolean", (text != "true").to_string());
            }
            "unary_expression" if text.starts_with(['!', '-']) => {
                self.instead(node, "drop sign", text[1..].to_string());
            }
            "identifier" if is_errno(text) => {
                let other = if text == "EINVAL" { "EPERM" } else { "EINVAL" };
                self.instead(node, "errno", format!("{path}{other}"));
            }
            _ => {}
        }
    }

    /// A condition that is turned round, unless another operator does the same to it.
    pub fn condition(&mut self, node: Node<'a>) {
        let is_covered = matches!(self.source.field(node, "operator"), "==" | "!=" | "!");
        if !is_covered && (self.source.is_c || !self.source.at(node).starts_with('!')) {
            self.instead(node, "negate condition", format!("!({})", self.source.at(node)));
        }
    }

    /// Another operator between the same operands.
    pub fn operator(&mut self, node: Node<'a>) {
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
            "-" | "*" | "/" => ("arithmetic", "+"),
            "&" => ("arithmetic", "|"),
            "|" => ("arithmetic", "&"),
            "+=" => ("arithmetic", "-="),
            "-=" => ("arithmetic", "+="),
            _ if self.source.is_c => return,
            "%" => ("arithmetic", "/"),
            "<<" => ("arithmetic", ">>"),
            ">>" => ("arithmetic", "<<"),
            "|=" => ("arithmetic", "&="),
            "&=" => ("arithmetic", "|="),
            _ => return,
        };
        let (left, right) = (self.source.field(node, "left"), self.source.field(node, "right"));
        self.instead(node, kind, format!("{left} {other} {right}"));
    }
}

/// A text in one line.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Returns true if a space-separated list contains a word.
pub fn is_in(word: &str, list: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

fn is_errno(text: &str) -> bool {
    let known = text.len() > 2 && text.starts_with('E');
    known && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}
