// SPDX-License-Identifier: GPL-2.0
//! The state of each thread of a guest, for the report of a test that did not end.

use std::path::{Path, PathBuf};

/// A line for each thread of user space, with its kernel stack where the kernel shows it (root, and
/// `CONFIG_STACKTRACE`).
pub fn describe() -> String {
    let processes = directories(Path::new("/proc"));
    let threads = processes.iter().flat_map(|process| directories(&process.join("task")));
    threads.filter_map(|thread| describe_one(&thread)).collect()
}

/// The directories in another that are named by numbers.
fn directories(of: &Path) -> Vec<PathBuf> {
    let Ok(entries) = of.read_dir() else { return Vec::new() };
    let is_number =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().parse::<u32>().is_ok());
    entries.filter_map(Result::ok).map(|entry| entry.path()).filter(is_number).collect()
}

/// [`None`] for a kernel thread, and for one that has ended.
fn describe_one(thread: &Path) -> Option<String> {
    let read = |name: &str| std::fs::read_to_string(thread.join(name)).unwrap_or_default();
    let status = read("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim().to_string())
    };
    if field("Kthread")? != "0" {
        return None;
    }
    let of_process = field("Tgid")?;
    let stack: String = read("stack").lines().map(|line| format!("        {line}\n")).collect();
    Some(format!(
        "    process {of_process} thread {} {}: {}, in {}, system call {}\n{stack}",
        field("Pid")?,
        field("Name")?,
        field("State")?,
        read("wchan"),
        read("syscall").trim(),
    ))
}
