// SPDX-License-Identifier: GPL-2.0
//! Scenes to look at. Processes that use a driver are kept in a state while a program looks at them
//! as an administrator does: in the initial pid namespace, with logs below `/dev/binderfs`.
//!
//! The worked examples of `docs/logs-and-traces.md` are run in them, and the logs of two drivers are compared.

mod everything;
mod normal;
mod questions;

use crate::pids::GlobalPids;
use crate::port::Port;
use crate::stage::Stage;
use crate::suite::Driver;
use anyhow::{bail, Context};
use clap::{Args, Subcommand};
use nix::mount::{umount2, MntFlags};
use nix::sched::{unshare, CloneFlags};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

#[derive(Args)]
pub struct ExampleArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Print all logs of a scene with something of every kind, without values that differ
    Logs,
    /// Run a program in the scene of a question; who takes part is in its environment
    Of {
        /// The question
        #[arg(value_enum)]
        question: questions::Question,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, required = true)]
        program: Vec<String>,
    },
}

/// Those who take part, each with a name. They live as long as this.
type Players = Vec<(&'static str, Port)>;

/// Makes a scene in a mount namespace of its own, and looks at it.
pub fn run(args: &ExampleArgs) -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("a mount namespace")?;
    // A listing of mounts would show the guest's own beside the one over it.
    let _ = umount2("/dev/binderfs", MntFlags::MNT_DETACH);
    // No scene depends on the driver.
    let t = Stage::new(Driver::C, Path::new("/dev"), GlobalPids::new());
    t.mount_with_logs();
    let (players, result) = match &args.what {
        What::Logs => {
            let players = everything::make(&t);
            print!("{}", normal::logs(&t, &players));
            (players, Ok(()))
        }
        What::Of { question, program } => {
            let players = question.make(&t);
            let result = look(program, &players);
            (players, result)
        }
    };
    let processes: BTreeSet<_> = players.iter().map(|(_, port)| port.actor.pid()).collect();
    processes.into_iter().try_for_each(|pid| kill(Pid::from_raw(pid), Signal::SIGKILL))?;
    result
}

/// Runs a program with each thread's number in its environment.
fn look(program: &[String], players: &Players) -> anyhow::Result<()> {
    let who = players.iter().map(|(name, port)| (name, port.actor.tid().to_string()));
    let status = Command::new(&program[0]).args(&program[1..]).envs(who).status()?;
    if !status.success() {
        bail!("{program:?}: {status}");
    }
    Ok(())
}
