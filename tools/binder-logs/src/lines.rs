// SPDX-License-Identifier: GPL-2.0
//! A file as numbered lines.

use crate::error::{Error, Reason};
use serde::Serialize;

/// The longest part of a line that an error repeats, in characters.
const QUOTED: usize = 200;

/// What becomes of lines that the C driver does not print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are errors, and so is another order of lines than the C driver's.
    Strict,
    /// Those of upstream's Rust driver are understood, and the others are kept as [`UnknownLine`].
    Lenient,
}

/// A line that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownLine {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Its text.
    pub text: String,
}

/// The lines of a file, one after the other.
pub(crate) struct Lines<'a> {
    file: &'a str,
    rest: &'a [u8],
    number: usize,
    /// How they are read.
    pub(crate) mode: Mode,
    /// Those that were not understood.
    pub(crate) unknown: Vec<UnknownLine>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(file: &'a str, contents: &'a [u8], mode: Mode) -> Self {
        Self { file, rest: contents, number: 0, mode, unknown: Vec::new() }
    }

    /// The next line. Empty ones are passed over when reading leniently, and so is what is no text.
    pub(crate) fn next(&mut self) -> Result<Option<&'a str>, Error> {
        while !self.rest.is_empty() {
            let (line, rest, ended) = match self.rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => (&self.rest[..end], &self.rest[end + 1..], true),
                None => (self.rest, &self.rest[..0], false),
            };
            (self.rest, self.number) = (rest, self.number + 1);
            let strict = self.mode == Mode::Strict;
            match std::str::from_utf8(line) {
                Err(_) => self.refuse(&String::from_utf8_lossy(line), Reason::NotText)?,
                Ok(text) if !ended && strict => self.refuse(text, Reason::Cut)?,
                Ok("") if !strict => {}
                Ok(text) => return Ok(Some(text)),
            }
        }
        Ok(None)
    }

    /// The last line was not understood: an error, or kept.
    pub(crate) fn refuse(&mut self, text: &str, reason: Reason) -> Result<(), Error> {
        if self.mode == Mode::Lenient {
            self.unknown.push(UnknownLine { number: self.number, text: text.to_string() });
            return Ok(());
        }
        let text = text.chars().take(QUOTED).collect();
        Err(Error::Line { file: self.file.to_string(), number: self.number, text, reason })
    }

    /// Takes the line that a file has to begin with.
    pub(crate) fn header(&mut self, wanted: &'static str) -> Result<(), Error> {
        match self.next()? {
            Some(line) if line == wanted => Ok(()),
            Some(line) => self.refuse(line, Reason::Unknown),
            None => Err(self.ends(wanted)),
        }
    }

    /// The error of a file that ends too early.
    pub(crate) fn ends(&self, missing: &'static str) -> Error {
        Error::Ends { file: self.file.to_string(), missing }
    }
}
