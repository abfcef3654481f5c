// SPDX-License-Identifier: GPL-2.0
//! Which process a thread is of, and what processes are called, as long as they are there.

use std::collections::HashMap;
use std::fs;

use super::calls::Processes;
use super::event::Pid;

/// What `/proc` has said.
#[derive(Debug, Default)]
pub struct Names {
    processes: HashMap<Pid, Pid>,
    names: HashMap<Pid, String>,
}

impl Names {
    /// What a process is called; nothing where that is not known.
    pub fn name(&mut self, process: Pid) -> &str {
        self.names.entry(process).or_insert_with(|| {
            let name = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
            String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned()
        })
    }

    /// Processes may have got other names.
    pub fn forget_names(&mut self) {
        self.names.clear();
    }

    /// A thread has ended, and its number may be given to another one.
    pub fn forget(&mut self, thread: Pid) {
        self.processes.remove(&thread);
        self.names.remove(&thread);
    }
}

impl Processes for Names {
    fn process_of(&mut self, thread: Pid) -> Pid {
        if let Some(process) = self.processes.get(&thread) {
            return *process;
        }
        let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let process = line.and_then(|number| number.trim().parse().ok()).unwrap_or(0);
        if process != 0 {
            self.processes.insert(thread, process);
            self.name(process);
        }
        process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_name() {
        let mut names = Names::default();
        let own = std::process::id() as Pid;
        assert_eq!(names.process_of(own), own);
        assert_ne!(names.name(own), "");
        names.forget(own);
        assert_eq!(names.names.len(), 0);
    }

    #[test]
    fn a_thread_that_is_gone_has_none() {
        let mut names = Names::default();
        assert_eq!((names.process_of(Pid::MAX), names.name(Pid::MAX)), (0, ""));
    }
}
