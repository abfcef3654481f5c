// SPDX-License-Identifier: GPL-2.0
//! The pids of processes in the initial pid namespace, which some ioctls take.

use crate::kernel_namespaces;
use nix::sched::CloneFlags;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The depth of a test's namespace below the initial one, where there are others.
const DEPTH: usize = 1;

/// The runner's own `/proc`, kept open by a test with another one. None without pid namespaces.
pub struct GlobalPids(Option<File>);

impl GlobalPids {
    /// Opens the mount on `/proc`; to be called before another mount hides it.
    pub fn new() -> Self {
        let is_another = kernel_namespaces::has(CloneFlags::CLONE_NEWPID);
        Self(is_another.then(|| File::open("/proc").expect("open the runner's /proc")))
    }

    /// The number in the initial namespace of a process of the test's namespace.
    pub fn of(&self, pid: i32) -> u32 {
        let Some(root) = self.root() else { return pid as u32 };
        Self::among(&root, pid)
    }

    /// The tid of a thread of a process in the initial pid namespace.
    pub fn of_thread(&self, pid: i32, tid: i32) -> u32 {
        let Some(root) = self.root() else { return tid as u32 };
        Self::among(&root.join(format!("{}/task", self.of(pid))), tid)
    }

    fn root(&self) -> Option<PathBuf> {
        self.0.as_ref().map(|proc| PathBuf::from(format!("/proc/self/fd/{}", proc.as_raw_fd())))
    }

    fn among(proc: &Path, pid: i32) -> u32 {
        let entries = std::fs::read_dir(proc).expect("list the runner's /proc");
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut global: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
        // The test's own processes are the latest, and the kernel has many threads.
        global.sort_unstable();
        let found = global.into_iter().rev().find(|number| {
            let status = std::fs::read_to_string(proc.join(format!("{number}/status")));
            status.is_ok_and(|status| inner_pid(&status) == Some(pid))
        });
        found.unwrap_or_else(|| panic!("no process is {pid} in the test's namespace"))
    }
}

/// The process's number in the namespace of a test.
fn inner_pid(status: &str) -> Option<i32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().nth(DEPTH)?.parse().ok()
}
