// SPDX-License-Identifier: GPL-2.0
//! Looks at Binder drivers and their devices.
//!
//! A reader starts with [`cli`], the command line, which calls one of the [`commands`]. A command gets its data from
//! [`driver`], [`instances`], [`logs`] and [`trace`], `doctor` from [`checks`] as well. It prints a report through
//! [`output`], as text or JSON; [`escape`] makes foreign text safe. A failure is an [`error::Error`], which determines
//! the exit code. No files use each other in a circle.

#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

mod causes;
mod checks;
mod cli;
mod commands {
    //! The commands: their arguments, what they do, and their reports.
    pub mod devices;
    pub mod doctor;
    pub mod explain;
    pub mod graph;
    pub mod list;
    pub mod top;
    pub mod trace;
    pub mod watch;
}
mod driver;
mod error;
mod escape;
mod instances;
mod logs;
mod netlink;
mod options;
mod output;
mod pause;
mod prelude;
mod tasks;
mod trace;
mod waiting;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cli.run() {
        Ok(found) => ExitCode::from(u8::from(found)),
        Err(error) => {
            output::complain(&error, cli.options.json);
            ExitCode::from(error.kind as u8)
        }
    }
}
