// SPDX-License-Identifier: GPL-2.0
//! The command line, and which command it means.

use clap::CommandFactory;
use clap::Parser;
use clap::Subcommand;

use crate::commands::add;
use crate::commands::chmod;
use crate::commands::chown;
use crate::commands::completions;
use crate::commands::doctor;
use crate::commands::explain;
use crate::commands::graph;
use crate::commands::list;
use crate::commands::man;
use crate::commands::mount;
use crate::commands::rm;
use crate::commands::top;
use crate::commands::trace;
use crate::error::Outcome;
use crate::error::Result;
use crate::options::Options;
use crate::output::Output;

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
/// Works with Rust Binder, the kernel's driver in C and its driver in Rust, and says what a driver does not offer.
#[derive(Debug, Parser)]
#[command(name = "binderctl", version, max_term_width = 100, after_long_help = EXIT_CODES, subcommand_required = true)]
pub struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the driver, the mounted instances of binderfs and their devices.
    List,
    /// Add a device to a binderfs.
    Add(add::Arguments),
    /// Remove devices from a binderfs. Who has one open goes on using it.
    Rm(rm::Arguments),
    /// Change who may use devices.
    Chmod(chmod::Arguments),
    /// Change whose devices they are.
    Chown(chown::Arguments),
    /// Mount a binderfs.
    Mount(mount::Arguments),
    /// Look for what is missing or wrong, and say what to do about it.
    Doctor(doctor::Arguments),
    /// Say why calls failed, what that means and what to do about it.
    Explain(explain::Arguments),
    /// Show processes live: threads, calls a second, oneway space, how long calls take.
    Top(top::Arguments),
    /// Follow calls live, with how long they take.
    Trace(trace::Arguments),
    /// Show who calls whom and who holds whose objects, as text or a picture.
    Graph(graph::Arguments),
    /// Print the completions of a shell.
    Completions(completions::Arguments),
    /// Print manual pages, or write all of them into a directory.
    Man(man::Arguments),
}

impl Cli {
    /// What every command is told.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Runs the command.
    pub fn run(&self) -> Result<Outcome> {
        let options = &self.options;
        let output = Output::new(options);
        match &self.command {
            Command::List => list::run(options, output),
            Command::Add(arguments) => add::run(arguments, options, output),
            Command::Rm(arguments) => rm::run(arguments, options, output),
            Command::Chmod(arguments) => chmod::run(arguments, options, output),
            Command::Chown(arguments) => chown::run(arguments, options, output),
            Command::Mount(arguments) => mount::run(arguments, output),
            Command::Doctor(arguments) => doctor::run(arguments, options, output),
            Command::Explain(arguments) => explain::run(arguments, options, output),
            Command::Top(arguments) => top::run(arguments, options, output),
            Command::Trace(arguments) => trace::run(arguments, options),
            Command::Graph(arguments) => graph::run(arguments, options, output),
            Command::Completions(arguments) => completions::run(arguments, Self::command(), output),
            Command::Man(arguments) => man::run(arguments, Self::command(), output),
        }
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
