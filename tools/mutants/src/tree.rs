// SPDX-License-Identifier: GPL-2.0
//! The driver's sources and their syntax trees.

use anyhow::Context;
use std::collections::BTreeMap;
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
const FOLDERS: &[&str] = &["drivers/android/", "rust/"];

/// Tests that run inside the kernel, and files that only print messages.
const NO_FAULTS: &[&str] = &["/tests", "debug.rs", "expect.rs"];

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

    /// Returns true if operators skip the file.
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

/// The files of the driver among all, in the order of their names.
pub fn sources(files: &BTreeMap<String, String>) -> Vec<Source> {
    let is_source = |name: &str| {
        FOLDERS.iter().any(|folder| name.starts_with(folder))
            && (name.ends_with(".rs") || name.ends_with(".c"))
    };
    files
        .iter()
        .filter(|file| is_source(file.0))
        .map(|(name, text)| Source::new(name, text.clone()))
        .collect()
}

/// Reads all files in a folder, but not what cargo or Miri has made there.
pub fn read_folder(root: &Path, folder: &str, files: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(root.join(folder)).with_context(|| format!("look into {folder}"))? {
        let entry = entry?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if !entry.file_type()?.is_dir() {
            let text = std::fs::read_to_string(entry.path()).with_context(|| format!("read {name}"))?;
            files.insert(name, text);
        } else if entry.file_name() != "target" {
            read_folder(root, &name, files)?;
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
