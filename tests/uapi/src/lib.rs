// SPDX-License-Identifier: GPL-2.0

//! What a set of Binder UAPI headers says, as the C compiler understood it when this was built.

use std::collections::BTreeMap;

mod fields;
pub use fields::FIELDS;

/// Where a struct's member lies and what fits in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub offset: usize,
    pub size: usize,
    pub signed: bool,
}

/// Size and alignment of a struct, and its members by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    pub size: usize,
    pub align: usize,
    pub fields: BTreeMap<&'static str, Field>,
}

/// Everything that a set of headers defines.
#[derive(Debug, Default)]
pub struct Abi {
    pub constants: BTreeMap<&'static str, u64>,
    pub structs: BTreeMap<&'static str, Layout>,
}

impl Abi {
    /// The headers of this repository.
    #[must_use]
    pub fn ours() -> Self {
        Self::parse(include_str!(concat!(env!("OUT_DIR"), "/ours.txt")))
    }

    /// The headers that the machine's C library comes with.
    #[must_use]
    pub fn of_system() -> Self {
        Self::parse(include_str!(concat!(env!("OUT_DIR"), "/system.txt")))
    }

    fn parse(text: &'static str) -> Self {
        let mut abi = Self::default();
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["const", name, value] => {
                    let digits = value.trim_start_matches("0x");
                    let value = u64::from_str_radix(digits, 16).expect("a number in hex");
                    abi.constants.insert(name, value);
                }
                ["struct", name, size, align] => {
                    let layout = abi.structs.entry(name).or_default();
                    (layout.size, layout.align) = (number(size), number(align));
                }
                ["field", name, member, offset, size, signed] => {
                    let field = Field {
                        offset: number(offset),
                        size: number(size),
                        signed: signed == "1",
                    };
                    abi.structs
                        .entry(name)
                        .or_default()
                        .fields
                        .insert(member, field);
                }
                _ => panic!("the probe printed {line:?}"),
            }
        }
        abi
    }
}

fn number(word: &str) -> usize {
    word.parse().expect("a decimal number")
}
