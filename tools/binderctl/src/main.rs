// SPDX-License-Identifier: GPL-2.0
//! Looks at Binder drivers and their devices.
//!
//! A reader starts with [`cli`], the command line, which calls one of the [`commands`]. A command finds out what it is
//! asked from [`driver`] and [`instances`], `doctor` from [`checks`] as well, and prints a report through [`output`], as
//! text or JSON; text from elsewhere is made safe by [`escape`]. What is followed live comes from [`trace`], and [`top`]
//! has what is drawn. What goes wrong is an [`error::Error`], from which the exit code follows. No files use each other in
//! a circle, says `make check`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::process::ExitCode;

use clap::Parser;

mod accounts;
mod causes;
mod checks;
mod cli;
mod commands;
mod dot;
mod driver;
mod error;
mod escape;
mod graph;
mod instances;
mod kernel_log;
mod logs;
mod managers;
mod netlink;
mod options;
mod output;
mod signals;
mod svg;
mod tasks;
mod terminal;
mod top;
mod trace;
mod waiting;
mod words;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cli.run() {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            output::complain(&error, cli.options().json);
            error.exit_code()
        }
    }
}
