// SPDX-License-Identifier: GPL-2.0
//! The table of rules and the tests that check them, for `docs/contract.md`.

use crate::suite;
use anyhow::Context;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A rule's letters and number, so that `TXN-2` comes before `TXN-12`.
fn key(rule: &str) -> (String, u32) {
    let (letters, number) = rule.rsplit_once('-').unwrap_or((rule, "0"));
    (letters.to_string(), number.parse().unwrap_or(0))
}

/// Where the table begins in the document.
const BEGIN: &str = "<!-- contract rules: begin -->\n";

/// Where it ends.
const END: &str = "<!-- contract rules: end -->\n";

/// The table in markdown.
pub fn table() -> String {
    let mut rules: BTreeMap<_, (&str, Vec<String>)> = BTreeMap::new();
    for test in suite::all() {
        for rule in test.rules {
            rules.entry(key(rule)).or_insert((rule, Vec::new())).1.push(test.name());
        }
    }
    let mut out = String::from("| rule | tests |\n|---|---|\n");
    for (rule, tests) in rules.values() {
        let tests: Vec<_> = tests.iter().map(|name| format!("`{name}`")).collect();
        writeln!(out, "| {rule} | {} |", tests.join(", ")).expect("a string");
    }
    let count = suite::all().count();
    writeln!(out, "\n{count} tests, {} rules.", rules.len()).expect("a string");
    out
}

/// The document with its table made anew.
pub fn updated(document: &str) -> anyhow::Result<String> {
    let (before, rest) = document.split_once(BEGIN).context("the document has no place for the table")?;
    let (_, after) = rest.split_once(END).context("the table has no end")?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", table()))
}

#[cfg(test)]
mod unit {
    #[test]
    fn the_document_is_up_to_date() {
        let document = include_str!("../../../docs/contract.md");
        let updated = super::updated(document).expect("a document with a table");
        assert!(updated == document, "run `contract rules --update docs/contract.md`");
    }
}
