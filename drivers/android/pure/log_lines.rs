// SPDX-License-Identifier: GPL-2.0

//! The lines of log files: they are sorted with little of the stack, and have parts that somebody
//! else has chosen.

use core::fmt::{self, Write};

/// Sorts by a key in place, and calls `rest` between steps, of which there are as many as half as
/// many items again. Items of the same key come in any order.
///
/// The core library's function takes 3.5 KiB of the stack for the lines of a log, 72 bytes each,
/// and does not yield the CPU while it runs.
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K, rest: impl Fn()) {
    for parent in (0..items.len() / 2).rev() {
        rest();
        sift_down(items, parent, &key);
    }
    for end in (1..items.len()).rev() {
        rest();
        items.swap(0, end);
        sift_down(&mut items[..end], 0, &key);
    }
}

/// Moves an item down in a heap whose largest item is to be the first, until it is in its place.
fn sift_down<T, K: Ord>(heap: &mut [T], mut at: usize, key: &impl Fn(&T) -> K) {
    loop {
        let children = 2 * at + 1..(2 * at + 3).min(heap.len());
        let Some(largest) = children.max_by_key(|child| key(&heap[*child])) else {
            return;
        };
        if key(&heap[at]) >= key(&heap[largest]) {
            return;
        }
        heap.swap(at, largest);
        at = largest;
    }
}

/// Writes bytes: printable UTF-8 as it is, and each byte of control characters, and of what is no
/// UTF-8, as `\x` and two digits.
///
/// Two strings of bytes never look alike: where `\x` stands in the bytes themselves, its backslash
/// is written as `\x5c`.
pub(crate) fn write_escaped(bytes: &[u8], out: &mut impl Write) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().chars();
        while let Some(character) = rest.next() {
            let looks_escaped = character == '\\' && rest.as_str().starts_with('x');
            if character.is_control() || looks_escaped {
                escape(character.encode_utf8(&mut [0; 4]).as_bytes(), out)?;
            } else {
                out.write_char(character)?;
            }
        }
        escape(chunk.invalid(), out)?;
    }
    Ok(())
}

fn escape(bytes: &[u8], out: &mut impl Write) -> fmt::Result {
    bytes
        .iter()
        .try_for_each(|byte| write!(out, "\\x{byte:02x}"))
}
