// SPDX-License-Identifier: GPL-2.0
//! Memory that is missing until a test provides it, by `userfaultfd(2)`: an access to it sleeps.

use crate::actor::{patience, Actor};
use crate::ops::Op;
use crate::pages::page;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Report pages that nobody has touched yet.
pub const MISSING: u64 = 1 << 0;
/// Report writes to pages that are write-protected.
pub const WRITE_PROTECTED: u64 = 1 << 1;
/// Memory that processes share may be missing, too.
const MISSING_SHARED: u64 = 1 << 5;
/// Record writes to write-protected pages, and let them pass. Then any memory may be watched.
pub const WRITES_PASS: u64 = 1 << 15;

const VERSION: u64 = 0xaa;
const FAULT: u8 = 0x12;

/// `struct uffdio_api`
#[repr(C)]
pub struct Api {
    version: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`
#[repr(C)]
pub struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_copy`
#[repr(C)]
pub struct Copy {
    to: u64,
    from: u64,
    length: u64,
    mode: u64,
    copied: i64,
}

/// `struct uffdio_range`
#[repr(C)]
pub struct Range {
    start: u64,
    length: u64,
}

nix::ioctl_readwrite!(uffdio_api, 0xaa, 0x3f, Api);
nix::ioctl_readwrite!(uffdio_register, 0xaa, 0x00, Register);
nix::ioctl_read!(uffdio_wake, 0xaa, 0x02, Range);
nix::ioctl_readwrite!(uffdio_copy, 0xaa, 0x03, Copy);

/// Has the kernel report faults in a range of this process's memory.
pub fn watch(address: u64, length: usize, mode: u64, features: u64) -> nix::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) })?;
    // SAFETY: the descriptor is new, and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut api = Api { version: VERSION, features, ioctls: 0 };
    // SAFETY: the kernel reads and writes the structure and nothing else.
    unsafe { uffdio_api(fd.as_raw_fd(), &mut api)? };
    let mut register = Register { start: address, length: length as u64, mode, ioctls: 0 };
    // SAFETY: as above. An access to the range sleeps until a page is provided.
    unsafe { uffdio_register(fd.as_raw_fd(), &mut register)? };
    Ok(fd)
}

/// Pages that are missing for one process.
pub struct Absent {
    faults: OwnedFd,
    /// Their start.
    pub start: u64,
}

impl Absent {
    /// Of a range that no process has touched yet. Fails with `ENOSYS` if the kernel has no userfaultfd.
    pub fn of(actor: &Actor, start: u64, length: usize) -> nix::Result<Self> {
        let fd =
            actor.number(Op::Watch { address: start, length, mode: MISSING, features: MISSING_SHARED })?;
        Ok(Self { faults: actor.share(fd as i32), start })
    }

    /// Of private memory of this process that nobody has touched yet.
    pub fn here(start: u64, length: usize) -> nix::Result<Self> {
        Ok(Self { faults: watch(start, length, MISSING, 0)?, start })
    }

    /// Waits until somebody sleeps for a page. Returns its place, counted from the first.
    #[track_caller]
    pub fn wait(&self) -> usize {
        let mut fds = [PollFd::new(self.faults.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(patience()).expect("a short time");
        assert_eq!(poll(&mut fds, limit), Ok(1), "nobody touches what is not there");
        let mut message = [0; 32];
        assert_eq!(nix::unistd::read(&self.faults, &mut message), Ok(message.len()));
        assert_eq!(message[0], FAULT);
        let address = u64::from_ne_bytes(message[16..24].try_into().expect("eight bytes"));
        (address - self.start) as usize / page()
    }

    /// Provides a page, and wakes up who sleeps for it.
    #[track_caller]
    pub fn provide(&self, index: usize, bytes: &[u8]) {
        let mut content = vec![0; page()];
        content[..bytes.len()].copy_from_slice(bytes);
        let to = self.start + (index * page()) as u64;
        let mut copy = Copy { to, from: content.as_ptr() as u64, length: page() as u64, mode: 0, copied: 0 };
        // SAFETY: the kernel reads the page, writes the structure, and fills missing memory.
        unsafe { uffdio_copy(self.faults.as_raw_fd(), &mut copy) }.expect("provide a page");
        assert_eq!(copy.copied, page() as i64);
    }

    /// Takes a page away for good by another thread of the process, and wakes up who sleeps for it.
    #[track_caller]
    pub fn withhold(&self, index: usize, other: &Actor) {
        let start = self.start + (index * page()) as u64;
        other.number(Op::Unmap { address: start, length: page() }).expect("unmap");
        let mut range = Range { start, length: page() as u64 };
        // SAFETY: the kernel reads the structure and nothing else.
        unsafe { uffdio_wake(self.faults.as_raw_fd(), &mut range) }.expect("wake");
    }
}
