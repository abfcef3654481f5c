// SPDX-License-Identifier: GPL-2.0
//! Valid traffic among many processes and threads, counted and checked.
//!
//! Each process is client and server of every other one. Its callers choose peers at random and
//! make calls and oneway calls; some bring objects or files, or make the server call a third
//! process. Processes can be killed, frozen and thawed, memory be reclaimed, and log files be read.
//!
//! The checks while it runs, in [`worker`]:
//! - every message arrives whole, from the right sender, and every answer belongs to its call;
//! - oneway calls of a thread arrive once and in order;
//! - a call fails only if its peer is dead or frozen, or, for a oneway call, if its space is full;
//! - a death is notified once, and only of a process that is dead.
//!
//! The checks when all callers rest, in [`conductor`]:
//! - every accepted oneway call has arrived;
//! - every death was notified, and the last notification of freezing equals the state of the process;
//! - a process whose peers are all dead holds nothing of theirs;
//! - when all have ended, the log files of the driver name none of them.

mod conductor;
mod peer;
mod shared;
mod worker;

use crate::runner;
use crate::suite::Driver;
use anyhow::{ensure, Context};
use binder_sys::{FlatBinderObject, ObjectFlags};
use clap::Args;
use nix::errno::Errno;
use rand::rngs::SmallRng;
use rand::SeedableRng;
use shared::Shared;
use std::path::Path;
use std::time::{Duration, Instant};
use worker::{Process, Worker};

/// The space that the processes of a test map.
const SPACE: usize = 2 << 20;

#[derive(Args, Clone)]
pub struct LoadArgs {
    /// The driver that is loaded: decides which documented differences are expected
    #[arg(long, value_enum, default_value_t = Driver::Rust)]
    driver: Driver,
    /// Seconds of load
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Start of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Processes
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..))]
    processes: u32,
    /// Threads that call, in each process
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    callers: u32,
    /// Oneway calls, percent
    #[arg(long, default_value_t = 67)]
    oneway: u32,
    /// Other calls that bring or return an object or a file, are passed on, or change links, %
    #[arg(long, default_value_t = 50)]
    objects: u32,
    /// Microseconds from one call of a thread to its next: the same work for all drivers that keep up
    #[arg(long, default_value_t = 0)]
    pace: u64,
    /// Have each process call only one other process
    #[arg(long)]
    pairs: bool,
    /// Kill processes at random and replace them
    #[arg(long)]
    kill: bool,
    /// Freeze and thaw processes at random, by BINDER_FREEZE, by cgroup.freeze, and by both
    #[arg(long)]
    freeze: bool,
    /// Take memory back: by the driver's shrinker, and by memory.reclaim
    #[arg(long)]
    pressure: bool,
    /// Read all log files, again and again
    #[arg(long)]
    read_logs: bool,
    /// Count oneway calls that are refused for lack of space, and do not fail for them
    #[arg(long)]
    tolerate: bool,
}

/// Runs a load in namespaces of its own, and prints the results as JSON.
pub fn run(args: &LoadArgs) -> anyhow::Result<()> {
    ensure!(!args.pairs || args.processes % 2 == 0, "--pairs needs an even number of processes");
    let words = runner::in_namespaces(|| conductor::run(args));
    println!("{}", words.with_context(|| format!("load with seed {}", args.seed))?);
    Ok(())
}

/// The calls of a client of a test.
pub struct Work {
    /// Its threads that call.
    pub threads: usize,
    /// The calls of each.
    pub calls: usize,
    /// Random bytes in the largest question and answer.
    pub largest: usize,
    /// Start of its random choices.
    pub seed: u64,
    /// The server may die, and calls be lost by that.
    pub tolerate_death: bool,
}

/// Manages a device's context until it is killed, with at most so many threads in its pool.
pub fn serve(path: &Path, threads: u32, ready: impl FnOnce()) {
    let process = Process::open(path, SPACE, 0, Shared::alone()).expect("open the device");
    let deadline = Instant::now() + Duration::from_secs(5);
    let node = FlatBinderObject::binder(0, 0).with_flags(ObjectFlags::ACCEPTS_FDS);
    while let Err(errno) = process.device.set_context_manager_ext(&node) {
        assert!(errno == Errno::EBUSY && Instant::now() < deadline, "become context manager: {errno}");
        std::thread::yield_now();
    }
    process.device.set_max_threads(threads).expect("allow threads");
    ready();
    Worker::new(&process, 0).enter_and_serve();
}

/// Calls the context manager of a device, and checks the answers.
pub fn call(path: &Path, work: &Work) -> anyhow::Result<()> {
    let shared = Shared::alone();
    let process = Process::open(path, SPACE, 0, shared)?;
    let call = |thread: u64| -> anyhow::Result<()> {
        let mut worker = Worker::new(&process, 0);
        let mut random = SmallRng::seed_from_u64(work.seed * 1000 + thread);
        for _ in 0..work.calls {
            let is_answered = worker.varied_call((0, 0), &mut random, work.largest)?;
            ensure!(is_answered || work.tolerate_death, "the server is dead");
        }
        worker.flush()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..work.threads as u64).map(|thread| scope.spawn(move || call(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    ensure!(shared.totals.sync_refused.get() == 0, "calls were refused");
    Ok(())
}
