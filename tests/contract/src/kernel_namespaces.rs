// SPDX-License-Identifier: GPL-2.0
//! Namespaces, of which not every kernel has all: Android's have none of pids, users and IPC.

use crate::stage::NEEDS;
use nix::sched::CloneFlags;
use std::path::Path;

const KINDS: [(CloneFlags, &str); 3] = [
    (CloneFlags::CLONE_NEWPID, "pid"),
    (CloneFlags::CLONE_NEWUSER, "user"),
    (CloneFlags::CLONE_NEWIPC, "ipc"),
];

/// Returns whether the kernel has these.
pub fn has(flags: CloneFlags) -> bool {
    let is_there = |name| Path::new("/proc/self/ns").join(name).exists();
    KINDS.iter().all(|(kind, name)| !flags.contains(*kind) || is_there(name))
}

/// Ends the test as skipped if the kernel does not have these.
pub fn need(flags: CloneFlags) {
    assert!(has(flags), "{NEEDS}CONFIG_PID_NS, CONFIG_USER_NS and CONFIG_IPC_NS");
}
