// SPDX-License-Identifier: GPL-2.0
//! The log files of the driver, read strictly: readers of the C driver's files expect this form.
//!
//! They list all that the driver has, and processes of earlier tests may still be ending. So a test
//! reads only about its own processes.

use crate::actor::patience;
use crate::port::Port;
use crate::stage::Stage;
use binder_logs::{
    Log, Mode, Node, Process, ProcessState, ProcessStats, State, Stats, TransactionLog, Transactions,
};
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use std::path::PathBuf;
use std::time::Instant;

/// The logs of a stage.
pub struct Logs<'a> {
    t: &'a Stage,
    directory: PathBuf,
}

impl<'a> Logs<'a> {
    /// Mounts the stage's binderfs with logs, before anything of it is open.
    pub fn of(t: &'a Stage) -> Self {
        t.mount_with_logs();
        Self::mounted(t)
    }

    /// The logs of a binderfs that is mounted with them.
    pub fn mounted(t: &'a Stage) -> Self {
        Self { t, directory: t.device("binder_logs") }
    }

    /// The logs in another directory, about the same processes.
    pub fn at(t: &'a Stage, directory: PathBuf) -> Self {
        Self { t, directory }
    }

    /// A file's path.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Reads a file.
    #[track_caller]
    pub fn read<T: Log>(&self, name: &str) -> T {
        T::read(&self.path(name), Mode::Strict).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Reads `state`.
    #[track_caller]
    pub fn state(&self) -> State {
        self.read("state")
    }

    /// The part of `state` about a port's process and the stage's first device.
    #[track_caller]
    pub fn process(&self, port: &Port) -> Process {
        only(self.blocks(self.state().processes, port))
    }

    /// The part of `transactions` about it, if there is one.
    #[track_caller]
    pub fn transactions(&self, port: &Port) -> Option<Process> {
        let transactions: Transactions = self.read("transactions");
        self.blocks(transactions.processes, port).pop()
    }

    /// `proc/<pid>` of a port's process, for each of its devices.
    #[track_caller]
    pub fn file_of(&self, port: &Port) -> Vec<Process> {
        self.read::<ProcessState>(&format!("proc/{}", self.t.global_pid(port))).processes
    }

    fn blocks(&self, processes: Vec<Process>, port: &Port) -> Vec<Process> {
        let pid = self.t.global_pid(port) as i32;
        processes.into_iter().filter(|block| block.pid == pid && block.context == "binder").collect()
    }

    /// The part of `state` about a port's thread.
    #[track_caller]
    pub fn thread(&self, port: &Port) -> binder_logs::Thread {
        let task = self.t.task_of(port);
        only(self.process(port).threads.into_iter().filter(|thread| thread.id == task.thread).collect())
    }

    /// The part of `state` about a node of a port's process, by the owner's pointer.
    #[track_caller]
    pub fn node(&self, port: &Port, ptr: u64) -> Node {
        let is_wanted = |node: &Node| node.ptr == binder_logs::Pointer::Value(ptr);
        only(self.process(port).nodes.into_iter().filter(is_wanted).collect())
    }

    /// Reads `stats`.
    #[track_caller]
    pub fn stats(&self) -> Stats {
        self.read("stats")
    }

    /// The part of `stats` about a port's process.
    #[track_caller]
    pub fn stats_of(&self, port: &Port) -> ProcessStats {
        let pid = self.t.global_pid(port) as i32;
        let all = self.stats().processes.into_iter();
        only(all.filter(|process| process.pid == pid && process.context == "binder").collect())
    }

    /// Reads `transaction_log`.
    #[track_caller]
    pub fn log(&self) -> TransactionLog {
        self.read("transaction_log")
    }

    /// Reads `failed_transaction_log`.
    #[track_caller]
    pub fn failed(&self) -> TransactionLog {
        self.read("failed_transaction_log")
    }
}

/// Debugfs, for as long as this lives.
pub struct Debugfs(PathBuf);

impl Debugfs {
    /// Mounts it.
    pub fn of(t: &Stage) -> Self {
        let path = t.directory("debugfs-of-logs");
        mount(Some("debugfs"), &path, Some("debugfs"), MsFlags::empty(), None::<&str>)
            .expect("mount debugfs");
        Self(path)
    }

    /// The directory of the driver's logs.
    pub fn logs(&self) -> PathBuf {
        self.0.join("binder")
    }
}

impl Drop for Debugfs {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// The only one of a list.
#[track_caller]
pub fn only<T: std::fmt::Debug>(mut items: Vec<T>) -> T {
    assert_eq!(items.len(), 1, "not one: {items:?}");
    items.remove(0)
}

/// Looks again until something is so: for what a driver may do a moment later.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: never");
        std::thread::yield_now();
    }
}
