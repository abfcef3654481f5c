// SPDX-License-Identifier: GPL-2.0
//! Counts of kernel objects that a driver may refer to.

use std::collections::BTreeMap;
use std::fs;

use binder_sys::kernel_memory::shrink_slabs;

use crate::error::{Context, Result};

/// The slabs of what a driver may keep by a reference. A namespace of users has what its users may have.
const SLABS: [&str; 8] =
    ["pid", "pid_namespace", "cred_jar", "user_namespace", "mm_struct", "task_struct", "filp", "mnt_cache"];

/// The objects of these slabs, in namespaces of any depth, and the references to modules of Binder.
pub fn count() -> Result<BTreeMap<String, f64>> {
    shrink_slabs();
    let file = |path: &str| fs::read_to_string(path).context(path);
    Ok(counted(&file("/proc/slabinfo")?, &file("/proc/modules")?))
}

fn counted(slabs: &str, modules: &str) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for (file, column) in [(slabs, 1), (modules, 2)] {
        for words in file.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            let kind = match words[0].trim_end_matches(|c: char| c == '_' || c.is_ascii_digit()) {
                slab if SLABS.contains(&slab) => slab,
                module if module.starts_with("binder") && column == 2 => "module",
                _ => continue,
            };
            *found.entry(kind.to_string()).or_default() += words[column].parse().unwrap_or(0.0);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_counted_in_namespaces_of_any_depth() {
        let slabs = "pid 10 32 128\npid_2 3 32 128\npid_namespace 4 8 256\nfilp 7 21 256\n";
        let found = counted(slabs, "other 1 5 - Live\nbinder_linux 1 6 - Live\n");
        let counts = ["pid", "pid_namespace", "filp", "module"].map(|kind| found[kind]);
        assert_eq!(counts, [13.0, 4.0, 7.0, 6.0]);
    }
}
