// SPDX-License-Identifier: GPL-2.0
//! The log files of the driver as a test reads them: to the last word, as whoever knows the C driver's expects them.
//!
//! They are about all that the driver has, and what earlier tests have left may still be going. So a test
//! looks only at what its own processes have.

use crate::actor::patience;
use crate::port::Port;
use crate::stage::Stage;
use binder_logs::{
    Log, Mode, Node, Process, ProcessState, ProcessStats, State, Stats, TransactionLog, Transactions,
};
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

    /// Those of a binderfs that is mounted with them.
    pub fn mounted(t: &'a Stage) -> Self {
        Self { t, directory: t.device("binder_logs") }
    }

    /// Those of another directory, about the same processes.
    pub fn at(t: &'a Stage, directory: PathBuf) -> Self {
        Self { t, directory }
    }

    /// A file's path.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// What a file says.
    #[track_caller]
    pub fn read<T: Log>(&self, name: &str) -> T {
        T::read(&self.path(name), Mode::Strict).unwrap_or_else(|why| panic!("{why}"))
    }

    /// What `state` says.
    #[track_caller]
    pub fn state(&self) -> State {
        self.read("state")
    }

    /// What `state` says of a port's process and the stage's first device.
    #[track_caller]
    pub fn process(&self, port: &Port) -> Process {
        only(self.blocks(self.state().processes, port))
    }

    /// What `transactions` says of it, if anything.
    #[track_caller]
    pub fn transactions(&self, port: &Port) -> Option<Process> {
        let transactions: Transactions = self.read("transactions");
        self.blocks(transactions.processes, port).pop()
    }

    /// What `proc/<pid>` says of a port's process, for each of its devices.
    #[track_caller]
    pub fn file_of(&self, port: &Port) -> Vec<Process> {
        self.read::<ProcessState>(&format!("proc/{}", self.t.global_pid(port))).processes
    }

    fn blocks(&self, processes: Vec<Process>, port: &Port) -> Vec<Process> {
        let pid = self.t.global_pid(port) as i32;
        processes.into_iter().filter(|block| block.pid == pid && block.context == "binder").collect()
    }

    /// What `state` says of a port's thread.
    #[track_caller]
    pub fn thread(&self, port: &Port) -> binder_logs::Thread {
        let task = self.t.task_of(port);
        only(self.process(port).threads.into_iter().filter(|thread| thread.id == task.thread).collect())
    }

    /// What `state` says of the node that a port's process knows by this number.
    #[track_caller]
    pub fn node(&self, port: &Port, ptr: u64) -> Node {
        let is_wanted = |node: &Node| node.ptr == binder_logs::Pointer::Value(ptr);
        only(self.process(port).nodes.into_iter().filter(is_wanted).collect())
    }

    /// What `stats` says of all.
    #[track_caller]
    pub fn stats(&self) -> Stats {
        self.read("stats")
    }

    /// What `stats` says of a port's process.
    #[track_caller]
    pub fn stats_of(&self, port: &Port) -> ProcessStats {
        let pid = self.t.global_pid(port) as i32;
        let all = self.stats().processes.into_iter();
        only(all.filter(|process| process.pid == pid && process.context == "binder").collect())
    }

    /// What `transaction_log` says.
    #[track_caller]
    pub fn log(&self) -> TransactionLog {
        self.read("transaction_log")
    }

    /// What `failed_transaction_log` says.
    #[track_caller]
    pub fn failed(&self) -> TransactionLog {
        self.read("failed_transaction_log")
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
