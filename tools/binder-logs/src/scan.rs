// SPDX-License-Identifier: GPL-2.0
//! A line, taken apart from its beginning: numbers, pointers and tasks, each behind the words that have to precede it.

use std::fmt;
use std::str::FromStr;

/// The number of a process or a thread in the initial pid namespace; 0: none, or any.
pub type Pid = i32;

/// The number of a transaction, a node, a reference or a buffer in logs and trace events.
pub type DebugId = i64;

/// A pointer of user space, as it is or hashed, or one of the kernel's, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// As printed. A pointer to nothing is 0 also where others are hashed.
    Value(u64),
    /// The kernel had no random numbers yet to hash it with.
    Withheld,
}

impl Pointer {
    /// Returns true for the null pointer.
    pub fn is_null(self) -> bool {
        self == Pointer::Value(0)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pointer::Value(value) => write!(f, "{value:016x}"),
            Pointer::Withheld => f.write_str("(____ptrval____)"),
        }
    }
}

/// A thread and its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task {
    /// The process; 0 if it has ended.
    pub process: Pid,
    /// The thread; 0: none, or any of the process.
    pub thread: Pid,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.process, self.thread)
    }
}

/// The rest of a line.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a> {
    pub(crate) rest: &'a str,
    /// True if the line may be of upstream's Rust driver.
    pub(crate) lenient: bool,
}

impl<'a> Scan<'a> {
    /// Takes words.
    pub(crate) fn word(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    /// Takes words if they are there, and returns whether they are.
    pub(crate) fn has(&mut self, word: &str) -> bool {
        self.word(word).is_some()
    }

    /// Takes one of several words, each with what it stands for.
    pub(crate) fn one_of<T: Clone>(&mut self, words: &[(&str, T)]) -> Option<T> {
        let (word, value) = words.iter().find(|(word, _)| self.rest.starts_with(word))?;
        self.word(word).map(|()| value.clone())
    }

    /// Takes something that may be absent.
    pub(crate) fn maybe<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = *self;
        take(self).or_else(|| {
            *self = start;
            None
        })
    }

    /// Takes a value that must be the rest of the line.
    pub(crate) fn last<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.maybe(|scan| take(scan).filter(|_| scan.rest.is_empty()))
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// A decimal number as C prints it, without zeros before it.
    pub(crate) fn number<T: FromStr>(&mut self, before: &str) -> Option<T> {
        self.word(before)?;
        let sign = usize::from(self.rest.starts_with('-'));
        let digits = self.rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let is_plain = digits == 1 || !self.rest[sign..].starts_with('0');
        self.take(sign + digits).parse().ok().filter(|_| is_plain)
    }

    /// A hexadecimal number.
    pub(crate) fn hex(&mut self, before: &str) -> Option<u64> {
        self.word(before)?;
        let digits = self.rest.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
        u64::from_str_radix(self.take(digits), 16).ok().filter(|_| digits <= 16)
    }

    /// A hexadecimal number of 32 bits.
    pub(crate) fn hex32(&mut self, before: &str) -> Option<u32> {
        self.hex(before)?.try_into().ok()
    }

    /// 0 or 1; upstream's driver prints false or true.
    pub(crate) fn flag(&mut self, before: &str) -> Option<bool> {
        self.word(before)?;
        let words = [("0", false), ("1", true), ("false", false), ("true", true)];
        self.one_of(if self.lenient { &words } else { &words[..2] })
    }

    /// `process:thread`.
    pub(crate) fn task(&mut self, before: &str) -> Option<Task> {
        Some(Task { process: self.number(before)?, thread: self.number(":")? })
    }

    /// A pointer. Kernels of 32 bits have fewer digits and the shorter of the two words.
    pub(crate) fn pointer(&mut self, before: &str) -> Option<Pointer> {
        self.word(before)?;
        let withheld = [("(____ptrval____)", Pointer::Withheld), ("(ptrval)", Pointer::Withheld)];
        self.one_of(&withheld).or_else(|| self.hex("").map(Pointer::Value))
    }
}
