// SPDX-License-Identifier: GPL-2.0
//! The faults of a source as they are found, and the operators that C and Rust share.

use crate::tree::Source;
use serde::Serialize;
use tree_sitter::Node;

/// How a fault stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In place of an expression.
    Instead,
    /// A statement is left out.
    Dropped,
    /// A statement and the next one change places.
    Swapped,
    /// Before the first statement of a body.
    First,
    /// In place of a statement or block, with all that is in it.
    Around,
}

/// A fault: where it is and what it does.
#[derive(Clone, Debug, Serialize)]
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
    /// The mutated text as it is written.
    #[serde(skip)]
    pub text: String,
}

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
            let (file, line) = (self.source.path.clone(), node.start_position().row + 1);
            let (number, key, node) = (0, String::new(), node.id());
            let (original, mutated) = (plain(&original), plain(&text));
            self.sites.push(Site {
                number,
                key,
                file,
                line,
                function,
                operator,
                original,
                mutated,
                node,
                place,
                text,
            });
        }
    }

    pub fn drop_statement(&mut self, node: Node<'a>) {
        self.add(node, Place::Dropped, "drop statement", self.source.at(node).to_string(), String::new());
    }

    pub fn return_at_once(&mut self, body: Node<'a>, value: String) {
        self.add(body, Place::First, "return at once", String::new(), value);
    }

    /// Two statements that change places, unless both set something and call nothing.
    pub fn swap_statements(&mut self, node: Node<'a>, next: Node<'a>) {
        let (text, next) = (self.source.at(node), self.source.at(next));
        if text.contains('(') || next.contains('(') {
            let swapped = format!("{}; {};", next.trim_end_matches(';'), text.trim_end_matches(';'));
            self.add(node, Place::Swapped, "swap statements", format!("{text} {next}"), swapped);
        }
    }

    /// A condition that is turned round, unless another operator does the same to it.
    pub fn condition(&mut self, node: Node<'a>) {
        let is_covered = matches!(self.source.field(node, "operator"), "==" | "!=" | "!");
        if !is_covered && (self.source.is_c || !self.source.at(node).starts_with('!')) {
            self.instead(node, "negate condition", format!("!({})", self.source.at(node)));
        }
    }

    /// Another errno, whose name begins with `path`.
    pub fn errno(&mut self, node: Node<'a>, path: &str) {
        let name = self.source.at(node);
        if is_errno(name) {
            let other = if name == "EINVAL" { "EPERM" } else { "EINVAL" };
            self.instead(node, "errno", format!("{path}{other}"));
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

/// Whether a word is one of those in a list with spaces between them.
pub fn is_in(word: &str, list: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

fn is_errno(text: &str) -> bool {
    let known = text.len() > 2 && text.starts_with('E');
    known && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}
