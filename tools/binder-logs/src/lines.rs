// SPDX-License-Identifier: GPL-2.0
//! A file as numbered lines, and what can be wrong with it.

use crate::scan::Scan;
use std::fmt;

/// The longest part of a line that an error repeats, in characters.
const QUOTED: usize = 200;

/// The treatment of lines that the C driver does not print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are errors, and so is another order of lines than the C driver's.
    Strict,
    /// Those of upstream's Rust driver are understood, and the others are kept as [`UnknownLine`].
    Lenient,
}

/// A line that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLine {
    pub number: usize,
    pub text: String,
}

/// An error of reading or parsing a file.
#[derive(Debug)]
pub enum Error {
    /// The system cannot read the file of this name.
    Read(String, std::io::Error),
    /// A line is wrong, or the end is missing: a message with the name of the file.
    Content(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read(file, why) => write!(f, "{file}: {why}"),
            Error::Content(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

/// The error of a line that no driver prints.
pub(crate) const UNKNOWN: &str = "an unknown line";
/// The error of a line that cannot follow the one before it.
pub(crate) const OUT_OF_ORDER: &str = "a line out of its order";

/// The lines of a file, one after the other.
pub(crate) struct Lines<'a> {
    file: &'a str,
    rest: &'a [u8],
    number: usize,
    /// True if only lines of the C driver are parsed.
    pub(crate) strict: bool,
    /// Lines that were not understood.
    pub(crate) unknown: Vec<UnknownLine>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(file: &'a str, contents: &'a [u8], mode: Mode) -> Self {
        Self { file, rest: contents, number: 0, strict: mode == Mode::Strict, unknown: Vec::new() }
    }

    /// The next line. A lenient reader skips empty lines and keeps those that are not UTF-8.
    pub(crate) fn next(&mut self) -> Result<Option<&'a str>, Error> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            let line = &self.rest[..end.unwrap_or(self.rest.len())];
            self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
            self.number += 1;
            match std::str::from_utf8(line) {
                Err(_) => self.refuse(&String::from_utf8_lossy(line), "no text")?,
                Ok(text) if end.is_none() && self.strict => self.refuse(text, "a line without an end")?,
                Ok("") if !self.strict => {}
                Ok(text) => return Ok(Some(text)),
            }
        }
        Ok(None)
    }

    /// A line to be taken apart.
    pub(crate) fn scan<'b>(&self, text: &'b str) -> Scan<'b> {
        Scan { rest: text, lenient: !self.strict }
    }

    /// The last line was not understood: an error, or kept.
    pub(crate) fn refuse(&mut self, text: &str, reason: &str) -> Result<(), Error> {
        if !self.strict {
            self.unknown.push(UnknownLine { number: self.number, text: text.to_string() });
            return Ok(());
        }
        let text: String = text.chars().take(QUOTED).collect();
        Err(Error::Content(format!("{}:{}: {reason}: {text:?}", self.file, self.number)))
    }

    /// Takes the first line of a file.
    pub(crate) fn header(&mut self, wanted: &str) -> Result<(), Error> {
        match self.next()? {
            Some(line) if line == wanted => Ok(()),
            Some(line) => self.refuse(line, UNKNOWN),
            None => Err(self.ends(wanted)),
        }
    }

    /// The error of a file that ends too early.
    pub(crate) fn ends(&self, missing: &str) -> Error {
        Error::Content(format!("{}: {missing} is missing at the end", self.file))
    }
}
