// SPDX-License-Identifier: GPL-2.0
//! The tables in `docs/contract.md`: rules and lessons, and the tests that check them.

use crate::catalogue;
use crate::suite;
use anyhow::Context;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

fn header(what: &str) -> String {
    format!("| {what} | tests, or why there is none |\n|---|---|\n")
}

fn quoted(tests: &[String]) -> String {
    tests.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The table of rules in markdown.
pub fn table() -> String {
    let mut tests_of: HashMap<&str, Vec<String>> = HashMap::new();
    for test in suite::all() {
        for rule in test.rules {
            tests_of.entry(rule).or_default().push(test.name());
        }
    }
    let mut out = header("rule");
    let (mut tested, mut explained) = (0, 0);
    for rule in catalogue::rules() {
        let text = match tests_of.get(rule.as_str()) {
            Some(tests) => {
                tested += 1;
                quoted(tests)
            }
            None => {
                explained += 1;
                catalogue::reason(&rule).unwrap_or("no test and no reason").to_string()
            }
        };
        writeln!(out, "| {rule} | {text} |").expect("a string");
    }
    let count = suite::all().count();
    writeln!(out, "\n{count} tests; {tested} rules with tests, {explained} with a reason.")
        .expect("a string");
    out
}

/// The table of lessons in markdown.
fn lessons(host: &[String]) -> String {
    let mut out = header("lesson");
    let tests: Vec<_> =
        suite::all().map(|test| test.name()).chain(host.iter().map(|name| format!("host {name}"))).collect();
    for lesson in catalogue::LESSONS {
        let about = |name: &&String| catalogue::lessons_of(name).any(|id| id == lesson.id);
        let text = match tests.iter().filter(about).cloned().collect::<Vec<_>>() {
            tests if tests.is_empty() => lesson.reason.to_string(),
            tests => quoted(&tests),
        };
        writeln!(out, "| {}: {} | {text} |", lesson.id.to_uppercase(), lesson.fault).expect("a string");
    }
    out
}

/// The names of the host tests about lessons, as `file::function`. Runs in this crate's folder.
fn host_lessons() -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("../host/rooms/src")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
                let text = std::fs::read_to_string(&path)?;
                found.extend(tests_in(&text).map(|function| format!("{file}::{function}")));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The functions about lessons that a file of tests has. Properties take parameters like `x in ..`;
/// helpers are generic.
fn tests_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let name = line.trim_start().strip_prefix("fn ")?.split_once('(')?.0;
        (name.starts_with("lesson_") && !name.contains('<')).then_some(name)
    })
}

/// Replaces what stands between the marks of that name.
fn replaced(document: &str, name: &str, table: &str) -> anyhow::Result<String> {
    let begin = format!("<!-- contract {name}: begin -->\n");
    let end = format!("<!-- contract {name}: end -->\n");
    let (before, rest) =
        document.split_once(&begin).with_context(|| format!("the document has no place for {name}"))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("{name} has no end"))?;
    Ok(format!("{before}{begin}\n{table}\n{end}{after}"))
}

/// The document with new tables. Fails if the catalogue of rules and lessons has a mistake.
pub fn updated(document: &str) -> anyhow::Result<String> {
    let host = host_lessons()?;
    let mistakes = catalogue::mistakes(&host);
    anyhow::ensure!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    let new = replaced(document, "rules", &table())?;
    replaced(&new, "lessons", &lessons(&host))
}
