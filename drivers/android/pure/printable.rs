// SPDX-License-Identifier: GPL-2.0

//! Bytes that somebody has chosen, as a part of a line of text.

use core::fmt::{self, Write};

/// Writes bytes: printable UTF-8 as it is, and each byte of control characters, and of what is no
/// UTF-8, as `\x` and two digits.
///
/// Two strings of bytes never look alike: where `\x` stands in the bytes themselves, its backslash
/// is written as `\x5c`.
pub(crate) fn write(bytes: &[u8], out: &mut impl Write) -> fmt::Result {
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
