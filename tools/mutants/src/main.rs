// SPDX-License-Identifier: GPL-2.0
//! Writes a copy of the driver with faults, each beside the text that it replaces and behind a test of one number, a
//! parameter of the module. So one build contains thousands of broken drivers.
//!
//! usage: mutants ROOT COPY, with what is [`Wanted`] as JSON on the standard input
//!
//! - [`find`] walks through syntax trees and notes faults; [`rust`] and [`c`] find them, an operator at a time;
//! - [`site`] gives each fault a number and a key, and finds a place for the edits of faults made by hand;
//! - [`write`] makes the copy and lists which bytes of it belong to which fault.

mod c;
mod find;
mod rust;
mod site;
mod tree;
mod write;

use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

/// The faults of the copy.
#[derive(Deserialize)]
struct Wanted {
    /// The keys of the faults made by operators; all, if there is no such list.
    only: Option<HashSet<String>>,
    /// The keys of those made by a machine that do not compile.
    without: HashSet<String>,
    by_hand: Vec<site::ByHand>,
}

fn main() -> anyhow::Result<()> {
    let [root, copy] =
        std::env::args().skip(1).map(PathBuf::from).collect::<Vec<_>>().try_into().map_err(
            |words: Vec<_>| anyhow::anyhow!("usage: mutants ROOT COPY, not {} words", words.len()),
        )?;
    let wanted: Wanted = serde_json::from_reader(std::io::stdin())?;
    let mut files = BTreeMap::new();
    for folder in ["drivers/android", "rust", "include", "tests/host", "tests/loom", "tests/model"] {
        tree::read_folder(&root, folder, &mut files)?;
    }
    let sources = tree::sources(&files);
    let mut sites = site::numbered(&sources);
    let last = sites.len() as u32;
    sites.retain(|site| {
        wanted.only.as_ref().is_none_or(|only| only.contains(&site.key))
            && !wanted.without.contains(&site.key)
    });
    sites.extend(site::by_hand(&sources, &wanted.by_hand, last)?);
    write::copy(files, &copy, &sources, &sites)
}
