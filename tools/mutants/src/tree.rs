// SPDX-License-Identifier: GPL-2.0
//! The driver's sources and their syntax trees.

use anyhow::Context;
use std::path::Path;
use tree_sitter::{Node, Parser, Tree};

/// A file with its syntax tree.
pub struct Source {
    /// From the root of the repository.
    pub path: String,
    pub is_c: bool,
    pub text: String,
    pub tree: Tree,
}

/// Folders that have the driver.
pub const FOLDERS: &[&str] = &["drivers/android", "rust"];

/// Tests that run inside the kernel, and files that only print messages.
const NO_FAULTS: &[&str] = &["kunit.rs", "conformance", "/tests", "debug_mask.rs", "debug.rs", "expect.rs"];

impl Source {
    /// A file in C or Rust, by its name.
    pub fn new(path: &str, text: String) -> Self {
        let is_c = path.ends_with(".c");
        let grammar = if is_c { tree_sitter_c::LANGUAGE } else { tree_sitter_rust::LANGUAGE };
        let mut parser = Parser::new();
        parser.set_language(&grammar.into()).expect("a grammar of this version");
        let tree = parser.parse(&text, None).expect("no time limit was set");
        Self { path: path.to_string(), is_c, text, tree }
    }

    /// Whether operators leave the file alone.
    pub fn is_spared(&self) -> bool {
        NO_FAULTS.iter().any(|part| self.path.contains(part))
    }

    /// The text of a node.
    pub fn at(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// The text of one of the node's fields; nothing if it lacks the field.
    pub fn field(&self, node: Node<'_>, name: &str) -> &str {
        node.child_by_field_name(name).map_or("", |field| self.at(field))
    }
}

/// All files of the driver, in the order of their names.
pub fn sources(root: &Path) -> anyhow::Result<Vec<Source>> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        find(root, folder, &mut paths).with_context(|| format!("look into {folder}"))?;
    }
    paths.retain(|path| path.ends_with(".rs") || path.ends_with(".c"));
    paths.sort();
    let read = |path: String| -> anyhow::Result<Source> {
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| format!("read {path}"))?;
        Ok(Source::new(&path, text))
    };
    paths.into_iter().map(read).collect()
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

/// The first of these.
pub fn first_child(node: Node<'_>) -> Option<Node<'_>> {
    children(node).first().copied()
}
