// SPDX-License-Identifier: GPL-2.0

use crate::pure::log_lines::write_escaped;
use proptest::prelude::*;

fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    write_escaped(bytes, &mut text).expect("a string takes anything");
    text
}

/// The original of an escaped name.
fn read_back(shown: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), shown);
    while let Some((before, behind)) = rest.split_once(r"\x") {
        bytes.extend(before.as_bytes());
        bytes.push(u8::from_str_radix(&behind[..2], 16).expect("two digits"));
        rest = &behind[2..];
    }
    bytes.extend(rest.as_bytes());
    bytes
}

#[test]
fn text_is_as_it_is() {
    for text in ["", "binder", "a b", "é", "名前", "🐧", r"\", r"a\b", r"\\X41", "\u{a0}", "~"] {
        assert_eq!(shown(text.as_bytes()), text);
    }
}

#[test]
fn what_is_no_text_is_escaped() {
    for (bytes, text) in [
        (&b"a\nb"[..], r"a\x0ab"),
        (b"\x1b[1m", r"\x1b[1m"),
        (b"\x7f", r"\x7f"),
        (b"\xc2\x85", r"\xc2\x85"),
        (b"\xff", r"\xff"),
        (b"\xc3", r"\xc3"),
        (b"\xc3a\xc3\xa9", r"\xc3aé"),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
        (b"\xc0\xaf", r"\xc0\xaf"),
        (b"\\\xff", r"\\xff"),
    ] {
        assert_eq!(shown(bytes), text, "{bytes:?}");
    }
}

#[test]
fn what_looks_escaped_is() {
    assert_eq!(shown(br"\xff"), r"\x5cxff");
    assert_eq!(shown(br"\x"), r"\x5cx");
    assert_eq!(shown(br"\\x"), r"\\x5cx");
}

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn no_two_look_alike(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\\'), Just(b'x'), Just(b'5'), Just(b'c')], 0..24)) {
        let text = shown(&bytes);
        prop_assert_eq!(read_back(&text), bytes);
        prop_assert!(!text.contains(|character: char| character.is_control()));
    }
}
