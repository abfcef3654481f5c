// SPDX-License-Identifier: GPL-2.0
//! What a command prints: a [`Report`], as text for people or as JSON for programs.
//!
//! Text is put together as lines of [`Span`]s, and a span is escaped when it is made ([`crate::escape`]). So escape
//! sequences on a terminal are those of [`Output`] itself, whatever is printed.

use std::io::{ErrorKind, IsTerminal, Write};

use serde::Serialize;

use crate::error::{Error, Kind, Result};
use crate::escape;
use crate::options::Options;

/// What a command has found out.
pub trait Report: Serialize {
    /// Name and version of its JSON form: a field may be added to it, but none changed or removed, without a new number.
    const SCHEMA: &'static str;

    /// The same as text.
    fn show(&self, page: &mut Page);
}

/// How many there are of something: `1 call`, `2 calls`, `3 processes`.
pub fn count(number: usize, what: &str) -> String {
    let ending = match number {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {what}{ending}")
}

/// How a piece of text is shown where there is colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    #[default]
    Plain,
    /// Headings and names.
    Strong,
    /// What matters less.
    Dim,
    /// What is as it should be.
    Good,
    /// What deserves a look.
    Warning,
    /// What is wrong.
    Bad,
}

/// A piece of text that is safe to print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    text: String,
    style: Style,
}

impl Span {
    /// Makes text from anywhere safe to print.
    pub fn new(style: Style, text: impl AsRef<str>) -> Self {
        Self { text: escape::visible(text.as_ref()), style }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: AsRef<str>> From<T> for Span {
    fn from(text: T) -> Self {
        Self::new(Style::Plain, text)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Page {
    lines: Vec<Vec<Span>>,
}

impl Page {
    /// Adds a line of plain text.
    pub fn say(&mut self, text: impl AsRef<str>) {
        self.line([Span::from(text)]);
    }

    pub fn line(&mut self, spans: impl IntoIterator<Item = Span>) {
        self.lines.push(spans.into_iter().collect());
    }

    /// Adds an empty line, unless the page is empty.
    pub fn gap(&mut self) {
        if !self.lines.is_empty() {
            self.line([]);
        }
    }

    /// Adds a table: columns as wide as their widest cell, numbers to the right, the heading dim.
    pub fn table<const N: usize>(&mut self, indent: usize, heading: [&str; N], rows: &[[Span; N]]) {
        let heading = heading.map(|word| Span::new(Style::Dim, word));
        let widths: [usize; N] = std::array::from_fn(|column| {
            rows.iter().map(|row| row[column].width()).chain([heading[column].width()]).max().unwrap_or(0)
        });
        let numeric: [bool; N] =
            std::array::from_fn(|column| rows.iter().all(|row| is_number(&row[column].text)));
        for row in [&heading].into_iter().chain(rows) {
            let mut line = vec![Span::from(" ".repeat(indent))];
            for (column, cell) in row.iter().enumerate() {
                let room = " ".repeat(widths[column] - cell.width());
                let last = column + 1 == N;
                match numeric[column] {
                    true => line.extend([room.into(), cell.clone()]),
                    false if last => line.push(cell.clone()),
                    false => line.extend([cell.clone(), room.into()]),
                }
                line.extend((!last).then(|| Span::from("  ")));
            }
            self.lines.push(line);
        }
    }

    pub fn render(&self, colour: bool) -> String {
        let mut text = String::new();
        for line in &self.lines {
            for span in line {
                match code(span.style).filter(|_| colour) {
                    Some(code) => text.extend(["\x1b[", code, "m", &span.text, "\x1b[0m"]),
                    None => text.push_str(&span.text),
                }
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }
}

fn is_number(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || b".-%".contains(&byte))
}

fn code(style: Style) -> Option<&'static str> {
    match style {
        Style::Plain => None,
        Style::Strong => Some("1"),
        Style::Dim => Some("2"),
        Style::Good => Some("32"),
        Style::Warning => Some("33"),
        Style::Bad => Some("31"),
    }
}

/// The standard output and how to write to it.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    colour: bool,
}

impl Output {
    /// Colour is for terminals whose user has not asked for none.
    pub fn new(options: &Options) -> Self {
        let refused = options.no_color
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { json: options.json, colour: !refused && std::io::stdout().is_terminal() }
    }

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
        Ok(page.render(self.colour))
    }

    /// Whether reports are printed as JSON.
    pub fn is_json(&self) -> bool {
        self.json
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let counts = [count(1, "call"), count(0, "call"), count(2, "process")];
        assert_eq!(counts, ["1 call", "0 calls", "2 processes"]);
    }

    #[test]
    fn a_table_stands_in_columns_and_numbers_stand_to_the_right() {
        let mut page = Page::default();
        page.table(2, ["NAME", "N"], &[["a".into(), "10".into()], ["long".into(), "9".into()]]);
        assert_eq!(page.render(false), "  NAME   N\n  a     10\n  long   9\n");
    }

    #[test]
    fn the_only_escape_sequences_are_those_of_styles() {
        let mut page = Page::default();
        page.line([Span::new(Style::Bad, "x\x1b[2Jy"), "z\n".into()]);
        assert_eq!(page.render(true), "\x1b[31mx\\x1b[2Jy\x1b[0mz\\x0a\n");
        assert_eq!(page.render(false), "x\\x1b[2Jyz\\x0a\n");
    }
}
