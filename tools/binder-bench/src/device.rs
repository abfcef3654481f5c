// SPDX-License-Identifier: GPL-2.0
//! The device that a run works on: given, or added to a binderfs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use binder_sys::{Device, Errno, PROTOCOL_VERSION};

use crate::cli::DeviceArgs;
use crate::error::{Error, Kind, Result};

pub const USUAL_MOUNT: &str = "/dev/binderfs";

/// The device of a run.
#[derive(Debug)]
pub struct Site {
    pub device: PathBuf,
    /// It was added for the run, and is removed after it.
    is_added: bool,
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.is_added {
            let _ = fs::remove_file(&self.device);
        }
    }
}

impl Site {
    /// Finds or makes a device, and makes sure that it is one.
    pub fn prepare(args: &DeviceArgs) -> Result<Site> {
        let site = match &args.device {
            Some(device) => Site { device: device.clone(), is_added: false },
            None => Site { device: add_to(&args.binderfs)?, is_added: true },
        };
        check(&site.device)?;
        Ok(site)
    }
}

/// Adds a device to a mounted binderfs: its path.
fn add_to(directory: &Path) -> Result<PathBuf> {
    // Two drivers that are measured in turns may be the same one.
    static ADDED: AtomicU32 = AtomicU32::new(0);
    let name = format!("bench-{}-{}", std::process::id(), ADDED.fetch_add(1, Ordering::Relaxed));
    binder_sys::fs::add_device(directory, &name).map_err(|errno| match errno {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ENOTTY => {
            Kind::NoBinder.error(format!("{} is not a mounted binderfs", directory.display()))
        }
        errno => Error::from_path(format!("cannot add a device to {}", directory.display()), errno),
    })?;
    Ok(directory.join(name))
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
