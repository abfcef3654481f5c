// SPDX-License-Identifier: GPL-2.0
//! A load of many: each process is client and server of every other one, for some seconds.
//!
//! Calls that wait for a reply and oneway calls go to peers chosen at random, from threads that do nothing
//! else; pools have one to four threads. What is checked: every message arrives whole and every reply is
//! that of its call; no call is refused; every oneway call that was accepted is delivered.

mod peer;
mod tally;

use crate::arena::Arena;
use crate::child;
use crate::runner;
use anyhow::{bail, ensure, Context};
use binder_sys::fs::mount_at;
use clap::Args;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use std::path::Path;
use std::time::{Duration, Instant};
use tally::Tally;

/// How long anything may take that is to end.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Args, Clone)]
pub struct MeshArgs {
    /// Processes
    #[arg(long, default_value_t = 20)]
    processes: u32,
    /// Threads that call, in each process
    #[arg(long, default_value_t = 4)]
    callers: u32,
    /// How long they call
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Oneway calls among a hundred
    #[arg(long, default_value_t = 67)]
    oneway: u32,
    /// Bytes of the largest message
    #[arg(long, default_value_t = 4000)]
    largest: usize,
    /// What the random choices start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Count refused calls, and do not fail for them
    #[arg(long)]
    tolerate: bool,
    /// Print what came of it as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the load in namespaces of its own, and prints what came of it.
pub fn run(args: &MeshArgs) -> anyhow::Result<()> {
    println!("{}", runner::in_namespaces(|| load(args)).context("mesh")?);
    Ok(())
}

/// All processes of the load.
struct Mesh {
    peers: Vec<Pid>,
    tally: Tally,
}

impl Mesh {
    fn start(args: &MeshArgs, device: &Path, tally: Tally) -> Self {
        let manager = child::ready(|ready| peer::manage(device, ready));
        let peer = |index| {
            let role = peer::Role { index, args, device, tally: &tally };
            child::spawn(|| {
                if let Err(why) = role.play() {
                    eprintln!("process {index} of the mesh fails: {why:#}");
                    std::process::exit(1);
                }
            })
        };
        let peers = std::iter::once(manager).chain((0..args.processes).map(peer)).collect();
        Self { peers, tally }
    }

    /// Waits until `reached`; fails if a process ends or if it takes too long.
    fn wait(&self, what: &str, limit: Duration, reached: impl Fn(&Tally) -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        while !reached(&self.tally) {
            for pid in &self.peers {
                match waitpid(*pid, Some(WaitPidFlag::WNOHANG))? {
                    WaitStatus::StillAlive => (),
                    status => bail!("{what}: a process ended by itself: {status:?}"),
                }
            }
            ensure!(start.elapsed() < limit, "{what} takes longer than {limit:?}: {}", self.tally);
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn end(&self) -> anyhow::Result<()> {
        for pid in &self.peers {
            kill(*pid, Signal::SIGKILL)?;
            waitpid(*pid, None)?;
        }
        Ok(())
    }
}

fn load(args: &MeshArgs) -> anyhow::Result<String> {
    runner::private_mounts();
    let root = Path::new("/tmp/binderfs");
    std::fs::create_dir_all(root)?;
    mount_at(root, None).context("mount binderfs")?;
    let arena = Arena::new();
    let mesh = Mesh::start(args, &root.join("binder"), Tally::new(&arena));
    let all = u64::from(args.processes);
    mesh.wait("to know each other", PATIENCE, |tally| tally.ready.get() == all)?;
    mesh.tally.go.add(1);
    std::thread::sleep(Duration::from_secs(args.seconds));
    mesh.tally.stop.add(1);
    let callers = all * u64::from(args.callers);
    mesh.wait("the end of the last calls", PATIENCE, |tally| tally.finished.get() == callers)?;
    mesh.wait("the delivery of oneway calls", PATIENCE, Tally::is_delivered)?;
    mesh.end()?;
    let refused = mesh.tally.refused();
    ensure!(args.tolerate || refused == 0, "{refused} calls were refused: {}", mesh.tally);
    if args.json {
        return Ok(serde_json::to_string(&mesh.tally.outcome())?);
    }
    Ok(format!("mesh ok: {} processes, {} s: {}", args.processes, args.seconds, mesh.tally))
}
