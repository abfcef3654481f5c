// SPDX-License-Identifier: GPL-2.0
//! The driver's shrinker, through which the kernel takes memory back, as debugfs shows it.
//!
//! `count` shows for each cgroup and node how many pages the driver could give back; a write to
//! `scan` makes it look at some of them. Needs `CONFIG_SHRINKER_DEBUG` and root.

use crate::pages::pages_of;
use crate::stage::Stage;
use nix::mount::{mount, MsFlags};
use std::io;
use std::path::{Path, PathBuf};

/// The number of scans after which a driver has given an unused page back: ours passes a page that
/// was used since the last scan, and once more.
const ROUNDS: usize = 3;

/// The shrinker of whichever Binder driver is loaded.
#[derive(Clone)]
pub struct Shrinker(PathBuf);

impl Shrinker {
    /// Finds it, after mounting debugfs on an empty directory. `None` if the kernel shows none.
    pub fn find(debugfs: &Path) -> Option<Self> {
        mount(Some("debugfs"), debugfs, Some("debugfs"), MsFlags::empty(), None::<&str>).ok()?;
        let mut all = debugfs.join("shrinker").read_dir().ok()?.filter_map(Result::ok);
        let of_driver = all.find(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            // A mounted binderfs has a shrinker of its own, as every filesystem.
            name.contains("binder") && !name.starts_with("sb-")
        })?;
        Some(Self(of_driver.path()))
    }

    /// Finds it, and ends the test as skipped where there is none.
    pub fn needed(t: &Stage) -> Self {
        Self::find(&t.directory("debugfs")).unwrap_or_else(|| t.lacks("CONFIG_SHRINKER_DEBUG"))
    }

    /// Each cgroup's number, and the pages on each node.
    fn counts(&self) -> io::Result<Vec<(u64, Vec<u64>)>> {
        let text = std::fs::read_to_string(self.0.join("count"))?;
        let numbers = |line: &str| -> Option<(u64, Vec<u64>)> {
            let mut words = line.split_whitespace().map(|word| word.parse().ok());
            Some((words.next()??, words.collect::<Option<_>>()?))
        };
        text.lines().map(|line| numbers(line).ok_or(io::ErrorKind::InvalidData.into())).collect()
    }

    /// The number of pages that the driver could give back.
    pub fn pages(&self) -> u64 {
        let counts = self.counts().expect("the shrinker's count");
        counts.iter().flat_map(|(_, nodes)| nodes).sum()
    }

    /// Fails unless the pages of so many bytes have gone from those that there were.
    #[track_caller]
    pub fn expect_less(&self, full: u64, gone: usize) {
        let left = self.pages();
        assert!(left + pages_of(gone) <= full, "{left} of {full} pages are left");
    }

    /// Has all pages looked at once.
    pub fn scan(&self) {
        for (cgroup, nodes) in self.counts().expect("the shrinker's count") {
            for (node, pages) in nodes.iter().enumerate().filter(|(_, pages)| **pages != 0) {
                let scan = |cgroup| std::fs::write(self.0.join("scan"), format!("{cgroup} {node} {pages}"));
                // A shrinker that ignores cgroups takes only 0.
                if scan(cgroup).is_err() {
                    scan(0).expect("scan");
                }
            }
        }
    }

    /// Has all pages looked at once, unless the driver is about to go. `false` if it is gone.
    pub fn try_scan(&self) -> bool {
        let Ok(counts) = self.counts() else { return false };
        for (cgroup, nodes) in counts {
            for (node, pages) in nodes.iter().enumerate() {
                let _ = std::fs::write(self.0.join("scan"), format!("{cgroup} {node} {pages}"));
            }
        }
        true
    }

    /// Has all pages looked at often enough that those go which nobody uses.
    pub fn squeeze(&self) {
        for _ in 0..ROUNDS {
            self.scan();
        }
    }
}
