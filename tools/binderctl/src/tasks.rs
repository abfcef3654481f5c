// SPDX-License-Identifier: GPL-2.0
//! Processes and threads in `/proc`: their names and their activity.

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A thread and its process; 0 where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Task {
    pub process: i32,
    pub thread: i32,
}

/// Names of processes and threads, each read once.
#[derive(Debug)]
pub struct Names {
    root: &'static str,
    processes: HashMap<i32, Option<String>>,
    threads: HashMap<(i32, i32), Option<String>>,
    /// The process that a thread is of.
    owners: HashMap<i32, i32>,
}

impl Names {
    /// Those of this machine.
    pub fn new() -> Self {
        Self::at("/proc")
    }

    /// None at all, so that a test prints the same on every machine.
    #[cfg(test)]
    pub fn none() -> Self {
        Self::at("/nonexistent")
    }

    fn at(root: &'static str) -> Self {
        Self { root, processes: HashMap::new(), threads: HashMap::new(), owners: HashMap::new() }
    }

    /// The name of a process, if it exists.
    pub fn process(&mut self, pid: i32) -> Option<&str> {
        self.processes.entry(pid).or_insert_with(|| comm(&format!("{}/{pid}/comm", self.root))).as_deref()
    }

    /// A process in a sentence: `12 (surfaceflinger)`.
    pub fn of_process(&mut self, pid: i32) -> String {
        match self.process(pid) {
            Some(name) => format!("{pid} ({name})"),
            None => pid.to_string(),
        }
    }

    /// A thread in a sentence: `12:13 (surfaceflinger)`.
    pub fn of_thread(&mut self, pid: i32, tid: i32) -> String {
        let path = || comm(&format!("{}/{pid}/task/{tid}/comm", self.root));
        match self.threads.entry((pid, tid)).or_insert_with(path) {
            Some(name) => format!("{pid}:{tid} ({name})"),
            None => format!("{pid}:{tid}"),
        }
    }

    /// The process of a thread, whose name is then known even if it ends; 0 where that is not known.
    pub fn process_of(&mut self, thread: i32) -> i32 {
        if let Some(process) = self.owners.get(&thread) {
            return *process;
        }
        let status = fs::read_to_string(format!("{}/{thread}/status", self.root)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let process = line.and_then(|number| number.trim().parse().ok()).unwrap_or(0);
        if process != 0 {
            self.owners.insert(thread, process);
            self.process(process);
        }
        process
    }

    /// A thread has ended, and its number may be given to another one.
    pub fn forget(&mut self, thread: i32) {
        self.owners.remove(&thread);
        self.processes.remove(&thread);
    }

    /// Processes may have got other names.
    pub fn forget_names(&mut self) {
        self.processes.clear();
        self.threads.clear();
    }
}

/// Names end at a line end, and may hold any other byte.
fn comm(path: &str) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let name = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The current activity of a thread, in words.
pub fn activity(pid: i32, tid: i32) -> String {
    let folder = format!("/proc/{pid}/task/{tid}");
    let Some(state) = state(&folder) else { return "has ended".to_owned() };
    let place =
        fs::read_to_string(format!("{folder}/wchan")).ok().filter(|name| !name.is_empty() && name != "0");
    let place = place.map(|name| format!(" in {name}")).unwrap_or_default();
    match state {
        'R' => "is running".to_owned(),
        'S' => format!("sleeps{place}"),
        'D' => format!("waits for the kernel{place}"),
        'T' | 't' => "is stopped by a signal or a debugger".to_owned(),
        'Z' | 'X' => "has ended".to_owned(),
        other => format!("is in state {other}"),
    }
}

/// Returns whether a thread has ended. Its number is one of the first pid namespace, as in logs. Returns `false` in
/// any other pid namespace.
pub fn has_ended(task: Task) -> bool {
    const FIRST: u64 = 0xefff_fffc;
    let is_in_first = fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == FIRST);
    let has_ended = match state(&format!("/proc/{}/task/{}", task.process, task.thread)) {
        Some(state) => "ZX".contains(state),
        // It may be there and not be shown.
        None => kill(Pid::from_raw(task.thread), None) == Err(Errno::ESRCH),
    };
    is_in_first && has_ended
}

/// The number of context switches of a thread, which is constant while it sleeps.
pub fn switches(task: Task) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/task/{}/status", task.process, task.thread)).ok()?;
    let counts =
        status.lines().filter_map(|line| line.split_once("ctxt_switches:")?.1.trim().parse::<u64>().ok());
    Some(counts.sum())
}

/// Returns true if a process is stopped, so that it serves no calls.
pub fn is_stopped(pid: i32) -> bool {
    state(&format!("/proc/{pid}")).is_some_and(|state| "Tt".contains(state))
}

/// The frozen cgroup that a process is in: the innermost one that is frozen itself.
pub fn frozen_cgroup(pid: i32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let has = |folder: &Path, file: &str, line: &str| {
        fs::read_to_string(folder.join(file)).is_ok_and(|text| text.lines().any(|other| other == line))
    };
    let folder = root.join(path);
    if !has(&folder, "cgroup.events", "frozen 1") {
        return None;
    }
    folder.ancestors().find(|folder| has(folder, "cgroup.freeze", "1")).map(Path::to_owned)
}

/// The state of a process or a thread, by its folder.
fn state(folder: &str) -> Option<char> {
    state_of(&fs::read(format!("{folder}/stat")).ok()?)
}

/// The state stands behind the name, which may have any characters in it, parentheses too.
fn state_of(stat: &[u8]) -> Option<char> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end + 2).map(|&byte| char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_found_behind_any_name() {
        assert_eq!(state_of(b"12 (a) R b) S 1 2"), Some('S'));
        assert_eq!(state_of(b"12 (a"), None);
    }

    #[test]
    fn this_process_has_a_name_and_runs() {
        let pid = std::process::id() as i32;
        let mut names = Names::new();
        assert!(names.of_process(pid).starts_with(&format!("{pid} (")));
        assert_eq!(names.process_of(pid), pid);
        names.forget(pid);
        assert!(names.processes.is_empty() && names.owners.is_empty());
        assert_eq!((names.process_of(i32::MAX), names.process(i32::MAX)), (0, None));
        assert_eq!(activity(pid, 0), "has ended");
        let myself = Task { process: pid, thread: pid };
        assert!(!has_ended(myself) && switches(myself).is_some_and(|count| count > 0));
        assert!(!is_stopped(pid));
    }
}
