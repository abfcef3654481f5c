// SPDX-License-Identifier: GPL-2.0
//! Faults with their names and places: those that operators find, and those that are written by hand.

use crate::find::{Found, Place, Site, BY_HAND};
use crate::rust::is_const;
use crate::tree::{children, Source};
use crate::{c, rust};
use anyhow::Context;
use serde::Deserialize;
use std::collections::HashMap;
use tree_sitter::Node;

/// All faults that the operators find in all sources, numbered.
pub fn numbered(sources: &[Source]) -> Vec<Site> {
    let mut seen = HashMap::new();
    let found = |source: &Source| if source.is_c { c::faults(source) } else { rust::faults(source) };
    let mut sites: Vec<_> = sources.iter().filter(|source| !source.is_spared()).flat_map(found).collect();
    for (site, number) in sites.iter_mut().zip(1..) {
        let what = [&site.file, &site.function, site.operator, &site.original, &site.mutated].join("\n");
        let times = seen.entry(what.clone()).or_insert(0u32);
        *times += 1;
        site.number = number;
        site.key = key(&format!("{what}\n{times}"));
    }
    sites
}

/// Eight digits that stand for a text: FNV-1a, folded.
fn key(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// A fault that is written by hand. Its name is its key.
#[derive(Deserialize)]
pub struct ByHand {
    name: String,
    edits: Vec<Edit>,
}

/// A file, a text that stands in it once, and what replaces it.
#[derive(Deserialize)]
struct Edit(String, String, String);

/// An edit reduced to what differs.
struct Change<'a> {
    start: usize,
    end: usize,
    new: &'a str,
}

/// The places of faults that are written by hand, numbered from the number after `last`. A fault may have several.
pub fn by_hand(sources: &[Source], faults: &[ByHand], last: u32) -> anyhow::Result<Vec<Site>> {
    let mut sites = Vec::new();
    for (fault, number) in faults.iter().zip(last + 1..) {
        for source in sources {
            let edits: Vec<_> = fault.edits.iter().filter(|edit| edit.0 == source.path).collect();
            let mut found = Found::new(source);
            found.function = Some(String::new());
            for (node, text) in placed(source, &edits).with_context(|| fault.name.clone())? {
                found.add(node, Place::Around, BY_HAND, String::new(), text);
            }
            sites.extend(found.sites.into_iter().map(|site| Site {
                number,
                key: fault.name.clone(),
                ..site
            }));
        }
        anyhow::ensure!(
            sites.last().is_some_and(|site| site.number == number),
            "{}: no such file",
            fault.name
        );
    }
    Ok(sites)
}

/// The statements and blocks of a source that edits are in, each with its text after them.
fn placed<'a>(source: &'a Source, edits: &[&Edit]) -> anyhow::Result<Vec<(Node<'a>, String)>> {
    let mut changes = Vec::new();
    for Edit(_, old, new) in edits {
        let mut found = source.text.match_indices(old.as_str());
        let (Some((at, _)), None) = (found.next(), found.next()) else {
            anyhow::bail!("{} does not have once: {old}", source.path);
        };
        changes.push(reduced(at, old, new));
    }
    changes.sort_by_key(|change| change.start);
    let mut nodes: Vec<Node<'a>> = Vec::new();
    for change in &changes {
        let node = around(source, change).with_context(|| {
            format!(
                "no switch fits around line {} of {}",
                source.text[..change.start].lines().count(),
                source.path
            )
        })?;
        if !nodes.iter().any(|outer| contains(*outer, node)) {
            nodes.retain(|inner| !contains(node, *inner));
            nodes.push(node);
        }
    }
    let text = |node: &Node<'a>| {
        let (mut text, mut here) = (String::new(), node.start_byte());
        for change in changes.iter().filter(|c| node.start_byte() <= c.start && c.end <= node.end_byte()) {
            text += &source.text[here..change.start];
            text += change.new;
            here = change.end;
        }
        text + &source.text[here..node.end_byte()]
    };
    Ok(nodes.iter().map(|node| (*node, text(node))).collect())
}

fn contains(outer: Node<'_>, inner: Node<'_>) -> bool {
    outer.start_byte() <= inner.start_byte() && inner.end_byte() <= outer.end_byte()
}

/// An edit without what its texts have in common at their ends.
fn reduced<'a>(at: usize, old: &str, new: &'a str) -> Change<'a> {
    let common = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
    };
    let front = common(&mut old.chars().zip(new.chars()));
    let (old, new) = (&old[front..], &new[front..]);
    let back = common(&mut old.chars().rev().zip(new.chars().rev()));
    let (old, new) = (&old[..old.len() - back], &new[..new.len() - back]);
    // A removed text leaves its white space behind, which does not show its place.
    let (space, end) = match new.trim() {
        "" => (old.len() - old.trim_start().len(), old.trim_end().len()),
        _ => (0, old.len()),
    };
    let start = at + front;
    Change { start: start + space, end: start + end.max(space), new }
}

/// The narrowest statement or block around a change. A variable that is declared anew needs its block.
fn around<'a>(source: &'a Source, change: &Change<'_>) -> Option<Node<'a>> {
    let mut node = source.tree.root_node().descendant_for_byte_range(change.start, change.end);
    let declares = format!(" {}", change.new).contains(" let ");
    let mut found = None;
    while let Some(at) = node {
        let is_block = matches!(at.kind(), "block" | "compound_statement");
        let is_statement = match at.parent().map_or("", |parent| parent.kind()) {
            _ if source.is_c => at.kind().ends_with("_statement") && at.kind() != "labeled_statement",
            "block" => !at.kind().ends_with("_item") && at.kind() != "let_declaration" && at.is_named(),
            _ => false,
        };
        // A change that begins with a block's brace belongs to the statement around the block.
        let is_inside = at.start_byte() < change.start || at.start_byte() == change.start && !is_block;
        if found.is_none() && is_inside && (is_block || is_statement && !declares) && !has_label(source, at) {
            found = Some(at);
        }
        if at.kind() == "function_item" && is_const(source, at) {
            return None;
        }
        node = at.parent();
    }
    found
}

/// Labels of C are those of a whole function: a text that has one cannot stand twice in it.
fn has_label(source: &Source, node: Node<'_>) -> bool {
    source.is_c
        && (node.kind() == "labeled_statement"
            || children(node).iter().any(|child| has_label(source, *child)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn keys(text: &str) -> Vec<String> {
        numbered(&[Source::new("a.rs", text.into())]).into_iter().map(|site| site.key).collect()
    }

    #[test]
    fn keys_are_unique_and_survive_edits_elsewhere() {
        let before = keys("fn f(a: u32) -> bool { g(); h(); a == 1 && a == 1 }");
        let after = keys("fn e() { g(); }\n\nfn f(a: u32) -> bool {\n g();\n\n h(); a == 1 && a == 1 }");
        let known: HashSet<_> = before.iter().collect();
        assert_eq!(known.len(), before.len());
        assert!(known.is_subset(&after.iter().collect()));
    }

    #[test]
    fn a_comment_is_no_part_of_a_key() {
        assert_eq!(keys("fn f() { g(1 +\n 2); }"), keys("fn f() { g(1 + // one\n 2); }"));
    }

    /// The names of the operators that find a fault in a text, and the mutated texts.
    fn found(path: &str, text: &str) -> Vec<(&'static str, String)> {
        let sites = numbered(&[Source::new(path, text.into())]);
        sites.into_iter().map(|site| (site.operator, site.mutated)).collect()
    }

    #[test]
    fn operators() {
        for (path, text, operator, mutated) in [
            ("a.c", "int f(int a) { if (a < 2) return -EINVAL; return 0; }", "comparison", "a <= 2"),
            ("a.c", "int f(int a) { if (a) return -EINVAL; return 0; }", "negate condition", "!(a)"),
            ("a.c", "int f(int a) { if (a) return -EINVAL; return 0; }", "errno", "EPERM"),
            ("a.c", "int f(void) { g(); h(); return 0; }", "swap statements", "h(); g();"),
            ("a.c", "static void *f(void) { return g(); }", "return at once", "return NULL;"),
            ("a.c", "int f(void) { int a = 3; return a; }", "off by one", "(3 + 1)"),
            ("a.rs", "fn f(a: u32) { if a < 2 { g() } }", "comparison", "a <= 2"),
            ("a.rs", "fn f(a: bool) { if a { g() } }", "negate condition", "!(a)"),
            ("a.rs", "fn f(a: T) { h(a.is_new()) }", "negate condition", "!a.is_new()"),
            ("a.rs", "fn f() -> u32 { 4 }", "off by one", "(4 + 1)"),
            ("a.rs", "fn f() -> Result { Err(EINVAL) }", "errno", "kernel::error::code::EPERM"),
            ("a.rs", "fn f(q: Q) { q.push_back(1); }", "method", "q.push_front(1)"),
            ("a.rs", "fn f() { g(); h(); }", "drop statement", ""),
            ("a.rs", "fn f() { g(); h(); }", "swap statements", "h(); g();"),
            ("a.rs", "fn f() { a = g(); b = a; }", "swap statements", "b = a; a = g();"),
            ("a.rs", "fn f() -> Option<u8> { g() }", "return at once", "return None"),
            ("a.rs", "fn f() -> bool { g() }", "return at once", "return false"),
            ("a.rs", "fn f(a: u8) { match a { 1 => g(), _ => h() } }", "skip arm", "()"),
        ] {
            let found = found(path, text);
            assert!(found.contains(&(operator, mutated.into())), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_makes_no_difference_or_is_known_when_it_is_compiled_stays() {
        for (path, text, operator, count) in [
            ("a.c", "int f(void) { a->b = c; a->d = &e; return 0; }", "swap statements", 0),
            ("a.c", "static int a[4] = { 1 };\n#define B 3\n", "", 0),
            ("a.rs", "fn f() { s.a = 1; s.b += 2; }", "swap statements", 0),
            ("a.rs", "fn f() { let mut b = g(); drop(b); }", "drop statement", 0),
            ("a.rs", "fn f() { let b = g(); let c = h(); drop(b); }", "drop statement", 1),
            ("a.rs", "fn f() { let b = g(); drop(b); i(); }", "drop statement", 2),
            ("a.rs", "const A: u32 = 1 + 2; static B: [u8; 3] = [0; 3];", "", 0),
            ("a.rs", "const fn f() -> bool { 1 < 2 }", "", 0),
            ("a.rs", "#[cfg(test)] mod t { fn f() -> bool { 1 < 2 } }", "", 0),
            ("a.rs", "fn f(a: T) { match a.0 { 1 => {} _ => {} } }", "off by one", 0),
        ] {
            let found = found(path, text);
            assert_eq!(
                found.iter().filter(|fault| fault.0.contains(operator)).count(),
                count,
                "{text}: {found:?}"
            );
        }
    }

    /// The places of the edits, as they read afterwards.
    fn written(path: &str, text: &str, edits: &[(&str, &str)]) -> anyhow::Result<Vec<String>> {
        let source = Source::new(path, text.into());
        let edits: Vec<_> =
            edits.iter().map(|(old, new)| Edit(path.into(), (*old).into(), (*new).into())).collect();
        Ok(placed(&source, &edits.iter().collect::<Vec<_>>())?.into_iter().map(|(_, text)| text).collect())
    }

    #[test]
    fn edits_take_the_narrowest_statement_or_block() {
        let places: [(_, _, &[_], &[&str]); 10] = [
            ("a.rs", "fn f() { g(); if a { h(); } }", &[("a {", "a || b {")], &["if a || b { h(); }"]),
            ("a.rs", "fn f() {\n    g();\n    h();\n}", &[("    h();\n", "")], &[""]),
            ("a.rs", "fn f() { g(); h() }", &[("h()", "i(); h()")], &["i(); h()"]),
            ("a.rs", "fn f() { g(a != 0 && b); }", &[("!= 0 &&", "> 10 &&")], &["g(a > 10 && b);"]),
            ("a.rs", "fn f() { let a = 1; h(a) }", &[("= 1", "= 2")], &["{ let a = 2; h(a) }"]),
            (
                "a.rs",
                "fn f() { g(); h(); }",
                &[("g();", "let _a = b(); g();")],
                &["{ let _a = b(); g(); h(); }"],
            ),
            ("a.rs", "fn f() { if a { g(); } h(); }", &[("g()", "i()"), ("a {", "b {")], &["if b { i(); }"]),
            ("a.rs", "fn f() { g() } fn h() { i() }", &[("g()", "j()"), ("i()", "k()")], &["j()", "k()"]),
            ("a.c", "void f(void) { g(); if (a) h(); }", &[("h()", "i()")], &["i();"]),
            ("a.c", "void f(void) { g();\nout:\n\th(); }", &[("h();", "")], &[""]),
        ];
        for (path, text, edits, wanted) in places {
            assert_eq!(written(path, text, edits).unwrap(), wanted);
        }
    }

    #[test]
    fn edits_without_a_place_are_refused() {
        assert!(written("a.rs", "struct A { a: u8 }", &[("u8", "u16")]).is_err());
        assert!(written("a.rs", "const fn f() -> u8 { 1 }", &[("1", "2")]).is_err());
        assert!(written("a.rs", "fn f() { g(); g(); }", &[("g()", "h()")]).is_err());
        assert!(written("a.c", "void f(void) { int a = 1; out: g(); }", &[("1", "2")]).is_err());
    }
}
