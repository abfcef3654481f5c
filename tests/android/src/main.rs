// SPDX-License-Identifier: GPL-2.0
//! A user space in Android's shape as a load for a Binder driver: Android's init mounts binderfs and starts three service
//! managers and services of several users and security contexts, an activity manager starts applications, freezes, thaws and kills
//! them, memory gets short, and a watchdog reads the driver's log files all the time.
//!
//! It is the first program of a guest; `make android` runs it. What has to be so in the end is in `verdict.rs`.

#![warn(missing_docs)]

mod activity;
mod aidl;
mod app;
mod boot;
mod cgroups;
mod hardware;
mod identity;
mod pressure;
mod shared;
mod system;
mod talk;
mod verdict;
mod watchdog;
mod work;

use activity::Activity;
use anyhow::{bail, Context};
use clap::Parser;
use shared::{Shared, Started};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Android's user space in small
#[derive(Parser)]
struct Arguments {
    /// How long to go on
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What the random choices start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Have the security module load and enforce this policy
    #[arg(long)]
    policy: Option<PathBuf>,
    /// Take it for known that the driver leaves a node for ever whose owner ends while a call of it is copied
    #[arg(long)]
    leaves_nodes: bool,
    /// Android's service manager, with its libraries in lib/ beside it
    #[arg(long, default_value = "/aosp/servicemanager")]
    manager: PathBuf,
}

/// Without a round of the watchdog for so long, some service does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much longer than it was told a run may go on.
const MORE: Duration = Duration::from_secs(120);
/// How often a run says that it goes on.
const WORD: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let (shared, started) = shared::map();
    boot::mount_binderfs()?;
    boot::allow_all_nice_values()?;
    cgroups::prepare()?;
    if let Some(policy) = &arguments.policy {
        boot::load_policy(policy)?;
    }
    let services = boot::start_services(shared, started, &arguments.manager, arguments.seed)?;
    let mut activity = Activity::start(shared, started, arguments.seed)?;
    let went = live(shared, started, &mut activity, Duration::from_secs(arguments.seconds));
    let figures = verdict::figures(shared, started, &activity);
    figures.print();
    went?;
    drop(activity);
    let left = verdict::end_services(services, arguments.leaves_nodes)?;
    println!("figure nodes left for ever: {left}");
    figures.check(arguments.policy.is_some())?;
    no_failures(shared)?;
    println!("android ok: {} s, seed {}", arguments.seconds, arguments.seed);
    Ok(())
}

/// Lets all of them work, and ends all applications.
fn live(
    shared: &'static Shared,
    started: &'static [Started],
    activity: &mut Activity,
    time: Duration,
) -> anyhow::Result<()> {
    go_on(shared, started, activity, time)?;
    verdict::settle(shared, started, activity)?;
    activity.end()?;
    verdict::check_ended(started, activity)
}

/// Lets all of them work for a while, and on a busy machine for longer, so that everything has been tried.
fn go_on(
    shared: &'static Shared,
    started: &'static [Started],
    activity: &mut Activity,
    time: Duration,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let (mut rounds, mut last, mut said) = (0, start, start);
    let is_tried = |activity: &Activity| verdict::figures(shared, started, activity).untried().is_empty();
    while start.elapsed() < time || start.elapsed() < time + MORE && !is_tried(activity) {
        activity.step().context("the activity manager")?;
        no_failures(shared)?;
        if shared.rounds.get() != rounds {
            (rounds, last) = (shared.rounds.get(), Instant::now());
        }
        if last.elapsed() > PATIENCE {
            bail!("a service does not answer the watchdog any more\n{}", state());
        }
        if said.elapsed() > WORD {
            said = Instant::now();
            verdict::figures(shared, started, activity).print_progress(start.elapsed());
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

/// What the driver says of a state in which nothing goes on.
fn state() -> String {
    let files = ["state", "transactions"].map(|name| PathBuf::from(watchdog::LOGS).join(name));
    files.map(|path| std::fs::read_to_string(path).unwrap_or_default()).join("\n")
}

fn no_failures(shared: &Shared) -> anyhow::Result<()> {
    anyhow::ensure!(shared.failures.get() == 0, "a process has failed, see above");
    Ok(())
}
