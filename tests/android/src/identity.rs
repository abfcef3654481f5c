// SPDX-License-Identifier: GPL-2.0
//! Who a process is: its user, its security context, and how it begins and ends.

use crate::shared::Shared;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::waitpid;
use nix::unistd::{fork, setgroups, setresgid, setresuid, ForkResult, Gid, Pid, Uid};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The users of Android's processes (`android_filesystem_config.h`).
pub mod user {
    /// The system's.
    pub const SYSTEM: u32 = 1000;
    /// That of the sound service.
    pub const AUDIO: u32 = 1041;
    /// One that is kept for vendors.
    pub const VENDOR: u32 = 2900;
    /// The first application's.
    pub const FIRST_APPLICATION: u32 = 10_000;
}

/// Whether the kernel enforces the policy of this program.
pub fn has_policy() -> bool {
    std::fs::read_to_string("/proc/self/attr/current").is_ok_and(|context| context.starts_with("u:r:"))
}

/// Starts a process of a user and a domain.
pub fn start(
    shared: &'static Shared,
    name: &'static str,
    uid: u32,
    domain: &str,
    what: impl FnOnce(),
) -> Pid {
    let domain = domain.to_owned();
    // SAFETY: this program has one thread when it forks, so no lock is left held in the child.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            // SAFETY: the child uses none of its parent's files but the first three, and returns to no code that would.
            unsafe { libc::close_range(3, u32::MAX, 0) };
            std::panic::set_hook(Box::new(move |why| {
                println!("failure: {name}: {why}");
                shared.failures.add();
                // A thread alone does not end: nobody would notice.
                std::process::exit(101);
            }));
            become_one(uid, &domain);
            what();
            std::process::exit(0);
        }
    }
}

/// Starts a program of Android's as a user and a domain.
pub fn execute(
    shared: &'static Shared,
    name: &'static str,
    domain: &str,
    program: &Path,
    device: &str,
) -> Pid {
    let mut command = Command::new(program);
    command.arg(device).env("LD_LIBRARY_PATH", program.with_file_name("lib"));
    start(shared, name, user::SYSTEM, domain, move || panic!("{}", command.exec()))
}

fn become_one(uid: u32, domain: &str) {
    if has_policy() {
        std::fs::write("/proc/self/attr/current", format!("u:r:{domain}")).expect("another security context");
    }
    setgroups(&[]).expect("no groups");
    setresgid(Gid::from_raw(uid), Gid::from_raw(uid), Gid::from_raw(uid)).expect("another group");
    setresuid(Uid::from_raw(uid), Uid::from_raw(uid), Uid::from_raw(uid)).expect("another user");
}

/// Kills a process and waits until it is gone.
pub fn end(pid: Pid) {
    kill(pid, Signal::SIGKILL).expect("kill");
    waitpid(pid, None).expect("wait for a child");
}
