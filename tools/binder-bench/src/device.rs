// SPDX-License-Identifier: GPL-2.0
//! The device that a run works on: given, added to a binderfs, or on an instance mounted for the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use binder_sys::{Device, Errno, PROTOCOL_VERSION};
use nix::mount::{mount, umount, MsFlags};
use nix::sched::{unshare, CloneFlags};

use crate::cli::DeviceArgs;
use crate::error::{Context, Error, Kind, Result};

pub const USUAL_MOUNT: &str = "/dev/binderfs";

/// The device of a run, and what to take away after it.
#[derive(Debug)]
pub struct Site {
    pub device: PathBuf,
    _made: Vec<Made>,
}

/// Something made for the run; dropping it takes it away again.
#[derive(Debug)]
enum Made {
    Device(PathBuf),
    Mount(PathBuf),
}

impl Drop for Made {
    fn drop(&mut self) {
        match self {
            Made::Device(path) => drop(fs::remove_file(path)),
            Made::Mount(directory) => {
                let _ = umount(directory.as_path());
                let _ = fs::remove_dir(directory);
            }
        }
    }
}

impl Site {
    /// Finds or makes a device, and makes sure that it is one.
    pub fn prepare(args: &DeviceArgs) -> Result<Site> {
        let (device, made) = match (&args.device, &args.binderfs) {
            (Some(device), _) => (device.clone(), Vec::new()),
            (None, Some(directory)) => add_to(directory)?,
            (None, None) if !args.mount && Path::new(USUAL_MOUNT).join(binder_sys::fs::CONTROL).exists() => {
                add_to(Path::new(USUAL_MOUNT))?
            }
            (None, None) => mount_own()?,
        };
        check(&device)?;
        Ok(Site { device, _made: made })
    }
}

fn add_to(directory: &Path) -> Result<(PathBuf, Vec<Made>)> {
    // Two drivers that are measured in turns may be the same one.
    static ADDED: AtomicU32 = AtomicU32::new(0);
    let name = format!("bench-{}-{}", std::process::id(), ADDED.fetch_add(1, Ordering::Relaxed));
    binder_sys::fs::add_device(directory, &name).map_err(|errno| match errno {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ENOTTY => {
            Kind::NoBinder.error(format!("{} is not a mounted binderfs", directory.display()))
        }
        errno => Error::from_path(format!("cannot add a device to {}", directory.display()), errno),
    })?;
    let path = directory.join(name);
    Ok((path.clone(), vec![Made::Device(path)]))
}

fn mount_own() -> Result<(PathBuf, Vec<Made>)> {
    // In a mount namespace of our own the mount goes away even if we are killed. Without the right to make one,
    // mounting will say what is missing.
    if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        let _ = mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>);
    }
    let directory = std::env::temp_dir().join(format!("binder-bench-{}", std::process::id()));
    fs::create_dir_all(&directory).context(format!("cannot make {}", directory.display()))?;
    if let Err(errno) = binder_sys::fs::mount_at(&directory, None) {
        let _ = fs::remove_dir(&directory);
        return Err(match errno {
            Errno::ENODEV => Kind::NoBinder.error("no binderfs in this kernel: is a Binder driver loaded?"),
            errno => Error::from_path("cannot mount binderfs", errno),
        });
    }
    let mount = Made::Mount(directory.clone());
    let (device, mut made) = add_to(&directory)?;
    made.push(mount);
    Ok((device, made))
}

/// Fails unless this is a Binder device.
fn check(path: &Path) -> Result<()> {
    let shown = path.display();
    let device = Device::open(path).map_err(|e| Error::from_path(format!("cannot open {shown}"), e))?;
    let version =
        device.version().map_err(|_| Kind::NoBinder.error(format!("{shown} is not a Binder device")))?;
    if version != PROTOCOL_VERSION {
        return Err(Kind::NoBinder.error(format!(
            "{shown} speaks Binder protocol {version}; binder-bench speaks {PROTOCOL_VERSION}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepare(device: Option<&str>, binderfs: Option<&str>) -> Error {
        let args = DeviceArgs {
            device: device.map(PathBuf::from),
            binderfs: binderfs.map(PathBuf::from),
            mount: false,
        };
        Site::prepare(&args).unwrap_err()
    }

    #[test]
    fn what_is_no_binder_is_called_so() {
        for error in [
            prepare(Some("/dev/null"), None),
            prepare(Some("/nonexistent"), None),
            prepare(None, Some("/nonexistent")),
            prepare(None, Some("/etc")),
        ] {
            assert_eq!(error.kind, Kind::NoBinder, "{error:?}");
        }
    }
}
