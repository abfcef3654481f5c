// SPDX-License-Identifier: GPL-2.0
//! The words that lines are made of: numbers, pointers, tasks.

use serde::{Serialize, Serializer};
use std::fmt;
use winnow::ascii::dec_int;
use winnow::combinator::{alt, seq};
use winnow::error::ContextError;
use winnow::prelude::*;
use winnow::token::{rest, take_while};

/// What a parser of a part of a line gives.
pub(crate) type Parsed<T> = winnow::Result<T, ContextError>;

/// The number of a process or a thread in the initial pid namespace; 0: none, or any.
pub type Pid = i32;

/// The number that logs and trace events know a transaction, a node, a reference or a buffer by.
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
    /// Whether it points to nothing.
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

impl Serialize for Pointer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A thread and its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Task {
    /// The process; 0: there is none any more.
    pub process: Pid,
    /// The thread; 0: none, or any of the process.
    pub thread: Pid,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.process, self.thread)
    }
}

/// A decimal number.
pub(crate) fn number(input: &mut &str) -> Parsed<i64> {
    dec_int.parse_next(input)
}

/// The number of a task.
pub(crate) fn pid(input: &mut &str) -> Parsed<Pid> {
    dec_int.parse_next(input)
}

/// Hexadecimal digits.
pub(crate) fn hex(input: &mut &str) -> Parsed<u64> {
    let digits = take_while(1..=16, |c: char| matches!(c, '0'..='9' | 'a'..='f'));
    digits.try_map(|digits| u64::from_str_radix(digits, 16)).parse_next(input)
}

/// Those of a number of 32 bits.
pub(crate) fn hex32(input: &mut &str) -> Parsed<u32> {
    hex.try_map(u32::try_from).parse_next(input)
}

/// 0 or 1.
pub(crate) fn flag(input: &mut &str) -> Parsed<bool> {
    alt(('0'.value(false), '1'.value(true))).parse_next(input)
}

/// `process:thread`.
pub(crate) fn task(input: &mut &str) -> Parsed<Task> {
    seq!(Task { process: pid, _: ':', thread: pid }).parse_next(input)
}

/// A pointer. Kernels of 32 bits have fewer digits and the shorter of the two words.
pub(crate) fn pointer(input: &mut &str) -> Parsed<Pointer> {
    let withheld = alt(("(____ptrval____)", "(ptrval)")).value(Pointer::Withheld);
    alt((withheld, hex.map(Pointer::Value))).parse_next(input)
}

/// All that is left of a line.
pub(crate) fn name(input: &mut &str) -> Parsed<String> {
    rest.map(str::to_string).parse_next(input)
}
