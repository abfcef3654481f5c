// SPDX-License-Identifier: GPL-2.0
//! The copy of the driver in which each fault stands beside what it replaces.

use crate::find::{Place, Site, BY_HAND};
use crate::tree::Source;
use anyhow::Context;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use tree_sitter::Node;

/// The contents of the copy's file `mutants.json`.
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
    /// True for a function with its whole body.
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

const TESTS: &str = "#[cfg(test)]\nmod tests;\n";
const TESTS_WITH_SWITCH: &str = "mod mutant;\n#[cfg(test)]\nmod tests;\n";

/// Adds the switch to the driver, to the host's tests and to the model.
fn add_switch(files: &mut BTreeMap<String, String>, last: u32) -> anyhow::Result<()> {
    for (name, text) in [
        ("drivers/android/mutant.rs", include_str!("../switch/mutant.rs")),
        ("drivers/android/rust_binder_mutant.c", include_str!("../switch/rust_binder_mutant.c")),
        ("drivers/android/rust_binder_mutant.h", include_str!("../switch/rust_binder_mutant.h")),
        ("tests/host/rooms/src/mutant.rs", include_str!("../switch/host.rs")),
        ("tests/loom/src/mutant.rs", include_str!("../switch/host.rs")),
        ("tests/model/src/mutant.rs", include_str!("../switch/host.rs")),
    ] {
        files.insert(name.to_string(), text.replace("@LAST@", &last.to_string()));
    }
    for (name, old, new) in [
        (
            "drivers/android/Makefile.rust_binder",
            "binder_rust-y := \\\n",
            "rustflags-y += --error-format=json\nbinder_rust-y := \\\n\trust_binder_mutant.o\t\\\n",
        ),
        ("tests/host/rooms/src/lib.rs", TESTS, TESTS_WITH_SWITCH),
        ("tests/loom/src/lib.rs", TESTS, TESTS_WITH_SWITCH),
        ("tests/model/src/lib.rs", "\nuse scenes::*;\n", "\nmod mutant;\nuse scenes::*;\n"),
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
    /// By the node at which they stand, or that they leave out besides.
    sites: HashMap<usize, Vec<&'a Site>>,
    text: String,
    regions: Vec<Region>,
}

impl<'a> Writer<'a> {
    fn new(source: &'a Source, mine: impl Iterator<Item = &'a Site>) -> Self {
        let mut sites = HashMap::<_, Vec<_>>::new();
        for site in mine {
            for node in [Some(site.node), site.absent].into_iter().flatten() {
                sites.entry(node).or_default().push(site);
            }
        }
        Self { source, sites, text: String::new(), regions: Vec::new() }
    }

    /// A node with all that is wrong with it.
    fn node(&mut self, node: Node<'a>) {
        let start = self.text.len();
        let here = self.sites.get(&node.id()).cloned().unwrap_or_default();
        let (around, instead): (Vec<&Site>, Vec<&Site>) =
            here.into_iter().partition(|site| site.place == Place::Around);
        if !around.is_empty() {
            self.text += "{ ";
            for site in &around {
                let text = if site.node == node.id() { site.text.as_str() } else { "" };
                let test = self.is(site);
                self.text +=
                    &if self.source.is_c { format!("if ({test}) {{ ") } else { format!("if {test} {{ ") };
                self.marked(site, text);
                self.text += " } else ";
            }
            self.text += "{ ";
        }
        if instead.is_empty() {
            self.parts(node);
        } else {
            let start = self.text.len();
            self.text.push('(');
            for site in &instead {
                let test = self.is(site);
                self.text += &if self.source.is_c { format!("{test} ? (") } else { format!("if {test} {{ ") };
                self.marked(site, &site.text);
                self.text += if self.source.is_c { ") : " } else { " } else " };
            }
            self.text += if self.source.is_c { "(" } else { "{ " };
            self.parts(node);
            self.text += if self.source.is_c { "))" } else { " })" };
            self.region(start, instead.iter().map(|site| site.number).collect());
        }
        if !around.is_empty() {
            self.text += " } }";
            let is_statement =
                node.parent().is_some_and(|parent| matches!(parent.kind(), "block" | "compound_statement"));
            let made: Vec<_> = around.iter().filter(|site| site.operator != BY_HAND).collect();
            if is_statement && !made.is_empty() {
                self.region(start, made.iter().map(|site| site.number).collect());
            }
        }
    }

    /// The parts of a node, and what stands between them.
    fn parts(&mut self, node: Node<'a>) {
        let start = self.text.len();
        let mut here = node.start_byte();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            self.text.push_str(&self.source.text[here..child.start_byte()]);
            here = child.end_byte();
            self.node(child);
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

    fn is(&self, site: &Site) -> String {
        let function = if self.source.is_c { "rust_binder_mutant_is" } else { "crate::mutant::is" };
        format!("{function}({})", site.number)
    }

    /// Writes the text of a fault.
    fn marked(&mut self, site: &Site, text: &str) {
        let start = self.text.len();
        self.text += text;
        if !text.is_empty() {
            self.region(start, vec![site.number]);
        }
    }

    fn region(&mut self, start: usize, numbers: Vec<u32>) {
        self.regions.push(Region { start, end: self.text.len(), numbers, is_function: false });
    }
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
        let is = |text: &str| text.replace("is(", "crate::mutant::is(");
        assert!(bare.contains(&is("{ifis(2){}elseifis(3){h();g();}else{g();}}")), "{bare}");
        assert!(bare.contains(&is("{ifis(3){}elseifis(4){}else{h();}}")), "{bare}");
    }
}
