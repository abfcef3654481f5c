// SPDX-License-Identifier: GPL-2.0
//! Text from elsewhere, made safe for a terminal.
//!
//! Anybody may choose the name of a process or a device, with escape sequences in it, line ends, and characters that
//! turn the direction of writing. All text that is printed goes through here, so none of that reaches a terminal.

use serde::Serialize;
use std::ffi::OsStr;

/// The text with every invisible character written as `\x1b` or `\u{202e}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => shown.push_str("\\\\"),
            c if !is_hidden(c) => shown.push(c),
            c if (c as u32) < 0x100 => shown += &format!("\\x{:02x}", c as u32),
            c => shown += &format!("\\u{{{:x}}}", c as u32),
        }
    }
    shown
}

/// A path or a name as a word of a shell command that a person is advised to type.
pub fn quoted(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    // No name of a file has a zero byte.
    shlex::try_quote(&text).map_or_else(|_| text.clone().into_owned(), |word| word.into_owned())
}

/// Returns true if a terminal interprets the character instead of showing it, or it changes how others are shown.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// JSON on one line, in whose strings hidden characters are escaped as well: JSON demands that of the first 32 only.
pub fn json<T: Serialize>(value: &T) -> serde_json::Result<String> {
    let mut json = String::new();
    for c in serde_json::to_string(value)?.chars() {
        match is_hidden(c) {
            false => json.push(c),
            true => json.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}"))),
        }
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b[31mb\nc\u{9b}2J\u{202e}d\x7f\u{e0041}é";

    #[test]
    fn nothing_that_acts_on_a_terminal_is_left() {
        assert_eq!(visible(HOSTILE), "a\\x1b[31mb\\x0ac\\x9b2J\\u{202e}d\\x7f\\u{e0041}é");
        assert!(!json(&HOSTILE).unwrap().chars().any(is_hidden));
    }

    #[test]
    fn an_escaped_text_is_no_other_text() {
        assert_ne!(visible("\\x1b"), visible("\x1b"));
    }

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        assert_eq!(
            ["a-b.c/d", "a;CMD", "a b", "$(x)", "a'b"].map(quoted),
            ["a-b.c/d", "'a;CMD'", "'a b'", "'$(x)'", "\"a'b\""]
        );
    }

    #[test]
    fn json_says_the_same_as_before() {
        assert_eq!(serde_json::from_str::<String>(&json(&HOSTILE).unwrap()).unwrap(), HOSTILE);
    }
}
