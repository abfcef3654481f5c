// SPDX-License-Identifier: GPL-2.0
//! A process that reads every log file of a mount, again and again.

use crate::child;
use anyhow::Context;
use nix::unistd::Pid;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Starts it. It counts in `passes` how often it has read them all, and ends with an error when one cannot
/// be read.
pub fn start(root: &Path, passes: &'static AtomicU64) -> Pid {
    let logs = root.join("binder_logs");
    child::spawn(move || loop {
        if let Err(why) = read_all(&logs) {
            eprintln!("the reader fails: {why:#}");
            std::process::exit(1);
        }
        passes.fetch_add(1, Ordering::SeqCst);
    })
}

/// Reads every file in a folder and in those below. The file of a process may go meanwhile.
fn read_all(folder: &Path) -> anyhow::Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .with_context(|| folder.display().to_string())?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            read_all(&path)?;
            continue;
        }
        match std::fs::read(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound && folder.ends_with("proc") => (),
            read => {
                let text = read.with_context(|| path.display().to_string())?;
                anyhow::ensure!(text.is_ascii(), "{} has strange bytes", path.display());
            }
        }
    }
    Ok(())
}
