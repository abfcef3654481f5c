// SPDX-License-Identifier: GPL-2.0
//! The mounted instances of binderfs, and their devices.

use crate::driver::{self, Driver};
use crate::error::{Error, Kind, Result};
use crate::escape::quoted;
use crate::options::Options;
use binder_sys::fs::CONTROL;
use serde::Serialize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The usual mount point of binderfs.
pub const USUAL: &str = "/dev/binderfs";

/// The directory of the links to devices, and of the devices that a driver makes without binderfs.
pub const DEV: &str = "/dev";

/// One mounted binderfs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Instance {
    pub directory: PathBuf,
    /// The most devices it may have, if the mount has such an option.
    pub max: Option<u32>,
    /// True if it was mounted with `stats=global`; it then has log files if the driver has any.
    pub logs: bool,
    /// True if this mount is read-only.
    pub read_only: bool,
    /// True if this mount has `nodev`: no device of it can be opened.
    pub nodev: bool,
}

/// A device of an instance, or one of a driver without binderfs, in `/dev`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Its name, which logs call its context.
    pub name: String,
    pub path: PathBuf,
    pub major: u64,
    pub minor: u64,
    /// Permissions, such as `0600`.
    pub mode: String,
    pub uid: u32,
    pub gid: u32,
}

/// The package's description of that mount.
const UNIT: &str = "/usr/lib/systemd/system/dev-binderfs.mount";

/// The next step if no binderfs is mounted.
pub fn advice() -> &'static str {
    let types = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    match driver::detect() {
        _ if types.lines().any(|line| line == "nodev\tbinder") => match Path::new(UNIT).exists() {
            true => "as root: systemctl start dev-binderfs.mount binder-links.service",
            false => "as root: mkdir -p /dev/binderfs; mount -t binder binder /dev/binderfs",
        },
        Some(_) => "the loaded driver has no binderfs: it makes the devices in /dev that its parameter `devices` lists",
        None => driver::LOAD,
    }
}

/// All instances that are mounted where this process can see them.
pub fn mounted() -> Result<Vec<Instance>> {
    Ok(all()?.0)
}

/// The places of the instances that cannot be seen, because another mount is on top of them.
pub fn covered() -> Result<Vec<PathBuf>> {
    Ok(all()?.1.into_iter().map(|instance| instance.directory).collect())
}

fn all() -> Result<(Vec<Instance>, Vec<Instance>)> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read(path).map_err(|error| Error::at("read", path, error))?;
    Ok(parse(&text))
}

/// A place with devices: an instance, or `/dev`.
pub type Place = (Instance, Result<Vec<Device>>);

/// The selected places, with the selected devices.
pub fn places(options: &Options, driver: Option<&Driver>) -> Result<Vec<Place>> {
    let mut found: Vec<Place> = wanted(options)?
        .into_iter()
        .map(|instance| {
            let devices = instance.devices();
            (instance, devices)
        })
        .collect();
    let in_dev = in_dev(driver);
    if options.binderfs.is_none() && !in_dev.is_empty() {
        let dev = Instance { directory: DEV.into(), max: None, logs: false, read_only: false, nodev: false };
        found.push((dev, Ok(in_dev)));
    }
    for devices in found.iter_mut().flat_map(|(_, devices)| devices) {
        devices.retain(|device| options.wants(&device.name));
    }
    Ok(found)
}

/// The devices that the driver has made in `/dev` itself, of those that its parameter names.
fn in_dev(driver: Option<&Driver>) -> Vec<Device> {
    let module = driver.and_then(|driver| driver.module.as_deref()).unwrap_or_default();
    let names = fs::read_to_string(format!("/sys/module/{module}/parameters/devices")).unwrap_or_default();
    let device = |name: &str| {
        let path = Path::new(DEV).join(name);
        let metadata =
            path.symlink_metadata().ok().filter(|metadata| metadata.file_type().is_char_device())?;
        Some(Device::new(path, &metadata))
    };
    names.trim_end_matches('\n').split(',').filter_map(device).collect()
}

/// The instance that the options name, or all that are mounted.
pub fn wanted(options: &Options) -> Result<Vec<Instance>> {
    match options.binderfs {
        Some(_) => Ok(vec![chosen(options)?]),
        None => mounted(),
    }
}

/// The instance of a command: the one that the options name, the usual one, or the only one.
pub fn chosen(options: &Options) -> Result<Instance> {
    let mut all = mounted()?;
    let wanted = options.binderfs.as_deref().unwrap_or(Path::new(USUAL));
    if let Some(found) = all.iter().position(|instance| same(&instance.directory, wanted)) {
        return Ok(all.swap_remove(found));
    }
    match (&options.binderfs, all.len()) {
        (Some(directory), _) => {
            Err(Error::new(Kind::NotThere, format!("{} is not a mounted binderfs", directory.display()))
                .hint("`binderctl list` shows what is mounted"))
        }
        (None, 0) => Err(Error::new(Kind::NotThere, "no binderfs is mounted").hint(advice())),
        (None, 1) => Ok(all.remove(0)),
        (None, n) => Err(Error::new(
            Kind::Usage,
            format!("{n} instances of binderfs are mounted, none of them on {USUAL}"),
        )
        .hint("choose one with --binderfs DIR; `binderctl list` shows them")),
    }
}

fn same(one: &Path, other: &Path) -> bool {
    one == other || fs::canonicalize(other).is_ok_and(|path| path == one)
}

/// Reads `/proc/self/mountinfo`, whose fields end at blanks; those in names are written as octal numbers. Apart are the
/// instances on which something else is mounted.
fn parse(mountinfo: &[u8]) -> (Vec<Instance>, Vec<Instance>) {
    let lines = mountinfo.split(|&byte| byte == b'\n');
    let lines: Vec<Vec<&[u8]>> = lines.map(|line| line.split(|&byte| byte == b' ').collect()).collect();
    // A mount on top of another one is its child at the same place.
    let is_covered = |below: &[&[u8]]| {
        lines.iter().any(|above| {
            above.get(1) == below.first() && above.get(4) == below.get(4) && above.first() != below.first()
        })
    };
    let found = |covered: bool| {
        let lines = lines.iter().filter(|fields| is_covered(fields) == covered);
        let mut found: Vec<_> = lines.filter_map(|fields| instance(fields)).collect();
        found.sort_by(|one, other| one.directory.cmp(&other.directory));
        found
    };
    (found(false), found(true))
}

fn instance(fields: &[&[u8]]) -> Option<Instance> {
    let end = fields.iter().position(|field| field == b"-")?;
    let [root, directory, flags] = *fields.get(3..6)?.first_chunk()?;
    // A bind mount of one device is no instance.
    if fields.get(end + 1) != Some(&binder_sys::fs::TYPE.as_bytes()) || root != b"/" {
        return None;
    }
    let options = std::str::from_utf8(fields.get(end + 3)?).ok()?;
    let value =
        |name: &str| options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='));
    let has = |name: &str| flags.split(|&byte| byte == b',').any(|flag| flag == name.as_bytes());
    Some(Instance {
        directory: PathBuf::from(std::ffi::OsString::from_vec(unescaped(directory))),
        max: value("max").and_then(|max| max.parse().ok()),
        logs: value("stats") == Some("global"),
        read_only: has("ro"),
        nodev: has("nodev"),
    })
}

/// Undoes the kernel's escapes: a backslash and three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut parts = text.split(|&byte| byte == b'\\');
    let mut bytes = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(part.len().min(3));
        bytes.extend(std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 8).ok()));
        bytes.extend(rest);
    }
    bytes
}

impl Instance {
    /// A command of this program on a device of the instance, as a shell reads it.
    pub fn command(&self, verb: &str, name: &str) -> String {
        let place =
            (self.directory != Path::new(USUAL)).then(|| format!("--binderfs {} ", quoted(&self.directory)));
        format!("binderctl {}{verb} {}", place.unwrap_or_default(), quoted(name))
    }

    /// Its devices by name, without `binder-control`.
    pub fn devices(&self) -> Result<Vec<Device>> {
        let failed = |error: io::Error| Error::at("read", &self.directory, error);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = match entry.metadata() {
                // It was removed after `read_dir` listed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(failed)?,
            };
            if metadata.file_type().is_char_device() && entry.file_name() != CONTROL {
                found.push(Device::new(entry.path(), &metadata));
            }
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// The device of a name.
    pub fn device(&self, name: &str) -> Result<Device> {
        self.devices()?.into_iter().find(|device| device.name == name).ok_or_else(|| {
            let place = self.directory.display();
            Error::new(Kind::NotThere, format!("there is no device {name} in {place}"))
                .hint("`binderctl list` shows the devices that are there")
        })
    }
}

impl Device {
    fn new(path: PathBuf, metadata: &fs::Metadata) -> Self {
        let name = path.file_name().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
        Self {
            name: name.unwrap_or_default(),
            path,
            major: nix::sys::stat::major(metadata.rdev()),
            minor: nix::sys::stat::minor(metadata.rdev()),
            mode: format!("{:04o}", metadata.mode() & 0o7777),
            uid: metadata.uid(),
            gid: metadata.gid(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 0:20 / /proc rw,relatime - proc proc rw
30 1 0:31 / /dev/binder\\040fs\\134x ro,relatime shared:5 - binder binder rw,max=7,stats=global
31 1 0:32 / /dev/binderfs rw,nodev,relatime - binder binder rw,max=1048576
32 1 0:32 /binder /dev/binder rw,relatime - binder binder rw,max=1048576
33 30 0:33 / /dev/covered rw,relatime - binder binder rw,max=3
34 33 0:34 / /dev/covered rw,relatime - binder binder rw,max=4
broken line
";

    #[test]
    fn instances_are_found_among_mounts() {
        let (found, covered) = parse(MOUNTS.as_bytes());
        assert_eq!((found.len(), found[2].max), (3, Some(4)));
        assert_eq!((covered.len(), covered[0].max), (1, Some(3)));
        assert_eq!(found[0].directory, Path::new("/dev/binder fs\\x"));
        let of = |at: usize| (found[at].max, found[at].logs, found[at].read_only, found[at].nodev);
        assert_eq!((of(0), of(1)), ((Some(7), true, true, false), (Some(1 << 20), false, false, true)));
    }
}
