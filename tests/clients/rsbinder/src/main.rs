// SPDX-License-Identifier: GPL-2.0
//! An AIDL service and its clients on rsbinder, between processes, with rsbinder's service manager.
//!
//! `run` starts the service manager and then each test in a process of its own ([`runner`]); a test
//! starts the services and the other clients that it needs as processes too ([`stage`]). The service is
//! [`workshop`], the tests are in [`tests`]. `run` prints each test's results beneath its name.
//! They do not depend on times, so that the output on two drivers can be compared line by line.

mod roles;
mod runner;
mod stage;
mod tests;
mod workshop;

/// The AIDL compiler's output for `aidl/`.
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, dead_code, unused_imports)]
mod workshop_aidl {
    rsbinder::include_aidl!("workshop", workshop::*);
}

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "An AIDL service and its clients on rsbinder", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the service manager, run the tests, print them as TAP
    Run {
        /// Only tests whose name contains this
        #[arg(long, default_value = "")]
        filter: String,
    },
    /// Run one test; the service manager is there already
    One { name: String },
    /// Be one of the processes that a test needs
    #[command(flatten)]
    Play(roles::Role),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Run { filter } => {
            let failed = runner::run(&filter)?;
            std::process::exit(i32::from(failed > 0));
        }
        Command::One { name } => println!("{}", runner::one(&name)?),
        Command::Play(role) => roles::play(&role)?,
    }
    Ok(())
}
