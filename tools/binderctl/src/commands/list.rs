// SPDX-License-Identifier: GPL-2.0
//! `binderctl list`: the driver, the mounted instances of binderfs and their devices.

use crate::driver::{self, Driver};
use crate::instances::{self, Device, Instance};
use crate::prelude::*;
use binder_logs::{Node, State};
use nix::sys::stat::{major, minor};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

#[derive(Serialize)]
struct Listing {
    driver: Option<Driver>,
    instances: Vec<Place>,
}

/// An instance and what is in it, or why that cannot be read.
#[derive(Serialize)]
struct Place {
    #[serde(flatten)]
    instance: Instance,
    error: Option<String>,
    devices: Vec<Entry>,
}

/// A device, and its context managers if the driver's logs are readable.
#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    device: Device,
    managers: Option<Vec<i32>>,
}

/// Lists all instances, or the one that the options name.
pub fn run(options: &Options) -> Result<()> {
    // The managers come from the logs, which may not be readable.
    let state = Logs::find(options).and_then(|logs| logs.state()).ok();
    let driver = driver::detect();
    let all = instances::places(options, driver.as_ref())?;
    let instances = all.into_iter().map(|found| place(found, state.as_ref())).collect();
    options.print(&Listing { driver, instances })
}

fn place((instance, devices): instances::Place, state: Option<&State>) -> Place {
    let (devices, error) = match devices {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.message)),
    };
    let entry = |device| Entry { managers: state.map(|state| managers(&device, state)), device };
    Place { instance, error, devices: devices.into_iter().map(entry).collect() }
}

impl Report for Listing {
    const SCHEMA: &'static str = "binderctl.list/1";

    fn show(&self, page: &mut Page) {
        match &self.driver {
            Some(driver) => page.say(format!("driver: {} ({})", driver.kind.name(), driver.evidence)),
            None => page.say("driver: none; load one, such as binder_rust or binder_linux"),
        }
        if self.instances.is_empty() && self.driver.is_some() {
            page.say(format!("no binderfs is mounted; {}", instances::advice()));
        }
        for place in &self.instances {
            place.show(page);
        }
    }
}

impl Place {
    fn show(&self, page: &mut Page) {
        let max = self.instance.max.map(|max| format!("at most {max} devices"));
        let logs = self.instance.logs.then(|| "with log files".to_owned());
        let read_only = self.instance.read_only.then(|| "read-only".to_owned());
        let notes: Vec<String> = [max, logs, read_only].into_iter().flatten().collect();
        page.gap();
        page.say(format!("{}  {}", self.instance.directory.display(), notes.join(", ")));
        if let Some(error) = &self.error {
            return page.say(format!("  {error}"));
        }
        let mut names = Names::new();
        let rows: Vec<_> = self.devices.iter().map(|entry| row(entry, &mut names)).collect();
        page.table(2, vec!["DEVICE", "NUMBERS", "MODE", "OWNER", "CONTEXT MANAGER"], &rows);
    }
}

fn row(entry: &Entry, names: &mut Names) -> Vec<String> {
    let Entry { device, managers } = entry;
    let managers = match managers.as_deref() {
        None => "?".to_owned(),
        Some([]) => "-".to_owned(),
        Some(some) => some.iter().map(|&pid| names.of_process(pid)).collect::<Vec<_>>().join(" or "),
    };
    let numbers = format!("{}:{}", device.major, device.minor);
    vec![device.name.clone(), numbers, device.mode.clone(), owner_name(device), managers]
}

/// An owner by names, or by numbers where they have none. A static program finds only the names in `/etc/passwd` and
/// `/etc/group`.
fn owner_name(device: &Device) -> String {
    let name = |file: &str, id: u32| {
        let id = id.to_string();
        let text = fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut entries = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let entry = entries.find(|fields| fields.get(2) == Some(&id.as_str()));
        entry.map_or(id.clone(), |fields| fields[0].to_owned())
    };
    format!("{}:{}", name("/etc/passwd", device.uid), name("/etc/group", device.gid))
}

/// The context managers of a device. Logs do not name them. But handle 0 is always a handle on the manager's node; and a
/// manager mostly makes that node of nothing, while other nodes have an address.
///
/// Several if other instances have a device of that name, and it is unknown which of them a process uses.
fn managers(device: &Device, state: &State) -> Vec<i32> {
    let mut found = candidates(&device.name, state);
    found.retain(|&pid| opens(pid, device) != Some(false));
    found.into_iter().collect()
}

fn candidates(name: &str, state: &State) -> BTreeSet<i32> {
    let processes = || state.processes.iter().filter(|process| process.context == name);
    let called: BTreeSet<i64> = processes()
        .flat_map(|process| &process.references)
        .filter(|reference| reference.handle == 0)
        .map(|reference| reference.node)
        .collect();
    let is_manager = |node: &Node| called.contains(&node.id) || node.ptr.is_null() && node.cookie.is_null();
    processes().filter(|process| process.nodes.iter().any(is_manager)).map(|process| process.pid).collect()
}

/// Returns true if a process has a device open; `None` if its files cannot be read.
fn opens(pid: i32, device: &Device) -> Option<bool> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let number = |file: fs::DirEntry| fs::metadata(file.path()).map(|metadata| metadata.rdev()).ok();
    let numbers = (device.major, device.minor);
    Some(files.flatten().filter_map(number).any(|rdev| (major(rdev), minor(rdev)) == numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_who_owns_what_handle_0_is_of() {
        let text = "proc 10
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
        let state = crate::checks::seen::tests::state(text);
        assert_eq!(candidates("binder", &state), BTreeSet::from([20]));
        assert_eq!(candidates("hwbinder", &state), BTreeSet::from([40]));
        assert_eq!(candidates("vndbinder", &state), BTreeSet::new());
    }
}
