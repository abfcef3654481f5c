// SPDX-License-Identifier: GPL-2.0
//! A file whose end takes as long as a test wants.
//!
//! The end of a file that an epoll set knows waits for the set's lock, and whoever reads the set's events holds
//! that lock while it writes them into memory. If that memory is not there, it sleeps.

use crate::pages::page;
use crate::userfault::Absent;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;
use nix::sys::mman::{mmap_anonymous, MapFlags, ProtFlags};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::thread::JoinHandle;

/// What keeps such a file from its end. Ends when it is dropped.
pub struct Lingering {
    absent: Absent,
    reader: Option<JoinHandle<()>>,
}

impl Lingering {
    /// A file, and what keeps it. Fails if the kernel has no userfaultfd.
    pub fn new() -> nix::Result<(EventFd, Self)> {
        let (file, set) = (EventFd::from_value(1)?, Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        set.add(&file, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        let (protection, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        let length = NonZeroUsize::new(page()).expect("a size");
        // SAFETY: a new mapping replaces nothing.
        let memory = unsafe { mmap_anonymous(None, length, protection, flags)? }.as_ptr() as u64;
        let absent = Absent::here(memory, page())?;
        let reader = std::thread::spawn(move || {
            // SAFETY: there is room for one event, once somebody provides it; the memory stays.
            unsafe { libc::epoll_wait(set.0.as_raw_fd(), memory as *mut libc::epoll_event, 1, -1) };
        });
        absent.wait();
        Ok((file, Self { absent, reader: Some(reader) }))
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
