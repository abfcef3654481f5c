// SPDX-License-Identifier: GPL-2.0
//! Child processes of a test that run a closure.

use crate::stage::NEEDS;
use anyhow::bail;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::{fork, ForkResult, Pid};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Runs a closure in a child; its panic becomes the caller's.
pub fn run(what: impl FnOnce()) {
    if let Err(why) = try_run(what) {
        panic!("{why}");
    }
}

/// Runs a closure in a child, and returns how it ended.
pub fn try_run(what: impl FnOnce()) -> Result<(), String> {
    let (from, to) = nix::unistd::pipe().expect("a pipe");
    let child = spawn(|| {
        if let Err(why) = caught(what) {
            let mut pipe = std::fs::File::from(to.try_clone().expect("a descriptor"));
            let _ = pipe.write_all(why.as_bytes());
            std::process::exit(1);
        }
    });
    drop(to);
    finish(child, from)
}

/// Forks a child that runs a closure and then exits.
pub fn spawn(what: impl FnOnce()) -> Pid {
    // SAFETY: a test's process has one thread when it forks, so no lock is left held in the child.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            what();
            std::process::exit(0);
        }
    }
}

/// Forks a child that runs a closure, and waits until the child reports that it is ready.
pub fn ready(what: impl FnOnce(Box<dyn FnOnce()>)) -> Pid {
    let (from, to) = nix::unistd::pipe().expect("a pipe");
    let mut to = Some(to);
    let child = spawn(|| {
        let to = to.take().expect("not taken before");
        what(Box::new(move || {
            let _ = nix::unistd::write(&to, b"r");
        }));
    });
    drop(to);
    assert_eq!(nix::unistd::read(&from, &mut [0]), Ok(1), "the process died before it was ready");
    child
}

/// Fails if a child has ended.
pub fn check_alive(pid: Pid) -> anyhow::Result<()> {
    match waitpid(pid, Some(WaitPidFlag::WNOHANG))? {
        WaitStatus::StillAlive => Ok(()),
        status => bail!("a process ended by itself: {status:?}"),
    }
}

/// Kills a child, which must have been alive until then.
pub fn end(pid: Pid) -> anyhow::Result<()> {
    kill(pid, Signal::SIGKILL)?;
    match waitpid(pid, None)? {
        WaitStatus::Signaled(_, Signal::SIGKILL, _) => Ok(()),
        status => bail!("a process ended by itself: {status:?}"),
    }
}

/// Waits for a child that reports its panic over a pipe.
fn finish(child: Pid, pipe: OwnedFd) -> Result<(), String> {
    let mut why = String::new();
    let _ = std::fs::File::from(pipe).read_to_string(&mut why);
    match waitpid(child, None) {
        Ok(WaitStatus::Exited(_, 0)) => Ok(()),
        Ok(WaitStatus::Exited(..)) if !why.is_empty() => Err(why),
        other => Err(format!("the process ended with {other:?} {why}")),
    }
}

/// Runs a closure and turns its panic into words, with the place.
pub fn caught(what: impl FnOnce()) -> Result<(), String> {
    use std::sync::Mutex;
    static LAST: Mutex<String> = Mutex::new(String::new());
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("panic");
        let place = match info.location() {
            Some(at) if !text.contains(NEEDS) => format!(" at {}:{}", at.file(), at.line()),
            _ => String::new(),
        };
        *LAST.lock().unwrap() = format!("{}{place}", text.replace('\n', " "));
    }));
    catch_unwind(AssertUnwindSafe(what)).map_err(|_| LAST.lock().unwrap().clone())
}
