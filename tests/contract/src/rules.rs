// SPDX-License-Identifier: GPL-2.0
//! The table of rules and the tests that check them, for `docs/contract.md`.

use crate::suite;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A rule's letters and number, so that `TXN-2` comes before `TXN-12`.
fn key(rule: &str) -> (String, u32) {
    let (letters, number) = rule.rsplit_once('-').unwrap_or((rule, "0"));
    (letters.to_string(), number.parse().unwrap_or(0))
}

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
