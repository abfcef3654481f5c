// SPDX-License-Identifier: GPL-2.0
//! The rules and lessons of `docs/contract.md`, and the tests that check them.
//!
//! An entry of the document is an item of a list that begins with its number, `- **TXN-17** …`. Its last line is generated: the
//! tests that name the rule, or whose names begin with `lesson_` and the lesson. An entry without tests has a line `Checked by:`.

use crate::suite;
use anyhow::Context;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// The generated line of an entry.
const TESTS: &str = "  Tests: ";
/// What else checks an entry, written by hand.
const OTHERWISE: &str = "  Checked by: ";
/// An entry with tests in more groups names the groups with most of them.
const GROUPS: usize = 2;

/// The number of the entry that begins in this line.
fn entry_of(line: &str) -> Option<&str> {
    Some(line.strip_prefix("- **")?.split_once("**")?.0)
}

/// The lessons that a test's name mentions: `lesson_r11_c16_what_it_does` is about two.
fn lessons_of(test: &str) -> impl Iterator<Item = String> + '_ {
    let function = test.rsplit("::").next().unwrap_or(test);
    let words = function.strip_prefix("lesson_").unwrap_or("").split('_');
    let is_number = |word: &&str| word.len() == 3 && word[1..].bytes().all(|byte| byte.is_ascii_digit());
    words.take_while(is_number).map(str::to_uppercase)
}

/// The tests of each rule and lesson. `host`: the names of the host's tests about lessons.
fn tests_by_entry(host: &[String]) -> HashMap<String, Vec<String>> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for test in suite::all() {
        let name = test.name();
        let rules = test.rules.iter().map(|rule| rule.trim_start_matches("lesson ").to_string());
        let entries: HashSet<_> = rules.chain(lessons_of(&name)).collect();
        for entry in entries {
            found.entry(entry).or_default().push(name.clone());
        }
    }
    for test in host {
        for entry in lessons_of(test) {
            found.entry(entry).or_default().push(format!("host {test}"));
        }
    }
    found
}

/// These tests in a few words: a group with how many they are, or the only one of a group by its name.
fn summary(tests: &[String]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for test in tests {
        let group = test.split_once("::").map_or(test.as_str(), |(group, _)| group);
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, members)) => members.push(test),
            None => groups.push((group, vec![test])),
        }
    }
    groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    let named = groups.iter().take(GROUPS).map(|(group, members)| match members[..] {
        [only] => format!("`{only}`"),
        _ => format!("`{group}::` ({})", members.len()),
    });
    let mut out = named.collect::<Vec<_>>().join(", ");
    let rest: usize = groups.iter().skip(GROUPS).map(|(_, members)| members.len()).sum();
    if rest > 0 {
        out += &format!(", {rest} more");
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

/// The mistakes in the names and rules of tests, where `known` are the entries of the document.
fn mistakes(known: &HashSet<&str>, host: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |holds: bool, wrong: String| found.extend((!holds).then_some(wrong));
    let names: Vec<_> = suite::all().map(|test| test.name()).collect();
    for (test, name) in suite::all().zip(&names) {
        expect(!test.rules.is_empty(), format!("{name} names no rule"));
        for rule in test.rules {
            let has_text = known.contains(rule.trim_start_matches("lesson "));
            expect(has_text, format!("{name} names {rule}, which has no text"));
        }
    }
    let unique: HashSet<_> = names.iter().collect();
    expect(unique.len() == names.len(), "two tests have one name".to_string());
    for beginning in crate::tests::TWO_CPUS {
        let begins = |name: &String| name.starts_with(beginning);
        expect(names.iter().any(begins), format!("no name begins with {beginning}"));
    }
    for test in names.iter().chain(host).filter(|test| test.contains("lesson_")) {
        let lessons: Vec<_> = lessons_of(test).collect();
        let all_have_text = lessons.iter().all(|id| known.contains(id.as_str()));
        expect(!lessons.is_empty() && all_have_text, format!("{test} names a lesson that has no text"));
    }
    found
}

/// The document with the tests of each entry. Fails if an entry has neither a test nor another check, or if a test names an entry without text.
pub fn updated(document: &str) -> anyhow::Result<String> {
    let host = host_lessons()?;
    let tests = tests_by_entry(&host);
    let (mut out, mut wrong, mut known) = (String::new(), Vec::new(), HashSet::new());
    let mut lines = document.lines().filter(|line| !line.starts_with(TESTS)).peekable();
    let (mut entry, mut has_other) = (None, false);
    while let Some(line) = lines.next() {
        out.extend([line, "\n"]);
        if let Some(id) = entry_of(line) {
            (entry, has_other) = (Some(id), false);
            if !known.insert(id) {
                wrong.push(format!("{id} is there twice"));
            }
        }
        has_other |= line.starts_with(OTHERWISE);
        let ends = !lines.peek().is_some_and(|next| next.starts_with("  "));
        if let Some(id) = entry.take_if(|_| ends) {
            match tests.get(id) {
                Some(tests) => out.extend([TESTS, &summary(tests), ".\n"]),
                None if has_other => {}
                None => wrong.push(format!("{id} has no test, and no line \"{}\"", OTHERWISE.trim())),
            }
        }
    }
    wrong.extend(mistakes(&known, &host));
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(out)
}
