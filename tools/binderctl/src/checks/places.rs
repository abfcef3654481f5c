// SPDX-License-Identifier: GPL-2.0
//! Whether driver, mounts and devices are there, and devices can be opened.

use crate::checks::finding::Finding;
use crate::checks::finding::State;
use crate::driver::Driver;
use crate::error::Result;
use crate::instances;
use crate::instances::Device;
use crate::instances::Instance;
use crate::words;

/// Whether the kernel has a driver.
pub fn driver(driver: Option<&Driver>) -> State {
    match driver {
        Some(driver) => State::of(Vec::new(), format!("{} ({})", driver.kind.name(), driver.evidence)),
        None => State::of(
            vec![Finding {
                message: "the kernel has no Binder driver".into(),
                next_step: "load one: modprobe binder_rust, or modprobe binder_linux".into(),
                ..Default::default()
            }],
            "",
        ),
    }
}

/// Whether there is an instance of binderfs.
pub fn mounted(instances: &[Instance]) -> State {
    let places: Vec<String> =
        instances.iter().map(|instance| instance.directory.display().to_string()).collect();
    let missing = Finding {
        message: "no binderfs is mounted".into(),
        next_step: format!("as root: binderctl mount {}", instances::USUAL),
        ..Default::default()
    };
    State::of(places.is_empty().then_some(missing).into_iter().collect(), places.join(", "))
}

/// Whether each device can be opened by others than its owner: the driver makes them for their owner alone.
pub fn modes(places: &[(&Instance, Result<Vec<Device>>)], wanted: Option<&str>) -> State {
    let mut findings = Vec::new();
    let mut count = 0;
    for (instance, devices) in places {
        let devices = match devices {
            Ok(devices) => devices,
            Err(error) => {
                findings.push(Finding {
                    message: error.message.clone(),
                    next_step: "look at it as root".into(),
                    ..Default::default()
                });
                continue;
            }
        };
        let devices: Vec<&Device> =
            devices.iter().filter(|device| wanted.is_none_or(|name| name == device.name)).collect();
        count += devices.len();
        findings.extend(closed(instance, &devices));
    }
    match count {
        0 if findings.is_empty() => State::Skipped { why: "there are no devices".into() },
        count => State::of(findings, words::count(count, "device")),
    }
}

/// The devices that neither their group nor others may both read and write, though they are root's.
fn closed(instance: &Instance, devices: &[&Device]) -> Option<Finding> {
    let is_closed = |device: &&&Device| {
        let mode = u32::from_str_radix(&device.mode, 8).unwrap_or(0);
        device.uid == 0 && mode & 0o060 != 0o060 && mode & 0o006 != 0o006
    };
    let names: Vec<&str> = devices.iter().filter(is_closed).map(|device| device.name.as_str()).collect();
    let place = instance.directory.display();
    (!names.is_empty()).then(|| Finding {
        message: format!("in {place} only root may open {}", names.join(", ")),
        next_step: format!(
            "if others are to use them: binderctl --binderfs {place} chmod 0666 {}",
            names.join(" ")
        ),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn finding(mode: &str, uid: u32) -> Option<Finding> {
        let directory = PathBuf::from("/b");
        let filesystem = "0:1".to_owned();
        let instance = Instance { directory, max: None, logs: false, read_only: false, filesystem };
        let (name, path, mode) = ("x".to_owned(), PathBuf::from("/b/x"), mode.to_owned());
        closed(&instance, &[&Device { name, path, major: 1, minor: 2, mode, uid, gid: 0 }])
    }

    #[test]
    fn a_device_for_root_alone_is_found() {
        assert!(finding("0600", 0).unwrap().next_step.ends_with("--binderfs /b chmod 0666 x"));
        assert!(finding("0644", 0).is_some());
        assert_eq!((finding("0660", 0), finding("0606", 0), finding("0600", 1000)), (None, None, None));
    }

    #[test]
    fn nothing_mounted_is_found() {
        assert_eq!(mounted(&[]).findings().len(), 1);
        assert_eq!(driver(None).findings().len(), 1);
    }
}
