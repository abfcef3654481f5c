// SPDX-License-Identifier: GPL-2.0
//! The tables in `docs/contract.md`: rules, lessons, the tests that check them, and how those ended.
//!
//! Which test checks what is known here. How tests end is known after a run on each driver; a table
//! made without such runs keeps what the document says, for rows that are still about the same tests.

use crate::catalogue;
use crate::runner::{Record, Verdict};
use crate::steady::steady;
use crate::suite::{self, Driver};
use anyhow::Context;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::PathBuf;

/// The drivers, in the order of the columns.
const DRIVERS: [(Driver, &str); 3] =
    [(Driver::C, "C"), (Driver::Upstream, "upstream"), (Driver::Rust, "ours")];

/// What stands in a table for a result that nobody has.
const UNKNOWN: &str = "–";

/// How tests ended, for each driver that was run.
#[derive(Default)]
pub struct Results(HashMap<Driver, BTreeMap<String, Verdict>>);

impl Results {
    /// Reads what `contract run --record` has written.
    pub fn read(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut results = Self::default();
        for path in paths {
            let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
            for line in text.lines() {
                let record: Record =
                    serde_json::from_str(line).with_context(|| format!("a record: {line}"))?;
                results.0.entry(record.driver).or_default().insert(record.test, record.verdict);
            }
        }
        Ok(results)
    }

    /// How many of the tests passed on a driver, out of how many.
    fn cell(&self, driver: Driver, tests: &[String]) -> String {
        let Some(verdicts) = self.0.get(&driver) else {
            return UNKNOWN.to_string();
        };
        let ended: Vec<_> = tests.iter().filter_map(|test| verdicts.get(test)).collect();
        let is_passed = |verdict: &&&Verdict| matches!(verdict, Verdict::Ok | Verdict::ExpectedDifference(_));
        let passed = ended.iter().filter(is_passed).count();
        let different =
            ended.iter().filter(|verdict| matches!(verdict, Verdict::ExpectedDifference(_))).count();
        let note = if different > 0 { format!(" ({different} ≠)") } else { String::new() };
        format!("{passed}/{}{note}", tests.len())
    }
}

/// Rows by what they are about: the text of the tests' cell, and the cells of the results.
type OldRows = HashMap<(String, String), String>;

/// What a document says at present of the results.
fn old_rows(document: &str) -> OldRows {
    let rows = document.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let name = cells.next()?.to_string();
        let all: Vec<_> = cells.collect();
        let (tests, results) = all.split_last()?;
        (results.len() == DRIVERS.len()).then(|| ((name, tests.to_string()), results.join(" | ")))
    });
    rows.collect()
}

fn results_cells(
    name: &str,
    tests: &[String],
    text: &str,
    results: Option<&Results>,
    old: &OldRows,
) -> String {
    let none = || [UNKNOWN; DRIVERS.len()].join(" | ");
    if tests.is_empty() {
        return none();
    }
    match results {
        Some(results) => DRIVERS.map(|(driver, _)| results.cell(driver, tests)).join(" | "),
        None => old.get(&(name.to_string(), text.to_string())).cloned().unwrap_or_else(none),
    }
}

fn header(what: &str) -> String {
    let names = DRIVERS.map(|(_, name)| name).join(" | ");
    format!("| {what} | {names} | tests, or why there is none |\n|---|---|---|---|---|\n")
}

fn quoted(tests: &[String]) -> String {
    tests.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The table of rules in markdown.
pub fn table(results: Option<&Results>, document: &str) -> String {
    let old = old_rows(document);
    let mut tests_of: HashMap<&str, Vec<String>> = HashMap::new();
    for test in suite::all() {
        for rule in test.rules {
            tests_of.entry(rule).or_default().push(test.name());
        }
    }
    let mut out = header("rule");
    let (mut tested, mut explained) = (0, 0);
    for rule in catalogue::rules() {
        let tests = tests_of.get(rule.as_str()).map_or(&[][..], Vec::as_slice);
        let text = match tests {
            [] => catalogue::reason(&rule).unwrap_or("no test and no reason").to_string(),
            tests => quoted(tests),
        };
        *(if tests.is_empty() { &mut explained } else { &mut tested }) += 1;
        let cells = results_cells(&rule, tests, &text, results, &old);
        writeln!(out, "| {rule} | {cells} | {text} |").expect("a string");
    }
    let count = suite::all().count();
    writeln!(out, "\n{count} tests; {tested} rules with tests, {explained} with a reason.")
        .expect("a string");
    out
}

/// The table of lessons in markdown.
fn lessons(results: Option<&Results>, document: &str) -> anyhow::Result<String> {
    let old = old_rows(document);
    let mut out = header("lesson");
    let host: Vec<_> = host_lessons()?.collect();
    for lesson in catalogue::LESSONS {
        let about = |name: &String| catalogue::lessons_of(name).any(|id| id == lesson.id);
        let here: Vec<_> = suite::all().map(|test| test.name()).filter(about).collect();
        let there: Vec<_> =
            host.iter().filter(|name| about(name)).map(|name| format!("host {name}")).collect();
        let text = match [&here[..], &there[..]].concat() {
            tests if tests.is_empty() => lesson.reason.to_string(),
            tests => quoted(&tests),
        };
        let name = format!("{}: {}", lesson.id.to_uppercase(), lesson.fault);
        let cells = results_cells(&name, &here, &text, results, &old);
        writeln!(out, "| {name} | {cells} | {text} |").expect("a string");
    }
    Ok(out)
}

/// The expected differences and the failures of a run, in markdown.
fn differences(results: &Results) -> String {
    let mut out = String::from("| driver | test | what was seen |\n|---|---|---|\n");
    for (driver, name) in DRIVERS {
        for (test, verdict) in results.0.get(&driver).into_iter().flatten() {
            let (how, why) = match verdict {
                Verdict::Ok => continue,
                Verdict::ExpectedDifference(why) => ("", why),
                Verdict::Failed(why) => ("fails: ", why),
                Verdict::Skipped(why) => ("skipped: ", why),
            };
            let why: String = steady(why).replace(['|', '\n', '`'], " ").chars().take(160).collect();
            writeln!(out, "| {name} | `{test}` | {how}{why} |").expect("a string");
        }
    }
    out
}

/// The names of the host tests that are about lessons, as `file::function`. Called in the folder of this crate, as
/// cargo calls its tests.
pub fn host_lessons() -> anyhow::Result<impl Iterator<Item = String>> {
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
    Ok(found.into_iter())
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

/// The document with its tables made anew.
pub fn updated(document: &str, results: Option<&Results>) -> anyhow::Result<String> {
    let mut new = replaced(document, "rules", &table(results, document))?;
    new = replaced(&new, "lessons", &lessons(results, document)?)?;
    match results {
        Some(results) => replaced(&new, "differences", &differences(results)),
        None => Ok(new),
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_document_is_up_to_date() {
        let document = include_str!("../../../docs/contract.md");
        let updated = updated(document, None).expect("a document with tables");
        assert!(updated == document, "run `contract rules --update docs/contract.md`");
    }

    #[test]
    fn results_become_cells() {
        let mut results = Results::default();
        let verdicts = [
            ("a::one", Verdict::Ok),
            ("a::two", Verdict::Failed("why".to_string())),
            ("a::three", Verdict::ExpectedDifference("why".to_string())),
        ];
        let verdicts = verdicts.map(|(name, verdict)| (name.to_string(), verdict));
        results.0.insert(Driver::C, verdicts.into());
        let tests = ["a::one", "a::two", "a::three", "a::new"].map(String::from);
        assert_eq!(results.cell(Driver::C, &tests), "2/4 (1 ≠)");
        assert_eq!(results.cell(Driver::Rust, &tests), UNKNOWN);
    }

    #[test]
    fn results_are_kept_for_the_same_tests_alone() {
        let old = old_rows("| X-1 | 1/1 | 0/1 | 1/1 | `a::one` |\n");
        let tests = ["a::one".to_string()];
        assert_eq!(results_cells("X-1", &tests, "`a::one`", None, &old), "1/1 | 0/1 | 1/1");
        assert_eq!(results_cells("X-1", &tests, "`a::other`", None, &old), "– | – | –");
    }
}
