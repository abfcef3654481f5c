// SPDX-License-Identifier: GPL-2.0
//! The driver's sources and their syntax trees.

use anyhow::Context;
use std::path::Path;
use tree_sitter::{Node, Parser, Tree};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Rust,
    C,
}

/// A file with its syntax tree.
pub struct Source {
    /// From the root of the repository.
    pub path: String,
    pub language: Language,
    pub text: String,
    pub tree: Tree,
}

/// Folders that have the driver.
pub const FOLDERS: &[&str] = &["drivers/android", "rust"];

/// Tests that run inside the kernel, and what writes nothing but messages.
const NO_FAULTS: &[&str] = &["kunit.rs", "conformance", "/tests", "debug_mask.rs", "debug.rs", "expect.rs"];

impl Source {
    fn new(path: &str, text: String, language: Language) -> Self {
        let mut parser = Parser::new();
        let grammar = match language {
            Language::Rust => tree_sitter_rust::LANGUAGE,
            Language::C => tree_sitter_c::LANGUAGE,
        };
        parser.set_language(&grammar.into()).expect("a grammar of this version");
        let tree = parser.parse(&text, None).expect("no time limit was set");
        Self { path: path.to_string(), language, text, tree }
    }

    #[cfg(test)]
    pub fn rust(path: &str, text: &str) -> Self {
        Self::new(path, text.to_string(), Language::Rust)
    }

    #[cfg(test)]
    pub fn c(path: &str, text: &str) -> Self {
        Self::new(path, text.to_string(), Language::C)
    }

    /// What stands in the file at a node.
    pub fn at(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// The same for one of the node's fields, nothing if it has none.
    pub fn field(&self, node: Node<'_>, name: &str) -> &str {
        node.child_by_field_name(name).map_or("", |field| self.at(field))
    }
}

/// All files in which faults are put, in the order of their names.
pub fn sources(root: &Path) -> anyhow::Result<Vec<Source>> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        find(root, folder, &mut paths).with_context(|| format!("look into {folder}"))?;
    }
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let language = match path.rsplit_once('.') {
            Some((_, "rs")) => Language::Rust,
            Some((_, "c")) => Language::C,
            _ => continue,
        };
        if !NO_FAULTS.iter().any(|part| path.contains(part)) {
            let text = std::fs::read_to_string(root.join(&path)).with_context(|| format!("read {path}"))?;
            sources.push(Source::new(&path, text, language));
        }
    }
    Ok(sources)
}

fn find(root: &Path, folder: &str, paths: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            find(root, &path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

/// The named children of a node, comments left out.
pub fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    let all = node.named_children(&mut cursor);
    all.filter(|child| !child.kind().contains("comment")).collect()
}
