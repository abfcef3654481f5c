// SPDX-License-Identifier: GPL-2.0
//! Mounting binderfs option by option, with the kernel's message for a refused one.

use crate::fs::TYPE;
use nix::errno::Errno;
use rustix::fs::CWD;
use rustix::mount::*;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The longest message that is read.
const LONGEST_MESSAGE: usize = 4096;

/// A refused mount, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error.
    pub errno: Errno,
    /// The option that was refused, if it was one.
    pub option: Option<String>,
    /// The kernel's messages, one a line, without their level.
    pub messages: Vec<String>,
}

/// An instance that is not mounted yet, or one whose options are to be changed.
#[derive(Debug)]
pub struct Mounting(OwnedFd);

impl Mounting {
    /// A new instance.
    pub fn new() -> nix::Result<Self> {
        fsopen(TYPE, FsOpenFlags::FSOPEN_CLOEXEC).map(Self).map_err(errno)
    }

    /// The instance that is mounted on a directory.
    pub fn again(directory: impl AsRef<Path>) -> nix::Result<Self> {
        fspick(CWD, directory.as_ref(), FsPickFlags::FSPICK_CLOEXEC).map(Self).map_err(errno)
    }

    /// Sets an option to a value, or sets an option without a value.
    pub fn set(&self, option: &str, value: Option<&str>) -> Result<(), Refusal> {
        let done = match value {
            Some(value) => fsconfig_set_string(&self.0, option, value),
            None => fsconfig_set_flag(&self.0, option),
        };
        done.map_err(|error| self.refusal(error, Some(option)))
    }

    /// Makes the instance, and a mount of it that is in no directory.
    pub fn create(&self) -> Result<Mount, Refusal> {
        let mount = || fsmount(&self.0, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
        let made = fsconfig_create(&self.0).and_then(|()| mount());
        made.map(Mount).map_err(|error| self.refusal(error, None))
    }

    /// Gives the options that were set to the instance that is mounted.
    pub fn reconfigure(&self) -> Result<(), Refusal> {
        fsconfig_reconfigure(&self.0).map_err(|error| self.refusal(error, None))
    }

    fn refusal(&self, error: rustix::io::Errno, option: Option<&str>) -> Refusal {
        let mut messages = Vec::new();
        let mut buffer = [0; LONGEST_MESSAGE];
        while let Ok(length) = nix::unistd::read(&self.0, &mut buffer) {
            let line = String::from_utf8_lossy(&buffer[..length]);
            let text = line.trim_end().split_once(' ').map_or("", |(_, text)| text);
            messages.push(text.to_owned());
        }
        Refusal { errno: errno(error), option: option.map(str::to_owned), messages }
    }
}

impl From<OwnedFd> for Mounting {
    fn from(instance: OwnedFd) -> Self {
        Self(instance)
    }
}

impl From<Mounting> for OwnedFd {
    fn from(mounting: Mounting) -> Self {
        mounting.0
    }
}

/// A mount that need not be in any directory.
#[derive(Debug)]
pub struct Mount(OwnedFd);

impl Mount {
    /// Another mount of what is mounted on a directory.
    pub fn of(directory: impl AsRef<Path>) -> nix::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        open_tree(CWD, directory.as_ref(), flags).map(Self).map_err(errno)
    }

    /// Puts it on a directory.
    pub fn move_to(&self, directory: impl AsRef<Path>) -> nix::Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&self.0, "", CWD, directory.as_ref(), flags).map_err(errno)
    }

    /// Maps owners as a user namespace does: ID 0 in the instance is ID 0 of that namespace.
    pub fn map_owners(&self, user_namespace: BorrowedFd) -> nix::Result<()> {
        let fd = user_namespace.as_raw_fd() as u64;
        // Set, clear, propagation, the namespace: `struct mount_attr`.
        let attributes = [MountAttrFlags::MOUNT_ATTR_IDMAP.bits().into(), 0, 0, fd];
        // SAFETY: The path ends with a zero byte; the size of the attributes is passed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                self.0.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                attributes.as_ptr(),
                size_of_val(&attributes),
            )
        };
        Errno::result(result).map(drop)
    }
}

impl AsFd for Mount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}
