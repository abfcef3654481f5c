// SPDX-License-Identifier: GPL-2.0
//! A load of many: each process is client and server of every other one, for some seconds.
//!
//! Calls that wait for a reply and oneway calls go to peers chosen at random, from threads that do nothing
//! else; pools have one to four threads. What is checked: every message arrives whole and every reply is
//! that of its call; no call is refused; every oneway call that was accepted is delivered. In the soak the
//! processes are killed at random, and only the first of these holds.

mod peer;
mod tally;

use crate::arena::Arena;
use crate::child;
use crate::reading;
use crate::runner;
use anyhow::{ensure, Context};
use binder_sys::fs::mount_at;
use clap::Args;
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
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
    /// Microseconds from one call of a thread to its next: as many are made on any driver that keeps up
    #[arg(long, default_value_t = 0)]
    pace: u64,
    /// Bytes of the largest message
    #[arg(long, default_value_t = 4000)]
    largest: usize,
    /// What the random choices start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Count oneway calls that are refused, and do not fail for them
    #[arg(long)]
    tolerate: bool,
    /// Each process calls only one other, which calls it
    #[arg(long)]
    pairs: bool,
    /// In a second run of the same length another process reads every log file, again and again
    #[arg(long)]
    read_logs: bool,
    /// Print what came of it as JSON
    #[arg(long)]
    json: bool,
    /// Processes are killed, and others come in their place
    #[arg(skip)]
    endless: bool,
}

/// Runs the load in namespaces of its own, and prints what came of it.
pub fn run(args: &MeshArgs) -> anyhow::Result<()> {
    println!("{}", runner::in_namespaces(|| load(args)).context("mesh")?);
    Ok(())
}

/// All processes of the load, the first of which makes the others known to each other.
pub struct Mesh {
    args: MeshArgs,
    device: PathBuf,
    peers: Vec<Pid>,
    tally: Tally,
}

impl Mesh {
    fn start(args: &MeshArgs, device: &Path) -> Self {
        let tally = Tally::new(&Arena::new());
        let peers = vec![child::ready(|ready| peer::manage(device, args.endless, ready))];
        let mut mesh = Self { args: args.clone(), device: device.to_path_buf(), peers, tally };
        for index in 0..args.processes {
            mesh.peers.push(mesh.start_peer(index));
        }
        mesh
    }

    fn start_peer(&self, index: u32) -> Pid {
        child::spawn(|| {
            let role = peer::Role { index, args: &self.args, device: &self.device, tally: &self.tally };
            if let Err(why) = role.play() {
                eprintln!("process {index} of the mesh fails: {why:#}");
                std::process::exit(1);
            }
        })
    }

    /// One whose processes call until they are killed, which may be at any time.
    pub fn start_endless(device: &Path, processes: u32, seed: u64) -> Self {
        let args = MeshArgs {
            processes,
            callers: 2,
            seconds: 0,
            oneway: 67,
            pace: 0,
            largest: 4000,
            seed,
            tolerate: true,
            pairs: false,
            read_logs: false,
            json: false,
            endless: true,
        };
        let mesh = Self::start(&args, device);
        mesh.tally.go.add(1);
        mesh
    }

    /// Kills a process, and starts another one in its place.
    pub fn replace(&mut self, index: u32) -> anyhow::Result<()> {
        child::end(self.peers[index as usize + 1])?;
        self.peers[index as usize + 1] = self.start_peer(index);
        Ok(())
    }

    /// How many calls were answered so far.
    pub fn answered(&self) -> u64 {
        self.tally.answered.get()
    }

    /// Fails if a process has ended by itself.
    pub fn check_alive(&self) -> anyhow::Result<()> {
        self.peers.iter().try_for_each(|pid| child::check_alive(*pid))
    }

    /// Waits until `reached`; fails if a process ends or if it takes too long.
    fn wait(&self, what: &str, limit: Duration, reached: impl Fn(&Tally) -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        while !reached(&self.tally) {
            self.check_alive().with_context(|| what.to_string())?;
            ensure!(start.elapsed() < limit, "{what} takes longer than {limit:?}: {}", self.tally);
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills all processes, which must have been alive until then; last the one that the others ask for each other.
    pub fn end(&self) -> anyhow::Result<()> {
        self.peers.iter().rev().try_for_each(|pid| child::end(*pid))
    }
}

/// Goes on for as long again while all log files are read.
fn read_logs(mesh: &Mesh, root: &Path) -> anyhow::Result<()> {
    let reader = reading::start(root, mesh.tally.passes.counter());
    mesh.tally.is_read.add(1);
    std::thread::sleep(Duration::from_secs(mesh.args.seconds));
    child::end(reader).context("the reader of log files")?;
    ensure!(mesh.tally.passes.get() > 0, "the log files were not read once");
    Ok(())
}

fn load(args: &MeshArgs) -> anyhow::Result<String> {
    runner::private_mounts();
    let root = Path::new("/tmp/binderfs");
    std::fs::create_dir_all(root)?;
    mount_at(root, args.read_logs.then_some("stats=global")).context("mount binderfs")?;
    let mesh = Mesh::start(args, &root.join("binder"));
    let all = u64::from(args.processes);
    mesh.wait("to know each other", PATIENCE, |tally| tally.ready.get() == all)?;
    mesh.tally.go.add(1);
    std::thread::sleep(Duration::from_secs(args.seconds));
    if args.read_logs {
        read_logs(&mesh, root)?;
    }
    mesh.tally.stop.add(1);
    let callers = all * u64::from(args.callers);
    mesh.wait("the end of the last calls", PATIENCE, |tally| tally.finished.get() == callers)?;
    mesh.wait("the delivery of oneway calls", PATIENCE, Tally::is_delivered)?;
    mesh.end()?;
    let (sync, oneway) = (mesh.tally.sync_refused.get(), mesh.tally.oneway_refused.get());
    ensure!(sync == 0, "{sync} calls were refused: {}", mesh.tally);
    ensure!(args.tolerate || oneway == 0, "{oneway} oneway calls were refused: {}", mesh.tally);
    if args.json {
        return Ok(serde_json::to_string(&mesh.tally.outcome())?);
    }
    Ok(format!("mesh ok: {} processes, {} s: {}", args.processes, args.seconds, mesh.tally))
}
