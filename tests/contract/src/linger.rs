// SPDX-License-Identifier: GPL-2.0
//! A file whose end takes as long as a test needs, and a directory whose entries stay as long.
//!
//! The end of a file in an epoll set waits for the set's lock. `epoll_wait()` holds that lock while
//! it writes events into memory, and sleeps if that memory is not there. In the same way, a reader
//! of a directory's entries holds the directory's lock.

use crate::pages::page;
use crate::userfault::Absent;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;
use nix::sys::mman::{mmap_anonymous, MapFlags, ProtFlags};
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread::JoinHandle;

/// Delays the end of such a file, or keeps such a directory as it is, until it is dropped.
pub struct Lingering {
    absent: Absent,
    reader: Option<JoinHandle<()>>,
}

impl Lingering {
    /// A file, and what keeps it. Fails if the kernel has no userfaultfd.
    pub fn new() -> nix::Result<(EventFd, Self)> {
        let (file, set) = (EventFd::from_value(1)?, Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        set.add(&file, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        let lingering = Self::reading(move |memory| {
            // SAFETY: there is room for one event, once somebody provides it; the memory stays.
            unsafe { libc::epoll_wait(set.0.as_raw_fd(), memory as *mut libc::epoll_event, 1, -1) };
        })?;
        Ok((file, lingering))
    }

    /// Keeps the entries of a directory in it. Fails if the kernel has no userfaultfd.
    pub fn in_directory(path: &Path) -> nix::Result<Self> {
        let directory = File::open(path).expect("open a directory");
        Self::reading(move |memory| {
            // SAFETY: there is room for a page of entries, once somebody provides it; the memory stays.
            unsafe { libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), memory as usize, page()) };
        })
    }

    /// Somebody who reads into a page that is not there.
    fn reading(read: impl FnOnce(u64) + Send + 'static) -> nix::Result<Self> {
        let (protection, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        let length = NonZeroUsize::new(page()).expect("a size");
        // SAFETY: a new mapping replaces nothing.
        let memory = unsafe { mmap_anonymous(None, length, protection, flags)? }.as_ptr() as u64;
        let absent = Absent::here(memory, page())?;
        let reader = std::thread::spawn(move || read(memory));
        absent.wait();
        Ok(Self { absent, reader: Some(reader) })
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        self.absent.provide(0, &[]);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
