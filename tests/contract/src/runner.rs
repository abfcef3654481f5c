// SPDX-License-Identifier: GPL-2.0
//! Runs tests, each in namespaces of its own and within a time limit.
//!
//! A test is the second process of a pid namespace. When it ends, or takes too long, the namespace's
//! first process is killed, and with it everything that the test has started.

use crate::actor::CloneArguments;
use crate::child::caught;
use crate::kernel_namespaces;
use crate::loading;
use crate::pids::GlobalPids;
use crate::scheduling::allow;
use crate::stage::{Stage, NEEDS};
use crate::suite::{self, Driver, Test};
use crate::RunArgs;
use anyhow::{bail, Context};
use nix::errno::Errno;
use nix::mount::{mount, MsFlags};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::{fork, getpid, pipe, ForkResult, Pid};
use serde::Serialize;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// A private, empty directory for each test.
pub const SCRATCH: &str = "/tmp";

/// The end of a test.
#[derive(Clone, Serialize)]
#[serde(tag = "result", content = "why", rename_all = "snake_case")]
enum Verdict {
    /// As the contract demands.
    Ok,
    /// Otherwise, for this reason.
    Failed(String),
    /// Otherwise, but that is known of the driver.
    ExpectedDifference(String),
    /// Not at all, for the guest lacks something.
    Skipped(String),
}

/// The record of a test's end.
#[derive(Serialize)]
struct Record {
    test: String,
    rules: &'static [&'static str],
    driver: Driver,
    ms: u128,
    #[serde(flatten)]
    verdict: Verdict,
}

/// Runs the tests that the arguments select, and returns how many failed.
pub fn run(args: &RunArgs) -> anyhow::Result<usize> {
    let mut tests: Vec<&Test> = match &args.named {
        Some(path) => suite::named(&std::fs::read_to_string(path).context("read the tests' names")?),
        None => suite::select(&args.filter).collect(),
    };
    tests.retain(|test| args.cpus.is_none_or(|cpus| cpus == test.cpus()));
    if let Some(half) = args.half {
        tests = tests.into_iter().skip(usize::from(half) - 1).step_by(2).collect();
    }
    if tests.is_empty() {
        bail!("no test matches {}", args.filter.join(", "));
    }
    crate::actor::set_patience(Duration::from_secs(args.patience));
    if args.near_limits {
        crate::stage::set_near_limits();
    }
    if let Some(module) = &args.module {
        loading::choose(module.clone(), args.parameters.clone());
    }
    if let Some(policy) = &args.policy {
        // One write, because the module takes the whole policy at once.
        std::fs::write("/sys/fs/selinux/load", std::fs::read(policy)?).context("load the policy")?;
    }
    let mut records =
        args.record.as_ref().map(std::fs::File::create).transpose().context("make the record")?;
    let (mut passed, mut failed, mut differences, mut skipped) = (0, 0, 0, 0);
    for test in (0..args.repeat).flat_map(|_| &tests) {
        // The runner, too, for what begins and ends a test takes the locks that the test takes.
        allow(Pid::from_raw(0), &[0, 1][..test.cpus()]);
        let start = Instant::now();
        let verdict = match &args.module {
            Some(_) => isolated_with(test, args)?,
            None => isolated(test, args)?,
        };
        match &verdict {
            Verdict::Failed(_) => failed += 1,
            Verdict::ExpectedDifference(_) => (passed, differences) = (passed + 1, differences + 1),
            Verdict::Skipped(_) => skipped += 1,
            Verdict::Ok => passed += 1,
        }
        let record = json(test, args, &verdict, start.elapsed());
        match args.json {
            true => println!("{record}"),
            false => report(test, args, &verdict),
        }
        if let Some(file) = &mut records {
            writeln!(file, "{record}")?;
        }
        if failed > 0 && args.stop_at_first_failure {
            break;
        }
    }
    if differences > 0 && !args.json {
        println!("{differences} of the passed are expected differences on {}", args.driver);
    }
    if skipped > 0 && !args.json {
        println!("{skipped} skipped: this guest lacks what they need");
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed)
}

fn json(test: &Test, args: &RunArgs, verdict: &Verdict, time: Duration) -> String {
    let record = Record {
        test: test.name(),
        rules: test.rules,
        driver: args.driver,
        ms: time.as_millis(),
        verdict: verdict.clone(),
    };
    serde_json::to_string(&record).expect("plain data")
}

fn report(test: &Test, args: &RunArgs, verdict: &Verdict) {
    let name = test.name();
    match verdict {
        Verdict::Ok => println!("{name} ok"),
        Verdict::Failed(why) => println!("{name} FAILED ({why}) {}", test.rules.join(" ")),
        Verdict::ExpectedDifference(why) => println!("{name} expected difference on {} ({why})", args.driver),
        Verdict::Skipped(why) => println!("{name} skipped ({why})"),
    }
}

/// Runs one test with the driver loaded for it alone.
fn isolated_with(test: &Test, args: &RunArgs) -> anyhow::Result<Verdict> {
    loading::load("").context("load the driver")?;
    let verdict = isolated(test, args)?;
    if !loading::is_loaded(args.driver) {
        return Ok(verdict);
    }
    match (loading::unload_at_last(args.driver), verdict) {
        (Err(errno), Verdict::Ok) => Ok(Verdict::Failed(format!("the driver cannot be taken away: {errno}"))),
        (_, verdict) => Ok(verdict),
    }
}

/// Runs one test in new namespaces.
fn isolated(test: &Test, args: &RunArgs) -> anyhow::Result<Verdict> {
    let (from, to) = pipe().context("make a pipe")?;
    let first = in_new_namespaces(to, |pipe| perform(test, args.driver, pipe))?;
    let verdict = collect(from, first, Duration::from_secs(args.timeout));
    waitpid(first, None)?;
    Ok(verdict)
}

/// Waits for the one byte and the words that a test sends at its end.
fn collect(pipe: OwnedFd, first: Pid, limit: Duration) -> Verdict {
    let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    let ready = poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], timeout);
    if ready == Ok(0) {
        eprint!("{}", crate::threads::describe());
        let _ = kill(first, Signal::SIGKILL);
        return Verdict::Failed(format!("did not end within {} s", limit.as_secs()));
    }
    let mut message = Vec::new();
    let mut pipe = std::fs::File::from(pipe);
    let mut chunk = [0; 4096];
    // The first message is all: processes that the test left behind may hold the pipe open.
    if let Ok(length) = pipe.read(&mut chunk) {
        message.extend_from_slice(&chunk[..length]);
    }
    let words = || String::from_utf8_lossy(&message[1..]).into_owned();
    match message.first() {
        Some(b'+') => Verdict::Ok,
        Some(b'~') => Verdict::ExpectedDifference(words()),
        Some(b'?') => Verdict::Skipped(words()),
        Some(b'-') => Verdict::Failed(words()),
        _ => Verdict::Failed("the test's process died".to_string()),
    }
}

/// Runs the body as the second process of new namespaces; returns the first, which ends with the
/// body and ends all in them. A kernel without pid namespaces needs a search for what is left.
pub fn in_new_namespaces(pipe: OwnedFd, body: impl FnOnce(&OwnedFd)) -> anyhow::Result<Pid> {
    let has_pids = kernel_namespaces::has(CloneFlags::CLONE_NEWPID);
    let pids = if has_pids { CloneFlags::CLONE_NEWPID } else { CloneFlags::empty() };
    std::io::stdout().flush()?;
    // SAFETY: this process has one thread, and no number is set.
    let forked = unsafe { CloneArguments::in_namespaces(pids | CloneFlags::CLONE_NEWNS).fork() };
    if let ForkResult::Parent { child } = forked.context("new namespaces")? {
        return Ok(child);
    }
    prctl::set_pdeathsig(Signal::SIGKILL).expect("die with the runner");
    // As the first process of a namespace is.
    prctl::set_child_subreaper(true).expect("inherit the orphans");
    // SAFETY: this process has one thread.
    if let ForkResult::Parent { child } = unsafe { fork() }.expect("fork") {
        drop(pipe);
        reap_until(child);
        // The end of a namespace's first process is the end of all in it.
        if !has_pids {
            end_all_children();
        }
        std::process::exit(0)
    }
    body(&pipe);
    std::process::exit(0)
}

/// Runs a load in namespaces of its own; returns its output, or the reason of its failure.
pub fn in_namespaces(load: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<String> {
    let (from, to) = pipe()?;
    in_new_namespaces(to, |pipe| {
        let message = match load() {
            Ok(words) => format!("+{words}"),
            Err(why) => format!("-{why:#}"),
        };
        let _ = nix::unistd::write(pipe, message.as_bytes());
    })?;
    let mut message = vec![0; 4096];
    let length = nix::unistd::read(&from, &mut message)?;
    let message = String::from_utf8_lossy(&message[..length]).into_owned();
    match message.split_at_checked(1) {
        Some(("+", words)) => Ok(words.to_string()),
        Some((_, why)) => bail!("{why}"),
        None => bail!("its process died"),
    }
}

fn reap_until(child: Pid) {
    while let Ok(status) = waitpid(None, None) {
        if status.pid() == Some(child) && !matches!(status, WaitStatus::Stopped(..)) {
            return;
        }
    }
}

/// Ends the children of this process, and their orphans.
fn end_all_children() {
    loop {
        children_of(getpid()).for_each(|pid| {
            let _ = kill(pid, Signal::SIGKILL);
        });
        if waitpid(None, None) == Err(Errno::ECHILD) {
            return;
        }
    }
}

fn children_of(parent: Pid) -> impl Iterator<Item = Pid> {
    let line = format!("PPid:\t{parent}");
    let is_child = move |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.lines().any(|of| of == line))
    };
    let entries = std::fs::read_dir("/proc").expect("list /proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_child).map(Pid::from_raw)
}

/// Gives the body a private /tmp and a /proc of its own namespace.
pub fn private_mounts() {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private mounts");
    std::fs::create_dir_all(SCRATCH).expect("make the scratch directory");
    mount(Some("tmpfs"), SCRATCH, Some("tmpfs"), MsFlags::empty(), none).expect("mount a scratch directory");
    std::fs::create_dir_all("/proc").expect("make /proc");
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).expect("mount /proc");
}

fn perform(test: &Test, driver: Driver, pipe: &OwnedFd) {
    let mut differences = String::new();
    let result = caught(|| {
        let pids = GlobalPids::new();
        private_mounts();
        let stage = Stage::new(driver, Path::new(SCRATCH), pids);
        (test.run)(&stage);
        crate::inbox::expect_nothing_unasked();
        differences = stage.differences();
    });
    let message = match result {
        Ok(()) if differences.is_empty() => "+".to_string(),
        Ok(()) => format!("~{differences}"),
        // The test's process or a child of it lacks something.
        Err(why) => match why.split_once(NEEDS) {
            Some((_, what)) => format!("?needs {what}"),
            None => format!("-{why}"),
        },
    };
    let mut pipe = std::fs::File::from(pipe.try_clone().expect("a descriptor"));
    let cut = message.char_indices().nth(4000).map_or(message.len(), |(index, _)| index);
    pipe.write_all(&message.as_bytes()[..cut.min(4090)]).expect("report to the runner");
}
