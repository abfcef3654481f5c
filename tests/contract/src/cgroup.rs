// SPDX-License-Identifier: GPL-2.0
//! Cgroups, which stay until the guest ends.

use anyhow::Context;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// A cgroup.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Has cgroups that are made from now on count memory.
    pub fn count_memory() -> anyhow::Result<()> {
        std::fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+memory").context("count memory")
    }

    /// The cgroup of this name, made if it does not exist.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let path = Path::new(ROOT).join(name);
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    /// Moves a process into it.
    pub fn add(&self, pid: i32) -> anyhow::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    pub fn read(&self, name: &str) -> anyhow::Result<String> {
        let path = self.0.join(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    pub fn write(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let path = self.0.join(name);
        std::fs::write(&path, value).with_context(|| format!("write {value} to {}", path.display()))
    }

    /// Freezes its processes, or has them run again.
    pub fn freeze(&self, on: bool) -> anyhow::Result<()> {
        self.write("cgroup.freeze", if on { "1" } else { "0" })
    }

    /// Returns whether all of its processes are frozen.
    pub fn is_frozen(&self) -> anyhow::Result<bool> {
        Ok(self.read("cgroup.events")?.contains("frozen 1"))
    }
}
