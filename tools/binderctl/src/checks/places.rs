// SPDX-License-Identifier: GPL-2.0
//! Checks that driver, mounts, devices and log files exist and can be used.

use crate::checks::seen::{Answer, Finding, Seen};
use crate::driver::{self, Driver};
use crate::error::{Error, Kind};
use crate::escape::quoted;
use crate::instances::{self, Device, Instance, DEV};
use crate::output::count;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Checks that the kernel has a driver.
pub fn driver(driver: Option<&Driver>) -> Answer {
    match driver {
        Some(driver) => Ok((Vec::new(), format!("{} ({})", driver.kind.name(), driver.evidence))),
        None => Ok((vec![Finding::new(driver::NONE, driver::LOAD)], String::new())),
    }
}

/// Checks that binderfs is mounted, and not below another mount. A driver without binderfs has devices in `/dev`.
pub fn mounted(seen: &Seen) -> Answer {
    let advice = instances::advice();
    if seen.driver.is_none() {
        return Err(driver::NONE.into());
    }
    let directories = seen.places.iter().map(|(instance, _)| instance.directory.display().to_string());
    let (in_dev, places): (Vec<_>, Vec<_>) = directories.partition(|directory| directory == DEV);
    if places.is_empty() && !in_dev.is_empty() {
        return Err(advice.into());
    }
    let missing = places.is_empty().then(|| Finding::new("no binderfs is mounted", advice));
    let covered = seen.covered.iter().map(|place| {
        let word = quoted(place);
        Finding::new(
            format!(
                "something is mounted on top of the binderfs at {}, whose devices cannot be reached",
                place.display()
            ),
            format!("see what is there: findmnt {word}; umount {word} removes the upper mount"),
        )
    });
    Ok((missing.into_iter().chain(covered).collect(), places.join(", ")))
}

/// Checks the path of each device: its directories can be searched, and links in `/dev` have a target.
pub fn reached(seen: &Seen) -> Answer {
    let instances = seen.places.iter().map(|(instance, _)| instance);
    let instances = instances.filter(|instance| instance.directory != Path::new(DEV));
    let directories: Vec<&Path> = instances.clone().map(|instance| &*instance.directory).collect();
    let (links, mut findings) = dangling(Path::new(DEV), &directories);
    findings.extend(instances.filter(|instance| instance.nodev).map(|Instance { directory, .. }| {
        Finding::new(
            format!("{} is mounted with nodev: its devices cannot be opened", directory.display()),
            format!("mount -o remount,bind,dev {}", quoted(directory)),
        )
    }));
    for directory in directories {
        let mode = directory.metadata().map_or(0, |metadata| metadata.mode());
        // A user who may list a directory is meant to reach its files.
        if (mode & 0o444) >> 2 & !mode != 0 {
            let place = directory.display();
            let message = format!(
                "{place} may be listed and not searched (mode {:04o}): its devices cannot be reached",
                mode & 0o7777
            );
            let why = "`chmod 666 /dev/binder*` changes directories, too";
            findings.push(Finding::new(message, format!("chmod 755 {}; {why}", quoted(directory))));
        }
    }
    Ok((findings, count(links, "link")))
}

/// The number of links in `dev` into these directories or into the usual mount of binderfs; and those without a target.
fn dangling(dev: &Path, directories: &[&Path]) -> (usize, Vec<Finding>) {
    let mut links = 0;
    let mut findings = Vec::new();
    for entry in dev.read_dir().into_iter().flatten().flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let target = dev.join(target);
        let directory = target.parent().unwrap_or(dev);
        if directory != Path::new(instances::USUAL) && !directories.contains(&directory) {
            continue;
        }
        links += 1;
        if target.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            let (link, name) = (entry.path(), target.file_name().unwrap_or_default());
            findings.push(Finding::new(
                format!("{} is a link to {}, which does not exist", link.display(), target.display()),
                format!(
                    "binderctl --binderfs {} add {}, or rm {}",
                    quoted(directory),
                    quoted(name),
                    quoted(&link)
                ),
            ));
        }
    }
    (links, findings)
}

/// Checks that not only the owner can open each device: the driver creates them with mode 0600.
pub fn modes(seen: &Seen) -> Answer {
    let mut findings = Vec::new();
    let mut looked_at = 0;
    for (instance, devices) in &seen.places {
        match devices {
            Ok(devices) => {
                looked_at += devices.len();
                findings.extend(closed(&instance.directory.display().to_string(), devices));
            }
            Err(error) => findings.push(missing(error)),
        }
    }
    match looked_at {
        0 if findings.is_empty() => Err("there are no devices".into()),
        _ => Ok((findings, count(looked_at, "device"))),
    }
}

/// The devices that neither their group nor others may both read and write, though they are root's.
fn closed(place: &str, devices: &[Device]) -> Option<Finding> {
    let is_closed = |device: &&Device| {
        let mode = u32::from_str_radix(&device.mode, 8).unwrap_or(0);
        let is_of_group = device.gid != 0 && mode & 0o060 == 0o060;
        device.uid == 0 && !is_of_group && mode & 0o006 != 0o006
    };
    let names: Vec<&str> = devices.iter().filter(is_closed).map(|device| device.name.as_str()).collect();
    let words: Vec<_> = names.iter().map(quoted).collect();
    let next = format!("if others are to use them: cd {}; chmod 0666 -- {}", quoted(place), words.join(" "));
    let message = format!("in {place} only root may open {}", names.join(", "));
    (!names.is_empty()).then(|| Finding::new(message, next))
}

/// Checks that all needed log files exist and every line is parsed. Log files that the driver lacks are not needed.
pub fn readable(seen: &Seen) -> Answer {
    let logs = match &seen.logs {
        Ok(logs) => logs,
        Err(error) if seen.driver.is_none() => return Err(error.message.clone()),
        Err(error) => return Ok((vec![missing(error)], String::new())),
    };
    let files = [
        ("state", seen.state.as_ref().map(|state| state.unknown.len())),
        ("stats", seen.stats.as_ref().map(|stats| stats.unknown.len())),
        ("transaction_log", seen.log.as_ref().map(|log| log.unknown.len())),
    ];
    let mut findings = Vec::new();
    let mut note = format!("in {}", logs.directory.display());
    for (name, unknown) in files {
        match unknown {
            Ok(0) => {}
            Ok(lines) => findings.push(Finding::new(
                format!("{name}: {} cannot be parsed and will be left out", count(lines, "line")),
                "look for unusual device names; a newer binderctl may parse more",
            )),
            Err(error) if error.kind == Kind::NotOffered => {
                note += &format!("; the driver does not offer {name}");
            }
            Err(error) => findings.push(missing(error)),
        }
    }
    Ok((findings, note))
}

fn missing(error: &Error) -> Finding {
    let next = match error.kind {
        Kind::Permission => "look at it as root",
        _ => "the kernel's log may have the reason: dmesg",
    };
    Finding::new(&error.message, error.hint.as_deref().unwrap_or(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_for_root_alone_is_found() {
        let closed = |mode: &str, uid, gid| {
            let (name, path, mode) = ("x".to_owned(), "/b/x".into(), mode.to_owned());
            super::closed("/b", &[Device { name, path, major: 1, minor: 2, mode, uid, gid }])
        };
        assert!(closed("0600", 0, 0).unwrap().next_step.ends_with("cd /b; chmod 0666 -- x"));
        assert!(closed("0644", 0, 0).is_some() && closed("0660", 0, 0).is_some());
        assert_eq!((closed("0660", 0, 7), closed("0606", 0, 0), closed("0600", 1000, 0)), (None, None, None));
    }
}
