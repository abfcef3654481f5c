// SPDX-License-Identifier: GPL-2.0
//! Lists the single faults that can be put into the driver, and writes a copy of it that has them all.
//!
//! In that copy each fault stands beside what it replaces, behind a test of one number, which is a
//! parameter of the module: so one build has thousands of broken drivers in it.
//!
//! - [`rust`] and [`c`] find the places, in syntax trees, one operator at a time;
//! - [`enums`] knows the variants of enums;
//! - [`same`] knows what would be no fault;
//! - [`site`] is what is known of a fault, and by which key it is found again after an edit elsewhere;
//! - [`write`] makes the copy, and says which bytes of it belong to which fault: a fault that does not
//!   compile is found by the place of the compiler's error, and left out of the next copy.
//!
//! `tools/lab/mutants.py` builds and runs what comes of it.

mod c;
mod enums;
mod rust;
mod same;
mod site;
mod tree;
mod write;

use anyhow::Context;
use clap::{Parser, Subcommand};
use site::Site;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

#[derive(Parser)]
#[command(about, version)]
struct Cli {
    /// The root of the tree that has the driver
    root: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print all faults, one JSON object a line
    List,
    /// Write a copy of the driver that has faults behind a switch
    Write {
        /// The folder of the copy
        to: PathBuf,
        /// Only the faults whose keys are in this file, one a line
        #[arg(long)]
        only: Option<PathBuf>,
        /// None of the faults whose keys are in this file
        #[arg(long)]
        without: Option<PathBuf>,
    },
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let sources = tree::sources(&cli.root)?;
    let sites = site::numbered(&sources);
    match cli.command {
        Command::List => {
            for site in &sites {
                println!("{}", serde_json::to_string(site)?);
            }
        }
        Command::Write { to, only, without } => {
            let only = only.as_deref().map(keys).transpose()?;
            let without = without.as_deref().map(keys).transpose()?.unwrap_or_default();
            let is_wanted = |site: &&Site| {
                only.as_ref().is_none_or(|only| only.contains(&site.key)) && !without.contains(&site.key)
            };
            write::copy(&cli.root, &to, &sources, sites.iter().filter(is_wanted).collect())?;
        }
    }
    Ok(())
}

fn keys(path: &Path) -> anyhow::Result<HashSet<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Ok(text.split_whitespace().map(str::to_string).collect())
}
