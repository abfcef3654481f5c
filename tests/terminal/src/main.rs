// SPDX-License-Identifier: GPL-2.0
//! Runs `binderctl` in terminals, while a load that is known runs on the driver, and looks at what stands on the screen.
//!
//! [`load`] has the processes, [`session`] the terminal, [`sessions`] what is typed and what has to be seen.

#![forbid(unsafe_code)]

mod load;
mod picture;
mod session;
mod sessions;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;

use anyhow::Result;
use clap::Parser;
use clap::Subcommand;

/// A user and a group without rights.
const NOBODY: u32 = 65534;

#[derive(Parser)]
#[command(about = "What stands on the screen while binderctl watches a load that is known")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the load, run the sessions, and say which went as they should.
    Run(sessions::Arguments),
    /// Become a program that is not root's.
    #[command(hide = true)]
    AsNobody {
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, required = true)]
        argv: Vec<OsString>,
    },
    /// Be a process of the load.
    #[command(hide = true)]
    Part {
        /// Which one.
        part: load::Part,
        /// The device.
        device: PathBuf,
    },
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Part { part, device } => load::play(part, &device),
        Command::AsNobody { argv } => {
            Err(process::Command::new(&argv[0]).args(&argv[1..]).uid(NOBODY).gid(NOBODY).exec().into())
        }
        Command::Run(arguments) => {
            let failed = sessions::run(&arguments)?;
            process::exit(i32::from(failed > 0));
        }
    }
}
