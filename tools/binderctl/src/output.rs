// SPDX-License-Identifier: GPL-2.0
//! The output of a command: a [`Report`], as text for people or as JSON for programs.
//!
//! Text is put together as lines of a [`Page`], which escapes them ([`crate::escape`]). So no escape sequences reach a
//! terminal, whatever is printed.

use crate::error::{Error, Kind, Result};
use crate::escape;
use crate::options::Options;
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// The result of a command.
pub trait Report: Serialize {
    /// Name and version of its JSON form: a field may be added to it, but none changed or removed, without a new number.
    const SCHEMA: &'static str;

    /// The same as text.
    fn show(&self, page: &mut Page);
}

/// A number with its noun: `1 call`, `2 calls`, `3 processes`.
pub fn count(number: usize, what: &str) -> String {
    let ending = match number {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {what}{ending}")
}

/// Lines of text that are safe to print.
#[derive(Clone, Debug, Default)]
pub struct Page(String);

impl Page {
    /// Adds a line with text from anywhere.
    pub fn say(&mut self, text: impl AsRef<str>) {
        self.0 += escape::visible(text.as_ref()).trim_end_matches(' ');
        self.0.push('\n');
    }

    /// Adds an empty line, unless the page is empty.
    pub fn gap(&mut self) {
        if !self.0.is_empty() {
            self.say("");
        }
    }

    /// Adds a table: columns as wide as their widest cell, numbers to the right.
    pub fn table(&mut self, indent: usize, heading: Vec<&str>, rows: &[Vec<String>]) {
        let visible = |row: &Vec<String>| row.iter().map(|cell| escape::visible(cell)).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(visible).collect();
        let heading = heading.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let all = || [&heading].into_iter().chain(&rows);
        let column = |column: usize| {
            let width = all().map(|row| row[column].chars().count()).max().unwrap_or(0);
            (width, rows.iter().all(|row| is_number(&row[column])))
        };
        let columns: Vec<_> = (0..heading.len()).map(column).collect();
        for row in all() {
            let cells = row.iter().zip(&columns).map(|(cell, &(width, is_numeric))| match is_numeric {
                true => format!("{cell:>width$}"),
                false => format!("{cell:width$}"),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            self.0 += format!("{:indent$}{line}", "").trim_end_matches(' ');
            self.0.push('\n');
        }
    }

    /// The lines.
    pub fn text(self) -> String {
        self.0
    }
}

fn is_number(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || b".-%".contains(&byte))
}

impl Options {
    pub fn print<T: Report>(&self, report: &T) -> Result<()> {
        self.write(&self.text(report)?)
    }

    /// A report as it is printed: lines of text, or one of JSON.
    pub fn text<T: Report>(&self, report: &T) -> Result<String> {
        if self.json {
            return Ok(named(T::SCHEMA, report)? + "\n");
        }
        let mut page = Page::default();
        report.show(&mut page);
        Ok(page.text())
    }

    /// Writes what is ready to be printed.
    pub fn write(&self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
            let kind = if error.kind() == ErrorKind::BrokenPipe { Kind::Unread } else { Kind::Io };
            Error::new(kind, format!("cannot write the output: {error}"))
        })
    }
}

/// The JSON form of something, on one line.
fn named<T: Serialize>(schema: &'static str, content: &T) -> Result<String> {
    #[derive(Serialize)]
    struct Named<'a, T> {
        schema: &'static str,
        #[serde(flatten)]
        content: &'a T,
    }
    escape::json(&Named { schema, content })
        .map_err(|error| Error::new(Kind::Io, format!("cannot make JSON: {error}")))
}

/// Prints on the standard error why a command ends early.
pub fn complain(error: &Error, json: bool) {
    #[derive(Serialize)]
    struct Complaint<'a> {
        error: Kind,
        exit_code: u8,
        message: &'a str,
        hint: Option<&'a str>,
    }
    let Error { kind, message, hint } = error;
    if *kind == Kind::Unread {
        return;
    }
    if json {
        let complaint = Complaint { error: *kind, exit_code: *kind as u8, message, hint: hint.as_deref() };
        if let Ok(line) = named("binderctl.error/1", &complaint) {
            eprintln!("{line}");
        }
        return;
    }
    eprintln!("binderctl: {}", escape::visible(message));
    if let Some(hint) = hint {
        eprintln!("hint: {}", escape::visible(hint));
    }
}
