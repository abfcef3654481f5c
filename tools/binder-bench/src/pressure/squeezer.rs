// SPDX-License-Identifier: GPL-2.0
//! Ways to make the kernel want memory back that a driver keeps for its next calls.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use clap::ValueEnum;
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::error::Context;
use crate::error::Error;
use crate::error::Result;

const SHRINKERS: &str = "/sys/kernel/debug/shrinker";
const CGROUPS: &str = "/sys/fs/cgroup";

/// What a write to `memory.reclaim` asks for, and by how much a limit is lowered.
const PORTION: u64 = 1 << 20;

/// Who wants memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// The driver's shrinker is asked for all that it has (`shrinker_debug`).
    Shrinker,
    /// The whole system is asked for 1 MiB (`memory.reclaim` of the root cgroup).
    Reclaim,
    /// Client and server are in a cgroup whose limit (`memory.high`) is lowered by 1 MiB.
    Limit,
}

impl Kind {
    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Shrinker => "shrinker",
            Kind::Reclaim => "reclaim",
            Kind::Limit => "limit",
        }
    }
}

/// Something that takes pages back when it is told to.
pub struct Squeezer {
    kind: Kind,
    shrinker: PathBuf,
    cgroup: Option<Cgroup>,
}

impl Squeezer {
    /// Gets ready. For a limit, these processes are moved to a cgroup of their own until the end.
    pub fn new(kind: Kind, processes: &[Pid]) -> Result<Squeezer> {
        let cgroup = (kind == Kind::Limit).then(|| Cgroup::new(processes)).transpose()?;
        Ok(Squeezer { kind, shrinker: find_shrinker()?, cgroup })
    }

    /// Squeezes once. Gives the bytes that the driver does not keep any more.
    pub fn squeeze(&self) -> Result<u64> {
        let before = self.pages()?;
        match (self.kind, &self.cgroup) {
            (Kind::Limit, Some(cgroup)) => cgroup.lower()?,
            (Kind::Reclaim, _) => {
                reclaimed(fs::write(Path::new(CGROUPS).join("memory.reclaim"), PORTION.to_string()))?
            }
            _ => self.scan()?,
        }
        Ok(before.saturating_sub(self.pages()?) * 4096)
    }

    /// Each cgroup's number, and the pages that might be had back on each node.
    fn counts(&self) -> Result<Vec<(u64, Vec<u64>)>> {
        let path = self.shrinker.join("count");
        let text = fs::read_to_string(&path).context(path.display().to_string())?;
        parse_counts(&text).ok_or_else(|| Error::Protocol(format!("{} has an unknown form", path.display())))
    }

    fn pages(&self) -> Result<u64> {
        Ok(self.counts()?.iter().flat_map(|(_, nodes)| nodes).sum())
    }

    /// Has all pages looked at once.
    fn scan(&self) -> Result<()> {
        let path = self.shrinker.join("scan");
        for (cgroup, nodes) in self.counts()? {
            for (node, pages) in nodes.iter().enumerate().filter(|(_, pages)| **pages != 0) {
                let scan = |cgroup| fs::write(&path, format!("{cgroup} {node} {pages}"));
                // A shrinker that knows nothing of cgroups wants 0 for whatever it counts.
                scan(cgroup).or_else(|_| scan(0)).context(path.display().to_string())?;
            }
        }
        Ok(())
    }
}

fn parse_counts(text: &str) -> Option<Vec<(u64, Vec<u64>)>> {
    let line = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.parse().ok());
        Some((words.next()??, words.collect::<Option<Vec<u64>>>()?))
    };
    text.lines().map(line).collect()
}

/// The shrinker of whichever Binder driver is loaded.
fn find_shrinker() -> Result<PathBuf> {
    let none = || {
        Error::NoBinder(format!(
            "no shrinker of a Binder driver in {SHRINKERS}: that needs debugfs and CONFIG_SHRINKER_DEBUG"
        ))
    };
    let mut all = fs::read_dir(SHRINKERS).map_err(|_| none())?.flatten();
    let of_driver = all.find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        // A mounted binderfs has a shrinker of its own, as every filesystem.
        name.contains("binder") && !name.starts_with("sb-")
    });
    Ok(of_driver.ok_or_else(none)?.path())
}

/// Less than what was asked for is no failure: `EAGAIN` says so.
fn reclaimed(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(Errno::EAGAIN as i32) => Ok(()),
        result => result.context("memory.reclaim"),
    }
}

/// A cgroup of our own; dropping it moves its processes back.
struct Cgroup {
    path: PathBuf,
    processes: Vec<Pid>,
}

impl Cgroup {
    fn new(processes: &[Pid]) -> Result<Cgroup> {
        let root = Path::new(CGROUPS);
        let what = |path: &Path| format!("{}: a limit needs cgroups and root", path.display());
        let control = root.join("cgroup.subtree_control");
        fs::write(&control, "+memory").context(what(&control))?;
        let path = root.join(format!("binder-bench-{}", std::process::id()));
        fs::create_dir_all(&path).context(what(&path))?;
        let cgroup = Cgroup { path, processes: processes.to_vec() };
        cgroup.move_to(&cgroup.path)?;
        Ok(cgroup)
    }

    fn move_to(&self, path: &Path) -> Result<()> {
        let file = path.join("cgroup.procs");
        self.processes
            .iter()
            .try_for_each(|pid| fs::write(&file, pid.to_string()).context(file.display().to_string()))
    }

    /// Lowers the limit, which has the kernel look for what it can take back, and then lifts it again, so that nobody has to
    /// pay for being above.
    fn lower(&self) -> Result<()> {
        let file = |name| self.path.join(name);
        let text = fs::read_to_string(file("memory.current")).context("memory.current")?;
        let current: u64 =
            text.trim().parse().map_err(|_| Error::Protocol("memory.current is no number".into()))?;
        fs::write(file("memory.high"), current.saturating_sub(PORTION).to_string()).context("memory.high")?;
        fs::write(file("memory.high"), "max").context("memory.high")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = self.move_to(Path::new(CGROUPS));
        let _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_by_cgroup_and_node() {
        assert_eq!(parse_counts("1 5 7\n99 0 2\n").unwrap(), [(1, vec![5, 7]), (99, vec![0, 2])]);
        assert_eq!(parse_counts("").unwrap(), []);
        assert_eq!(parse_counts("1 five\n"), None);
    }
}
