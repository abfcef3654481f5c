// SPDX-License-Identifier: GPL-2.0
//! One test after the other, each in a process of its own with a time limit, reported as TAP.

use crate::{stage, tests};
use anyhow::{anyhow, Context, Result};
use nix::sys::signal::{killpg, Signal};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The limit of a test, in seconds. Most take milliseconds, but slow and busy machines need more.
const LIMIT: Duration = Duration::from_secs(240);

/// A test: its results, or the reason of its failure.
pub type Test = fn() -> Result<String>;

/// Run the tests whose name contains `filter`; how many failed.
pub fn run(filter: &str) -> Result<usize> {
    let _manager = stage::Manager::start(stage::DEVICE)?;
    let chosen: Vec<_> = tests::ALL.iter().filter(|(name, _)| name.contains(filter)).collect();
    println!("1..{}", chosen.len());
    let mut failed = 0;
    for (number, (name, _)) in chosen.iter().enumerate() {
        let (verdict, remarks) = match in_own_process(name) {
            Ok(seen) => ("ok", seen),
            Err(error) => {
                failed += 1;
                ("not ok", format!("{error:#}"))
            }
        };
        println!("{verdict} {} - {name}", number + 1);
        remarks.lines().for_each(|line| println!("# {line}"));
    }
    Ok(failed)
}

/// The body of the process that [`run`] starts for each test.
pub fn one(name: &str) -> Result<String> {
    let (_, test) =
        tests::ALL.iter().find(|(known, _)| *known == name).ok_or_else(|| anyhow!("no test {name}"))?;
    stage::join_binder(4)?;
    test()
}

fn in_own_process(name: &str) -> Result<String> {
    let child = Command::new(std::env::current_exe()?)
        .args(["one", name])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let group = Pid::from_raw(child.id().cast_signed());
    let ended = within(child, LIMIT, group);
    // Kills all that the test left behind. Nothing left is an error here.
    let _ = killpg(group, Signal::SIGKILL);
    ended
}

/// The output of a child that ends by itself in time, and well.
fn within(mut child: Child, limit: Duration, group: Pid) -> Result<String> {
    let deadline = Instant::now() + limit;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            let _ = killpg(group, Signal::SIGKILL);
            let said = child.wait_with_output()?;
            let said = String::from_utf8_lossy(&said.stderr).trim().to_owned();
            return Err(anyhow!("no end after {} s {said}", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // Its own children may still hold the other ends of the pipes.
    let _ = killpg(group, Signal::SIGKILL);
    let ended = child.wait_with_output().context("reading the test's output")?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned()),
        false => Err(anyhow!("{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr).trim())),
    }
}
