// SPDX-License-Identifier: GPL-2.0
//! Who the context manager of a device is, as far as logs tell.
//!
//! They do not say so. But handle 0 is always a handle on the manager's node; and what a manager makes that node of is
//! mostly nothing, while other nodes have an address.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use binder_logs::State;

use crate::instances::Device;

/// The managers of a device. More than one if other instances have a device of that name, and it cannot be told which
/// process uses which of them.
pub fn of(device: &Device, state: &State) -> Vec<i32> {
    let mut found = candidates(&device.name, state);
    if found.len() > 1 {
        found.retain(|&pid| opens(pid, device) != Some(false));
    }
    found.into_iter().collect()
}

fn candidates(name: &str, state: &State) -> BTreeSet<i32> {
    let processes = || state.processes.iter().filter(|process| process.context == name);
    let called: BTreeSet<i64> = processes()
        .flat_map(|process| &process.references)
        .filter(|reference| reference.handle == 0)
        .map(|reference| reference.node)
        .collect();
    let is_manager =
        |node: &binder_logs::Node| called.contains(&node.id) || node.ptr.is_null() && node.cookie.is_null();
    processes().filter(|process| process.nodes.iter().any(is_manager)).map(|process| process.pid).collect()
}

/// Whether a process has a device open; nothing if its files cannot be seen.
fn opens(pid: i32, device: &Device) -> Option<bool> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let number = |file: fs::DirEntry| fs::metadata(file.path()).map(|metadata| metadata.rdev()).ok();
    let numbers = (device.major, device.minor);
    Some(
        files
            .flatten()
            .filter_map(number)
            .any(|rdev| (nix::sys::stat::major(rdev), nix::sys::stat::minor(rdev)) == numbers),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::Log;
    use binder_logs::Mode;

    #[test]
    fn the_manager_is_who_owns_what_handle_0_is_of() {
        let text = "binder state:
proc 10
context binder
  ref 4: desc 0 node 3 s 1 w 1 d 0000000000000000
  ref 5: desc 1 node 6 s 1 w 1 d 0000000000000000
proc 20
context binder
  node 3: u0000000000000001 c0000000000000002 hs 1 hw 1 ls 1 lw 0 is 1 iw 1 tr 0 proc 10
proc 30
context binder
  node 6: u0000000000000001 c0000000000000002 hs 1 hw 1 ls 1 lw 0 is 1 iw 1 tr 0 proc 10
proc 40
context hwbinder
  node 7: u0000000000000000 c0000000000000000 hs 1 hw 1 ls 1 lw 0 is 1 iw 1 tr 0
";
        let state = State::parse("state", text.as_bytes(), Mode::Strict).unwrap();
        assert_eq!(candidates("binder", &state), BTreeSet::from([20]));
        assert_eq!(candidates("hwbinder", &state), BTreeSet::from([40]));
        assert_eq!(candidates("vndbinder", &state), BTreeSet::new());
    }
}
