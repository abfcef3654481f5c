// SPDX-License-Identifier: GPL-2.0
//! A payload laid into shared memory, and a bell rung for the other side: a futex or an eventfd.
//!
//! Nobody notices the death of the other side here; the coordinator, which watches all processes, does.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::sys::eventfd::EventFd;
use nix::sys::mman::mmap_anonymous;
use nix::sys::mman::munmap;
use nix::sys::mman::MapFlags;
use nix::sys::mman::ProtFlags;
use nix::unistd::read;
use nix::unistd::write;

use crate::caller::Caller;
use crate::error::Context;
use crate::error::Result;
use crate::order::Setting;

/// One page for the words, so that the payloads are aligned; the words lie on cache lines of their own.
const HEAD: usize = 4096;
const LINE: usize = 128;

/// Words that hold the size of the request and of the reply.
const REQUEST: usize = 2;
const REPLY: usize = 3;

/// Which of the two sides is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Server = 0,
    Client = 1,
}

/// How one side wakes the other.
#[derive(Debug)]
pub enum Bells {
    /// A word for each side, counted up by who rings.
    Futex,
    /// A descriptor for each side.
    Eventfd([OwnedFd; 2]),
}

impl Bells {
    /// Futexes, which need nothing but the table.
    pub fn futex() -> Bells {
        Bells::Futex
    }

    /// Two new eventfds.
    pub fn eventfd() -> Result<Bells> {
        let new = || EventFd::new().map(OwnedFd::from).context("eventfd");
        Ok(Bells::Eventfd([new()?, new()?]))
    }
}

/// Memory that client and server share, and the bells.
#[derive(Debug)]
pub struct Table {
    start: NonNull<c_void>,
    length: NonZeroUsize,
    largest: usize,
    bells: Bells,
}

// SAFETY: the words are atomics, and who may touch the payloads is settled by the bells, between threads as between
// processes.
unsafe impl Sync for Table {}

impl Table {
    /// Room for a request and a reply of so many bytes; to be made before the two sides are forked.
    pub fn new(largest: u32, bells: Bells) -> Result<Table> {
        let largest = largest as usize;
        let length = NonZeroUsize::MIN.saturating_add(HEAD + 2 * largest);
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no address is demanded, so no existing memory is replaced.
        let start = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_SHARED) };
        Ok(Table { start: start.context("shared memory")?, length, largest, bells })
    }

    /// One of the words in the first page: how often each side's bell was rung, then the two sizes.
    #[inline(always)]
    fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < HEAD / LINE);
        // SAFETY: the word lies in the first page of the mapping, which lives as long as `self`, is aligned as
        // `LINE` is, starts as zero, and is only ever used as an atomic, by both processes.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().cast::<u8>().add(index * LINE).cast()) }
    }

    /// Copies bytes into the part of the table that this side reads.
    #[inline(always)]
    fn lay(&self, side: Side, bytes: &[u8]) {
        assert!(bytes.len() <= self.largest);
        // SAFETY: the part has room for `largest` bytes, which the assertion bounds. The other process reads it
        // only after this side has rung and before it rings itself, so not now.
        unsafe {
            let part = self.start.as_ptr().cast::<u8>().add(HEAD + side as usize * self.largest);
            part.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Copies bytes out of the part of the table that this side reads.
    #[inline(always)]
    fn take(&self, side: Side, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.largest);
        // SAFETY: as in `lay`: inside the part, and the other process writes it only while this one waits.
        unsafe {
            let part = self.start.as_ptr().cast::<u8>().add(HEAD + side as usize * self.largest);
            part.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
    }

    #[inline(always)]
    fn ring(&self, side: Side) -> Result<()> {
        match &self.bells {
            Bells::Eventfd(fds) => {
                write(&fds[side as usize], &1u64.to_ne_bytes()).context("eventfd").map(drop)
            }
            Bells::Futex => {
                self.word(side as usize).fetch_add(1, Ordering::Release);
                self.futex(side, libc::FUTEX_WAKE, 1).map(drop).context("FUTEX_WAKE")
            }
        }
    }

    /// Waits until this side's bell has been rung once more; `heard` counts the rings.
    #[inline(always)]
    fn wait(&self, side: Side, heard: &mut u32) -> Result<()> {
        match &self.bells {
            Bells::Eventfd(fds) => read(&fds[side as usize], &mut [0; 8]).context("eventfd").map(drop),
            Bells::Futex => {
                while self.word(side as usize).load(Ordering::Acquire) == *heard {
                    match self.futex(side, libc::FUTEX_WAIT, *heard) {
                        Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
                        Err(errno) => return Err(errno).context("FUTEX_WAIT"),
                    }
                }
                *heard = heard.wrapping_add(1);
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn futex(&self, side: Side, operation: i32, value: u32) -> nix::Result<i64> {
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: the word is mapped as long as `self` lives; without a timeout no other memory is named.
        let result = unsafe {
            libc::syscall(libc::SYS_futex, self.word(side as usize).as_ptr(), operation, value, none)
        };
        Errno::result(result)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and nothing borrowed from it outlives `self`.
        let _ = unsafe { munmap(self.start, self.length.get()) };
    }
}

/// The client.
pub struct HandoffCaller<'a> {
    table: &'a Table,
    request: Vec<u8>,
    reply: Vec<u8>,
    size: usize,
    heard: u32,
}

impl HandoffCaller<'_> {
    /// A client at a table.
    pub fn new(table: &Table) -> HandoffCaller<'_> {
        let room = vec![0x5a; table.largest];
        HandoffCaller { table, request: room.clone(), reply: room, size: 0, heard: 0 }
    }
}

impl Caller for HandoffCaller<'_> {
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.size = setting.size as usize;
        self.table.word(REQUEST).store(setting.size, Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn call(&mut self) -> Result<()> {
        self.table.lay(Side::Server, &self.request[..self.size]);
        self.table.ring(Side::Server)?;
        self.table.wait(Side::Client, &mut self.heard)?;
        let size = self.table.word(REPLY).load(Ordering::Relaxed) as usize;
        self.table.take(Side::Client, &mut self.reply[..size]);
        Ok(())
    }
}

/// Answers each request, for ever: with its own bytes, or with none.
pub fn serve(table: &Table, echo: bool) -> Result<()> {
    let mut room = vec![0; table.largest];
    let mut heard = 0;
    loop {
        table.wait(Side::Server, &mut heard)?;
        let size = (table.word(REQUEST).load(Ordering::Relaxed) as usize).min(table.largest);
        table.take(Side::Server, &mut room[..size]);
        let reply = if echo { size } else { 0 };
        table.lay(Side::Client, &room[..reply]);
        table.word(REPLY).store(reply as u32, Ordering::Relaxed);
        table.ring(Side::Client)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bells_carry_every_size_there_and_back() {
        for (bells, echo) in
            [(Bells::futex(), true), (Bells::futex(), false), (Bells::eventfd().unwrap(), true)]
        {
            // A server serves for ever, so its table has to live as long.
            let table: &'static Table = Box::leak(Box::new(Table::new(65_536, bells).unwrap()));
            std::thread::spawn(move || serve(table, echo));
            let mut caller = HandoffCaller::new(table);
            for size in [0, 1, 4096, 65_536, 0] {
                caller.set(Setting { size, variant: 0 }).unwrap();
                caller.reply.fill(0);
                for _ in 0..3 {
                    caller.call().unwrap();
                }
                let expected = if echo { size as usize } else { 0 };
                assert_eq!(caller.reply.iter().filter(|&&byte| byte == 0x5a).count(), expected);
            }
        }
    }
}
