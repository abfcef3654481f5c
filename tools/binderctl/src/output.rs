// SPDX-License-Identifier: GPL-2.0
//! What a command prints: a [`Report`], as text for people or as JSON for programs.
//!
//! Text is put together as lines of [`Span`]s, and a span is escaped when it is made ([`crate::escape`]). So escape
//! sequences on a terminal are those of [`Output`] itself, whatever is printed.

use std::io::ErrorKind;
use std::io::IsTerminal;
use std::io::Write;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::error::Error;
use crate::error::Kind;
use crate::error::Result;
use crate::escape;
use crate::options::Options;

/// What a command has found out.
pub trait Report: Serialize {
    /// Name and version of its JSON form: a field may be added to it, but none changed or removed, without a new number.
    const SCHEMA: &'static str;

    /// The same as text.
    fn show(&self, page: &mut Page);
}

/// Text with a form of its own: a script, a picture, a manual page. It is printed as it is.
#[derive(Serialize)]
pub struct Text {
    text: String,
}

impl Text {
    /// Text that a program made.
    pub fn of(bytes: &[u8]) -> Self {
        Self { text: String::from_utf8_lossy(bytes).into_owned() }
    }
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
        self.text.width()
    }
}

impl<T: AsRef<str>> From<T> for Span {
    fn from(text: T) -> Self {
        Self::new(Style::Plain, text)
    }
}

/// Lines of text.
#[derive(Clone, Debug, Default)]
pub struct Page {
    lines: Vec<Vec<Span>>,
}

impl Page {
    /// Adds a line of plain text.
    pub fn say(&mut self, text: impl AsRef<str>) {
        self.line([Span::from(text)]);
    }

    /// Adds a line.
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

    /// The text of all lines.
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

    /// Whether colours are wanted and can be shown.
    pub fn has_colour(&self) -> bool {
        self.colour
    }

    /// Prints a report.
    pub fn print<T: Report>(&self, report: &T) -> Result<()> {
        if self.json {
            return self.write(&(named(T::SCHEMA, report)? + "\n"));
        }
        let mut page = Page::default();
        report.show(&mut page);
        self.write(&page.render(self.colour))
    }

    /// Prints text of our own as it is.
    pub fn print_text(&self, text: &Text) -> Result<()> {
        match self.json {
            true => self.write(&(named("binderctl.text/1", text)? + "\n")),
            false => self.write(&text.text),
        }
    }

    fn write(&self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
            done => done.map_err(|error| Error::new(Kind::Io, format!("cannot write the output: {error}"))),
        }
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

/// Says on the standard error why a command ends early.
pub fn complain(error: &Error, json: bool) {
    #[derive(Serialize)]
    struct Complaint<'a> {
        error: Kind,
        exit_code: u8,
        message: &'a str,
        hint: Option<&'a str>,
    }
    let Error { kind, message, hint } = error;
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
