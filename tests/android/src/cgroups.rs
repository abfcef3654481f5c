// SPDX-License-Identifier: GPL-2.0
//! Android's hierarchy of cgroups: a group for each user, and in it one for each process, which is frozen and limited by it.

use anyhow::Context;
use nix::errno::Errno;
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROOT: &str = "/sys/fs/cgroup";

/// Memory that an application may use, and from which on it is slowed down if it is to feel pressure.
pub const MAX: &str = "24M";
/// See [`MAX`].
pub const HIGH: &str = "16M";

/// Has the memory of groups counted.
pub fn prepare() -> anyhow::Result<()> {
    fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+memory").context("count memory in cgroups")
}

/// The group of one process.
pub struct Group(PathBuf);

impl Group {
    /// Makes it and puts the process into it.
    pub fn of(uid: u32, pid: Pid) -> anyhow::Result<Self> {
        let above = Path::new(ROOT).join(format!("uid_{uid}"));
        fs::create_dir_all(&above)?;
        fs::write(above.join("cgroup.subtree_control"), "+memory").context("count memory of processes")?;
        let group = Self(above.join(format!("pid_{pid}")));
        fs::create_dir(&group.0)?;
        group.write("memory.max", MAX)?;
        group.write("cgroup.procs", &pid.to_string())?;
        Ok(group)
    }

    fn write(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let path = self.0.join(name);
        fs::write(&path, value).with_context(|| format!("write {value} to {}", path.display()))
    }

    /// Stops or continues the process.
    pub fn freeze(&self, on: bool) -> anyhow::Result<()> {
        self.write("cgroup.freeze", if on { "1" } else { "0" })
    }

    /// Slows the process down when it uses much memory, which is pressure.
    pub fn limit_softly(&self) -> anyhow::Result<()> {
        self.write("memory.high", HIGH)
    }

    /// Bytes that the process uses.
    pub fn memory(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("memory.current")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Whether the kernel has killed the process because it used more than it may.
    pub fn was_killed_for_memory(&self) -> bool {
        let text = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count != "0"))
    }

    /// Removes the group of a process that has ended.
    pub fn remove(&self) -> anyhow::Result<()> {
        for _ in 0..1000 {
            match fs::remove_dir(&self.0) {
                // The process is no zombie any more, and may still be on its way out.
                Err(why) if why.raw_os_error() == Some(Errno::EBUSY as i32) => {
                    std::thread::sleep(Duration::from_millis(5))
                }
                done => return done.with_context(|| format!("remove {}", self.0.display())),
            }
        }
        anyhow::bail!("{} is never empty", self.0.display())
    }
}
