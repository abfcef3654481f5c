// SPDX-License-Identifier: GPL-2.0
//! The contract of the Binder driver, as tests that run in a guest against the loaded driver.
//!
//! The layers of a test, from the outside in:
//!
//! - [`runner`] puts each test into namespaces of its own, with a time limit;
//! - [`stage`] gives it a fresh binderfs and memory that all its processes share;
//! - the test conducts [`actor`]s, processes and threads that execute one system call at a time and
//!   report its result, so that a test reads from top to bottom although actors run in parallel;
//! - [`port`] is an actor's opened device, with the moves of the protocol;
//! - [`inbox`] fails a test whose driver returns something that the test did not expect.
//!
//! The tests are in [`tests`], one module a group. Each names the rules that it checks.

mod actor;
mod agent;
mod aio;
mod arena;
mod bystander;
mod cast;
mod cgroup;
mod child;
mod containers;
mod directory;
mod examples;
mod freezer;
mod fuzz;
mod gauge;
mod inbox;
mod kernel_namespaces;
mod linger;
mod load;
mod loading;
mod logs;
mod netlink;
mod ops;
mod owner_counts;
mod pages;
mod pids;
mod port;
mod rules;
mod runner;
mod scenes;
mod scheduling;
mod sg;
mod shrinker;
mod stage;
mod suite;
mod tagging;
mod tests;
mod threads;
mod traced;
mod userfault;

use clap::{Args, Parser, Subcommand};
use suite::Driver;

#[derive(Parser)]
#[command(about = "The contract of the Binder driver, tested over real ioctls", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the tests against the driver that is loaded
    Run(RunArgs),
    /// Print the names of the tests and their rules
    List {
        /// Only tests whose name contains this, or that name this rule
        #[arg(long)]
        filter: Vec<String>,
    },
    /// Bring the tests that a document names for each rule up to date
    Rules {
        /// The document, docs/contract.md
        #[arg(long)]
        update: std::path::PathBuf,
    },
    /// Random streams of commands, and a digest of the results of each
    Fuzz(fuzz::FuzzArgs),
    /// The program that an actor becomes by `exec`
    #[command(hide = true)]
    Agent {
        /// The descriptor of its channel
        channel: i32,
        /// The descriptor of a device
        device: Option<i32>,
    },
    /// Serve as a context manager that gives each caller the nodes of others
    Directory {
        /// The device
        device: std::path::PathBuf,
    },
    /// Load the driver with many processes that call each other, and check that nothing is lost
    Load(load::LoadArgs),
    /// Put processes into a certain state, and run a program that looks at them
    Scene(scenes::SceneArgs),
    /// Play scenes with the driver's trace events on, and print those events
    Trace(traced::TraceArgs),
    /// Make the scenes of the worked examples, and look at them
    Example(examples::ExampleArgs),
}

#[derive(Args)]
pub struct RunArgs {
    /// The driver that is loaded: decides which documented differences are expected
    #[arg(long, value_enum, default_value_t = Driver::Rust)]
    driver: Driver,
    /// Only tests whose name contains this, or that name this rule; several times, any of them
    #[arg(long)]
    filter: Vec<String>,
    /// The tests that this file names, one a line, in its order
    #[arg(long, conflicts_with = "filter")]
    named: Option<std::path::PathBuf>,
    /// Only tests for this number of CPUs, 1 or 2
    #[arg(long)]
    cpus: Option<usize>,
    /// Of those, every second one: from the first or from the second on
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=2))]
    half: Option<u8>,
    /// Run none after the first that fails
    #[arg(long)]
    stop_at_first_failure: bool,
    /// Print one JSON object per test instead of a line
    #[arg(long)]
    json: bool,
    /// Also write one JSON object per test into this file
    #[arg(long)]
    record: Option<std::path::PathBuf>,
    /// Seconds that a test may take; debug kernels on busy machines are slow
    #[arg(long, default_value_t = 240)]
    timeout: u64,
    /// Seconds that a single step of a test may take; less where many are known to fail
    #[arg(long, default_value_t = 15)]
    patience: u64,
    /// Have SELinux load this policy first: for the tests of group `policy`
    #[arg(long)]
    policy: Option<std::path::PathBuf>,
    /// The driver's numbers start near their ends: run the tests of that, too
    #[arg(long)]
    near_limits: bool,
    /// Load the driver from here before each test, and take it away afterwards: for group `unload`
    #[arg(long)]
    module: Option<std::path::PathBuf>,
    /// The parameters for that
    #[arg(long, default_value = "", requires = "module")]
    parameters: String,
    /// Run the selection this often
    #[arg(long, default_value_t = 1)]
    repeat: u32,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Run(args) => {
            let failed = runner::run(&args)?;
            std::process::exit(i32::from(failed > 0));
        }
        Command::List { filter } => {
            for test in suite::select(&filter) {
                println!("{} [{}]", test.name(), test.rules.join(", "));
            }
        }
        Command::Rules { update } => {
            std::fs::write(&update, rules::updated(&std::fs::read_to_string(&update)?)?)?;
        }
        Command::Fuzz(args) => fuzz::run(&args)?,
        Command::Agent { channel, device } => {
            agent::install_wake_up_handler(nix::sys::signal::SaFlags::empty());
            agent::serve_after_exec(channel, device);
        }
        Command::Directory { device } => directory::serve(&device)?,
        Command::Load(args) => load::run(&args)?,
        Command::Scene(args) => std::process::exit(scenes::run(&args)?),
        Command::Trace(args) => traced::run(&args)?,
        Command::Example(args) => examples::run(&args)?,
    }
    Ok(())
}
