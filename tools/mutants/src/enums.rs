// SPDX-License-Identifier: GPL-2.0
//! Which variants the enums of the driver have.

use crate::tree::{children, Language, Source};
use std::collections::HashMap;
use tree_sitter::Node;

/// The variants without data of each enum, by file and name.
pub struct Enums(HashMap<(String, String), Vec<String>>);

impl Enums {
    pub fn of(sources: &[Source]) -> Self {
        let mut enums = HashMap::new();
        for source in sources.iter().filter(|source| source.language == Language::Rust) {
            collect_enums(source, source.tree.root_node(), &mut enums);
        }
        Self(enums)
    }

    /// What else `name::variant` could have been.
    pub fn other(&self, file: &str, name: &str, variant: &str) -> Option<&str> {
        let here = self.0.get(&(file.to_string(), name.to_string()));
        let variants = here.or_else(|| {
            let mut with_name = self.0.iter().filter(|((_, other), _)| other == name);
            let found = with_name.next()?;
            with_name.next().is_none().then_some(found.1)
        })?;
        let index = variants.iter().position(|known| known == variant)?;
        let next = &variants[(index + 1) % variants.len()];
        (next != variant).then_some(next)
    }

    /// The first variant of `name`.
    pub fn first(&self, file: &str, name: &str) -> Option<&str> {
        self.0.get(&(file.to_string(), name.to_string()))?.first().map(String::as_str)
    }
}

fn collect_enums(source: &Source, node: Node<'_>, enums: &mut HashMap<(String, String), Vec<String>>) {
    if node.kind() == "enum_item" {
        let body = node.child_by_field_name("body").map(children).unwrap_or_default();
        let unit =
            body.iter().filter(|v| v.kind() == "enum_variant" && v.child_by_field_name("body").is_none());
        let names = unit.map(|variant| source.field(*variant, "name").to_string()).collect();
        enums.insert((source.path.clone(), source.field(node, "name").to_string()), names);
    }
    for child in children(node) {
        collect_enums(source, child, enums);
    }
}
