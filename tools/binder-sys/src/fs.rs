// SPDX-License-Identifier: GPL-2.0
//! binderfs: mount it, and add devices through its `binder-control`.

use crate::ioctl::BINDER_CTL_ADD;
use crate::structs::BinderfsDevice;
use crate::Device;
use nix::errno::Errno;
use nix::mount::{mount, MsFlags};
use nix::NixPath;
use std::path::Path;

/// The name of the filesystem.
pub const TYPE: &str = "binder";

/// The device that adds devices.
pub const CONTROL: &str = "binder-control";

/// Mounts a new instance on a directory. Options are a comma-separated list such as `max=4`.
pub fn mount_at<P: NixPath + ?Sized>(directory: &P, options: Option<&str>) -> nix::Result<()> {
    mount_named(TYPE, directory, options)
}

/// The same of a driver whose filesystem has this name.
pub fn mount_named<P: NixPath + ?Sized>(name: &str, directory: &P, options: Option<&str>) -> nix::Result<()> {
    mount(Some(name), directory, Some(name), MsFlags::empty(), options)
}

/// Adds a device to the instance mounted on a directory, and returns its numbers.
pub fn add_device(directory: &Path, name: &str) -> nix::Result<BinderfsDevice> {
    let control = Device::open(&directory.join(CONTROL))?;
    let mut request = BinderfsDevice::named(name.as_bytes());
    add_device_raw(&control, &mut request).map(|()| request)
}

/// `BINDER_CTL_ADD` on an opened `binder-control`, which fills the numbers in.
pub fn add_device_raw(control: &Device, request: &mut BinderfsDevice) -> Result<(), Errno> {
    control.ioctl(BINDER_CTL_ADD, request)
}
