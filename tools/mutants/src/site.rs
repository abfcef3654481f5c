// SPDX-License-Identifier: GPL-2.0
//! A fault: where it is, what it does, and the key by which it is known.

use crate::enums::Enums;
use crate::tree::{Language, Source};
use crate::{c, rust};
use serde::Serialize;
use std::collections::HashMap;

/// How a fault stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In place of an expression.
    Instead,
    /// A statement is left out.
    Dropped,
    /// A statement and the next one change places.
    Swapped,
    /// Before the first statement of a body.
    First,
}

/// A fault that an operator has found.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The syntax tree's number of the expression, statement or body.
    pub node: usize,
    pub place: Place,
    pub operator: &'static str,
    pub function: String,
    pub line: usize,
    /// The text that is replaced, and what replaces it.
    pub original: String,
    pub mutated: String,
}

/// A fault with its name.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    /// What the module's parameter has to be for it: 1 and above.
    pub number: u32,
    /// The same after edits elsewhere: made of the file, the function, and what the fault does.
    pub key: String,
    pub file: String,
    pub line: usize,
    pub function: String,
    pub operator: &'static str,
    pub original: String,
    pub mutated: String,
    #[serde(skip)]
    pub node: usize,
    #[serde(skip)]
    pub place: Place,
    /// The mutated text as it is written.
    #[serde(skip)]
    pub text: String,
}

/// All faults of all sources, numbered.
pub fn numbered(sources: &[Source]) -> Vec<Site> {
    let enums = Enums::of(sources);
    let mut seen = HashMap::new();
    let mut sites = Vec::new();
    for source in sources {
        let faults = match source.language {
            Language::Rust => rust::faults(source, &enums),
            Language::C => c::faults(source),
        };
        for fault in faults {
            let (original, mutated) = (plain(&fault.original), plain(&fault.mutated));
            let what = [&source.path, &fault.function, fault.operator, &original, &mutated].join("\n");
            let times = seen.entry(what.clone()).or_insert(0u32);
            *times += 1;
            sites.push(Site {
                number: sites.len() as u32 + 1,
                key: key(&format!("{what}\n{times}")),
                file: source.path.clone(),
                line: fault.line,
                function: fault.function,
                operator: fault.operator,
                original,
                mutated,
                node: fault.node,
                place: fault.place,
                text: fault.mutated,
            });
        }
    }
    sites
}

/// A text in one line.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Eight digits that stand for a text: FNV-1a, folded.
fn key(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn sites(text: &str) -> Vec<Site> {
        numbered(&[Source::rust("a.rs", text)])
    }

    #[test]
    fn keys_are_unique_and_survive_edits_elsewhere() {
        let before = sites("fn f(a: u32) -> bool { g(); h(); a == 1 && a == 1 }");
        let after = sites("fn e() { g(); }\n\nfn f(a: u32) -> bool {\n g();\n\n h(); a == 1 && a == 1 }");
        let keys: HashSet<_> = before.iter().map(|site| &site.key).collect();
        assert_eq!(keys.len(), before.len());
        let later: HashSet<_> = after.iter().map(|site| &site.key).collect();
        assert!(keys.is_subset(&later));
    }

    #[test]
    fn a_comment_is_no_part_of_a_key() {
        let before = sites("fn f() { g(1 +\n 2); }");
        let after = sites("fn f() { g(1 + // one\n 2); }");
        let of = |sites: &[Site]| sites.iter().map(|site| site.key.clone()).collect::<Vec<_>>();
        assert_eq!(of(&before), of(&after));
    }
}
