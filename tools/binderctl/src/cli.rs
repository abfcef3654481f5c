// SPDX-License-Identifier: GPL-2.0
//! The command line, and which command it means.

use std::fs;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use crate::checks::seen::Limits;
use crate::commands::{devices, doctor, explain, graph, list, top, trace, watch};
use crate::error::{Error, Result};
use crate::options::Options;

const EXIT_CODES: &str = "\
Exit codes:
  0  the command did what it was asked, and found nothing wrong
  1  the command was asked to look for trouble, and found some
  2  the arguments make no sense
  3  rights are missing
  4  what the command is about is not there: a driver, a mount, a device, a process
  5  the driver that is loaded does not offer it
  6  the kernel refuses: a name that exists, a quota that is reached
  7  it was there when the command started to watch it, and is gone
  8  something could not be read or written, or cannot be understood";

/// Looks at Binder drivers and their devices: what is there, who waits for whom, and why a call failed.
///
/// Works with Rust Binder, the kernel's driver in C and its driver in Rust, and reports what a driver does not offer.
#[derive(Debug, Parser)]
#[command(name = "binderctl", version, max_term_width = 100, after_long_help = EXIT_CODES, subcommand_required = true)]
pub struct Cli {
    #[command(flatten)]
    pub options: Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the driver, the mounted instances of binderfs and their devices.
    List,
    /// Add a device to a binderfs.
    Add(devices::Add),
    /// Remove devices from a binderfs. Processes that have one open go on using it.
    Rm(devices::Remove),
    /// Look for what is missing or wrong, and print what to do about it.
    Doctor(Limits),
    /// Print why calls failed, what that means and what to do about it.
    Explain(explain::Arguments),
    /// Print processes again and again: threads, calls a second, oneway space, how long calls take.
    Top(top::Arguments),
    /// Follow calls live, with how long they take.
    Trace(trace::Arguments),
    /// Report calls that wait long for their replies, with who waits for whom, and threads that wait for each other.
    Watch(watch::Arguments),
    /// Show who calls whom and who holds whose objects.
    Graph(graph::Arguments),
    /// Print the completions of a shell.
    Completions { shell: clap_complete::Shell },
    /// Write manual pages into a directory.
    Man {
        /// The directory: man1 of a manual's directory.
        #[arg(long)]
        dir: PathBuf,
    },
}

impl Cli {
    /// Runs the command, and returns whether it found what it was to look for.
    pub fn run(&self) -> Result<bool> {
        let options = &self.options;
        match &self.command {
            Command::Doctor(limits) => return doctor::run(*limits, options),
            Command::Explain(arguments) => return explain::run(arguments, options),
            Command::Watch(arguments) => return watch::run(arguments, options),
            Command::List => list::run(options),
            Command::Add(arguments) => devices::add(arguments, options),
            Command::Rm(arguments) => devices::remove(arguments, options),
            Command::Top(arguments) => top::run(arguments, options),
            Command::Trace(arguments) => trace::run(arguments, options),
            Command::Graph(arguments) => graph::run(arguments, options),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut Self::command(), "binderctl", &mut script);
                options.write(&String::from_utf8_lossy(&script))
            }
            Command::Man { dir } => fs::create_dir_all(dir)
                .and_then(|()| clap_mangen::generate_to(Self::command(), dir))
                .map_err(|error| Error::at("write into", dir, error)),
        }
        .map(|()| false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
