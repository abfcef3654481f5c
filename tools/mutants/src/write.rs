// SPDX-License-Identifier: GPL-2.0
//! The copy of the driver in which each fault stands beside what it replaces.

use crate::find::{Place, Site};
use crate::tree::Source;
use anyhow::Context;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use tree_sitter::Node;

/// What the copy's file `mutants.json` tells of it.
#[derive(Serialize)]
struct Manifest<'a> {
    sites: &'a [Site],
    /// For each file of the copy, which of its bytes belong to which faults.
    regions: BTreeMap<&'a str, Vec<Region>>,
}

#[derive(Serialize)]
struct Region {
    start: usize,
    end: usize,
    numbers: Vec<u32>,
    /// Whether this is a function with all that is in it.
    is_function: bool,
}

/// Writes the copy. A file whose text stays the same is left alone, and so is what was built of it.
pub fn copy(
    mut files: BTreeMap<String, String>,
    to: &Path,
    sources: &[Source],
    sites: &[Site],
) -> anyhow::Result<()> {
    let mut regions = BTreeMap::new();
    for source in sources {
        let mut writer = Writer::new(source, sites.iter().filter(|site| site.file == source.path));
        if source.is_c {
            let to_root = "../".repeat(source.path.matches('/').count());
            writer.text += &format!("#include \"{to_root}drivers/android/rust_binder_mutant.h\"\n");
        }
        writer.node(source.tree.root_node());
        files.insert(source.path.clone(), writer.text);
        regions.insert(source.path.as_str(), writer.regions);
    }
    add_switch(&mut files, sites.iter().map(|site| site.number).max().unwrap_or(0))?;
    files.insert("mutants.json".to_string(), serde_json::to_string(&Manifest { sites, regions })?);
    for (name, text) in &files {
        let path = to.join(name);
        if std::fs::read_to_string(&path).ok().as_ref() != Some(text) {
            std::fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
    }
    Ok(())
}

/// Adds the switch to the driver and to the host's tests.
fn add_switch(files: &mut BTreeMap<String, String>, last: u32) -> anyhow::Result<()> {
    for (name, text) in [
        ("drivers/android/mutant.rs", include_str!("../switch/mutant.rs")),
        ("drivers/android/rust_binder_mutant.c", include_str!("../switch/rust_binder_mutant.c")),
        ("drivers/android/rust_binder_mutant.h", include_str!("../switch/rust_binder_mutant.h")),
        ("tests/host/rooms/src/mutant.rs", include_str!("../switch/host.rs")),
    ] {
        files.insert(name.to_string(), text.replace("@LAST@", &last.to_string()));
    }
    for (name, old, new) in [
        (
            "drivers/android/Makefile.rust_binder",
            "binder_rust-y := \\\n",
            "rustflags-y += --error-format=json\nbinder_rust-y := \\\n\trust_binder_mutant.o\t\\\n",
        ),
        (
            "tests/host/rooms/src/lib.rs",
            "#[cfg(test)]\nmod tests;\n",
            "mod mutant;\n#[cfg(test)]\nmod tests;\n",
        ),
    ] {
        let text = files.get_mut(name).with_context(|| format!("there is no {name}"))?;
        anyhow::ensure!(text.matches(old).count() == 1, "{name} does not have once: {old}");
        *text = text.replace(old, new);
    }
    // At the end, so that the places of the faults in that file stay what they are.
    let root = files.get_mut("drivers/android/rust_binder.rs").context("there is no rust_binder.rs")?;
    *root += "\n#[allow(unsafe_code)]\nmod mutant;\n";
    Ok(())
}

struct Writer<'a> {
    source: &'a Source,
    /// By the node at which they stand.
    sites: HashMap<usize, Vec<&'a Site>>,
    text: String,
    regions: Vec<Region>,
}

impl<'a> Writer<'a> {
    fn new(source: &'a Source, mine: impl Iterator<Item = &'a Site>) -> Self {
        let mut sites = HashMap::<_, Vec<_>>::new();
        for site in mine {
            sites.entry(site.node).or_default().push(site);
        }
        Self { source, sites, text: String::new(), regions: Vec::new() }
    }

    fn at(&self, node: Node<'_>, place: Place) -> Vec<&'a Site> {
        let here = self.sites.get(&node.id()).into_iter().flatten();
        here.filter(|site| site.place == place).copied().collect()
    }

    /// A node with all that is wrong with it.
    fn node(&mut self, node: Node<'a>) {
        let around = self.open_around(node);
        let sites = self.at(node, Place::Instead);
        if sites.is_empty() {
            self.parts(node);
        } else {
            let (start, numbers) = (self.text.len(), numbers(&sites));
            self.text.push('(');
            for site in &sites {
                let test = self.is(site);
                self.text += &if self.source.is_c { format!("{test} ? (") } else { format!("if {test} {{ ") };
                self.marked(site);
                self.text += if self.source.is_c { ") : " } else { " } else " };
            }
            self.text += if self.source.is_c { "(" } else { "{ " };
            self.parts(node);
            self.text += if self.source.is_c { "))" } else { " })" };
            self.region(start, numbers);
        }
        self.text += around;
    }

    /// Faults in place of all of a statement or block, with the beginning of what is there else. Returns its end.
    fn open_around(&mut self, node: Node<'a>) -> &'static str {
        let sites = self.at(node, Place::Around);
        if sites.is_empty() {
            return "";
        }
        self.text += "{ ";
        for site in sites {
            self.test(&self.is(site));
            self.text += "{ ";
            self.marked(site);
            self.text += " } else ";
        }
        self.text += "{ ";
        " } }"
    }

    /// The parts of a node, and what stands between them.
    fn parts(&mut self, node: Node<'a>) {
        let start = self.text.len();
        let mut here = node.start_byte();
        let mut cursor = node.walk();
        let all: Vec<_> = node.children(&mut cursor).collect();
        // Who swaps with the statement before.
        let mut swapped = None;
        let mut is_body_open = false;
        for child in all {
            self.text.push_str(&self.source.text[here..child.start_byte()]);
            here = child.end_byte();
            if std::mem::take(&mut is_body_open) {
                self.first(node);
            }
            let is_statement = child.is_named() && !child.kind().contains("comment");
            if is_statement && matches!(node.kind(), "block" | "compound_statement") {
                swapped = self.statement(child, swapped);
            } else {
                self.node(child);
            }
            is_body_open = child.kind() == "{" && !self.at(node, Place::First).is_empty();
        }
        self.text.push_str(&self.source.text[here..node.end_byte()]);
        if matches!(node.kind(), "function_item" | "function_definition") {
            let inside = self.regions.iter().filter(|region| region.start >= start);
            let mut numbers: Vec<u32> = inside.flat_map(|region| region.numbers.clone()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            self.regions.push(Region { start, end: self.text.len(), numbers, is_function: true });
        }
    }

    /// Returns at the start of a body.
    fn first(&mut self, body: Node<'a>) {
        for site in self.at(body, Place::First) {
            let start = self.text.len();
            self.text.push(' ');
            self.test(&self.is(site));
            self.text += &format!("{{ {} }} ", site.text);
            self.region(start, vec![site.number]);
        }
    }

    /// A statement that may be left out, or come after the next. Gives the second of these faults.
    fn statement(&mut self, node: Node<'a>, before: Option<&'a Site>) -> Option<&'a Site> {
        let dropped = self.at(node, Place::Dropped).first().copied();
        let swaps = self.at(node, Place::Swapped).first().copied();
        let absent: Vec<_> = dropped.into_iter().chain(before).collect();
        if absent.is_empty() && swaps.is_none() {
            self.node(node);
            return None;
        }
        let start = self.text.len();
        self.text += "{ ";
        if let Some(site) = swaps {
            self.test(&self.is(site));
            self.text += "{ ";
            self.marked(site);
            self.text += " } else ";
        }
        if !absent.is_empty() {
            let tests: Vec<_> = absent.iter().map(|site| format!("!{}", self.is(site))).collect();
            self.test(&tests.join(" && "));
        }
        self.text += "{ ";
        self.node(node);
        self.text += " } }";
        self.region(start, numbers(&absent.into_iter().chain(swaps).collect::<Vec<_>>()));
        swaps
    }

    fn is(&self, site: &Site) -> String {
        let function = if self.source.is_c { "rust_binder_mutant_is" } else { "crate::mutant::is" };
        format!("{function}({})", site.number)
    }

    fn test(&mut self, condition: &str) {
        self.text +=
            &if self.source.is_c { format!("if ({condition}) ") } else { format!("if {condition} ") };
    }

    /// What a fault writes.
    fn marked(&mut self, site: &Site) {
        let start = self.text.len();
        self.text += &site.text;
        self.region(start, vec![site.number]);
    }

    fn region(&mut self, start: usize, numbers: Vec<u32>) {
        self.regions.push(Region { start, end: self.text.len(), numbers, is_function: false });
    }
}

fn numbers(sites: &[&Site]) -> Vec<u32> {
    sites.iter().map(|site| site.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site;

    fn written(path: &str, text: &str) -> String {
        let sources = [Source::new(path, text.into())];
        let sites = site::numbered(&sources);
        let mut writer = Writer::new(&sources[0], sites.iter());
        writer.node(sources[0].tree.root_node());
        for region in &writer.regions {
            assert!(region.start < region.end && region.end <= writer.text.len());
        }
        writer.text
    }

    #[test]
    fn what_is_written_can_be_read() {
        for (path, text) in [
            (
                "a.rs",
                "fn f(a: u32) -> bool { // first\n g(a + 1)?; h(); if !a.is_new() { return i(); } j() == 3 }",
            ),
            ("a.c", "int f(int a) { int b = 2; g(a); h(b); if (a && b < 3) return -EINVAL; return b; }"),
        ] {
            let written = written(path, text);
            assert!(!Source::new(path, written.clone()).tree.root_node().has_error(), "{written}");
        }
    }

    #[test]
    fn what_was_written_by_hand_stands_around_the_rest() {
        let sources = [Source::new("a.rs", "fn f() { g(); h(1) }".into())];
        let wanted = r#"[{"name": "a", "edits": [["a.rs", "h(1)", "i()"]]}, {"name": "b", "edits": [["a.rs", "g();", ""]]}]"#;
        let sites = site::by_hand(&sources, &serde_json::from_str::<Vec<_>>(wanted).unwrap(), 6).unwrap();
        let mut writer = Writer::new(&sources[0], sites.iter());
        writer.node(sources[0].tree.root_node());
        let wanted = "fn f() { { if crate::mutant::is(8) {  } else { g(); } } \
            { if crate::mutant::is(7) { i() } else { h(1) } } }";
        assert_eq!(writer.text, wanted);
    }

    #[test]
    fn statements_that_change_places_run_once_each() {
        let written = written("a.rs", "fn f() { g(); h(); }");
        let bare: String = written.split_whitespace().collect();
        assert!(bare.contains("ifcrate::mutant::is(3){h();g();}elseif!crate::mutant::is(2){g();}"), "{bare}");
        assert!(bare.contains("if!crate::mutant::is(4)&&!crate::mutant::is(3){h();}"), "{bare}");
    }
}
