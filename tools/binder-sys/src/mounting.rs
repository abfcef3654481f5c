// SPDX-License-Identifier: GPL-2.0
//! Mounting binderfs option by option, with what the kernel says where it refuses one.

use crate::fs::TYPE;
use libc::c_long;
use nix::errno::Errno;
use nix::NixPath;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const FSOPEN_CLOEXEC: c_long = 1;
const FSPICK_CLOEXEC: c_long = 1;
const FSMOUNT_CLOEXEC: c_long = 1;
const OPEN_TREE_CLONE: c_long = 1;
const OPEN_TREE_CLOEXEC: c_long = libc::O_CLOEXEC as c_long;
const MOVE_MOUNT_F_EMPTY_PATH: c_long = 4;
const AT_EMPTY_PATH: c_long = 0x1000;
const MOUNT_ATTR_IDMAP: u64 = 0x10_0000;

/// The commands of `fsconfig`.
mod command {
    use super::c_long;

    pub const SET_FLAG: c_long = 0;
    pub const SET_STRING: c_long = 1;
    pub const CREATE: c_long = 6;
    pub const RECONFIGURE: c_long = 7;
}

/// The longest message that is read.
const LONGEST_MESSAGE: usize = 4096;

/// What was refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error.
    pub errno: Errno,
    /// The option that was refused, if it was one.
    pub option: Option<String>,
    /// What the kernel said, a message a line, without the word that says how bad it is.
    pub messages: Vec<String>,
}

/// An instance that is not mounted yet, or one whose options are to be changed.
#[derive(Debug)]
pub struct Mounting(OwnedFd);

impl Mounting {
    /// A new instance.
    pub fn new() -> nix::Result<Self> {
        let name = CString::new(TYPE).expect("a name without zero bytes");
        // SAFETY: The name ends with a zero byte, and is alive during the call.
        let result = unsafe { libc::syscall(libc::SYS_fsopen, name.as_ptr(), FSOPEN_CLOEXEC) };
        descriptor(result).map(Self)
    }

    /// The instance that is mounted on a directory.
    pub fn again<P: NixPath + ?Sized>(directory: &P) -> nix::Result<Self> {
        let result = directory.with_nix_path(|path| {
            // SAFETY: The path ends with a zero byte, and is alive during the call.
            unsafe { libc::syscall(libc::SYS_fspick, libc::AT_FDCWD, path.as_ptr(), FSPICK_CLOEXEC) }
        })?;
        descriptor(result).map(Self)
    }

    /// Sets an option to a value; to none, if it has to be named alone.
    pub fn set(&self, option: &str, value: Option<&str>) -> Result<(), Refusal> {
        let is_text = |text: &str| CString::new(text).map_err(|_| self.refusal(Errno::EINVAL, Some(option)));
        let (key, text) = (is_text(option)?, value.map(is_text).transpose()?);
        let what = if text.is_some() { command::SET_STRING } else { command::SET_FLAG };
        self.configure(what, Some(&key), text.as_deref()).map_err(|errno| self.refusal(errno, Some(option)))
    }

    /// Makes the instance, and a mount of it that is in no directory.
    pub fn create(&self) -> Result<Mount, Refusal> {
        self.configure(command::CREATE, None, None).map_err(|errno| self.refusal(errno, None))?;
        // SAFETY: All arguments are numbers.
        let result =
            unsafe { libc::syscall(libc::SYS_fsmount, self.0.as_raw_fd(), FSMOUNT_CLOEXEC, 0 as c_long) };
        descriptor(result).map(Mount).map_err(|errno| self.refusal(errno, None))
    }

    /// Gives the options that were set to the instance that is mounted.
    pub fn reconfigure(&self) -> Result<(), Refusal> {
        self.configure(command::RECONFIGURE, None, None).map_err(|errno| self.refusal(errno, None))
    }

    fn configure(&self, what: c_long, key: Option<&CStr>, value: Option<&CStr>) -> nix::Result<()> {
        let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: Each of the strings ends with a zero byte, is alive during the call, and is not there for commands
        // without one.
        let result = unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                self.0.as_raw_fd(),
                what,
                pointer(key),
                pointer(value),
                0 as c_long,
            )
        };
        Errno::result(result).map(drop)
    }

    fn refusal(&self, errno: Errno, option: Option<&str>) -> Refusal {
        let mut messages = Vec::new();
        let mut buffer = [0; LONGEST_MESSAGE];
        while let Ok(length) = nix::unistd::read(&self.0, &mut buffer) {
            let line = String::from_utf8_lossy(&buffer[..length]);
            let text = line.trim_end().split_once(' ').map_or("", |(_, text)| text);
            messages.push(text.to_owned());
        }
        Refusal { errno, option: option.map(str::to_owned), messages }
    }
}

/// A mount that need not be in any directory.
#[derive(Debug)]
pub struct Mount(OwnedFd);

impl Mount {
    /// Another mount of what is mounted on a directory.
    pub fn of<P: NixPath + ?Sized>(directory: &P) -> nix::Result<Self> {
        let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
        let result = directory.with_nix_path(|path| {
            // SAFETY: The path ends with a zero byte, and is alive during the call.
            unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) }
        })?;
        descriptor(result).map(Self)
    }

    /// Puts it on a directory.
    pub fn move_to<P: NixPath + ?Sized>(&self, directory: &P) -> nix::Result<()> {
        let result = directory.with_nix_path(|path| {
            // SAFETY: Both paths end with a zero byte, and are alive during the call.
            unsafe {
                libc::syscall(
                    libc::SYS_move_mount,
                    self.0.as_raw_fd(),
                    c"".as_ptr(),
                    libc::AT_FDCWD,
                    path.as_ptr(),
                    MOVE_MOUNT_F_EMPTY_PATH,
                )
            }
        })?;
        Errno::result(result).map(drop)
    }

    /// Maps owners as a user namespace does: who is 0 in the instance is whom that namespace calls 0.
    pub fn map_owners(&self, user_namespace: BorrowedFd) -> nix::Result<()> {
        let fd = user_namespace.as_raw_fd() as u64;
        // Set, clear, propagation, the namespace: `struct mount_attr`.
        let attributes = [MOUNT_ATTR_IDMAP, 0, 0, fd];
        // SAFETY: The path ends with a zero byte; the attributes are as large as is said.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                self.0.as_raw_fd(),
                c"".as_ptr(),
                AT_EMPTY_PATH,
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

fn descriptor(result: c_long) -> nix::Result<OwnedFd> {
    let fd = Errno::result(result)?;
    // SAFETY: The system call has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
