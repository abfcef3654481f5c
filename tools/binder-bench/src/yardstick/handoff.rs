// SPDX-License-Identifier: GPL-2.0
//! A payload laid into shared memory, and a futex for each side to wake it by.
//!
//! Nobody notices the death of the other side here; the coordinator, which watches all processes, does.

use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;

use crate::prelude::*;
use crate::shared::Memory;

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

/// Memory that client and server share.
///
/// # Invariants
/// `memory` has `HEAD` bytes for the words, which are used as atomics alone, and then two parts of `largest` bytes.
#[derive(Debug)]
pub struct Table {
    memory: Memory,
    largest: usize,
}

impl Table {
    /// Room for a request and a reply of so many bytes; to be made before the two sides are forked.
    pub fn new(largest: u32) -> Result<Table> {
        let largest = largest as usize;
        Ok(Table { memory: Memory::new(HEAD + 2 * largest)?, largest })
    }

    /// One of the words in the first page: how often each side was woken, then the two sizes.
    #[inline(always)]
    fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < HEAD / LINE);
        // SAFETY: by the assertion the word lies in the first page of the memory, which lives as long as `self` and is only used
        // as atomics. It is aligned as `LINE` is.
        unsafe { AtomicU32::from_ptr(self.memory.start().add(index * LINE).cast()) }
    }

    /// Copies bytes into the part of the table that this side reads.
    #[inline(always)]
    fn lay(&self, side: Side, bytes: &[u8]) {
        assert!(bytes.len() <= self.largest);
        // SAFETY: the part has room for `largest` bytes, which the assertion bounds. The other side reads it
        // only after this side has woken it and before it wakes this side, so not now.
        unsafe {
            let part = self.memory.start().add(HEAD + side as usize * self.largest);
            part.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Copies bytes out of the part of the table that this side reads.
    #[inline(always)]
    fn take(&self, side: Side, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.largest);
        // SAFETY: the part has `largest` bytes, which the assertion bounds. The other side writes it only while this one waits.
        unsafe {
            let part = self.memory.start().add(HEAD + side as usize * self.largest);
            part.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
    }

    #[inline(always)]
    fn wake(&self, side: Side) -> Result<()> {
        self.word(side as usize).fetch_add(1, Ordering::Release);
        self.futex(side, libc::FUTEX_WAKE, 1).map(drop).context("FUTEX_WAKE")
    }

    /// Waits until this side has been woken once more; `woken` counts how often it was.
    #[inline(always)]
    fn wait(&self, side: Side, woken: &mut u32) -> Result<()> {
        while self.word(side as usize).load(Ordering::Acquire) == *woken {
            match self.futex(side, libc::FUTEX_WAIT, *woken) {
                Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("FUTEX_WAIT"),
            }
        }
        *woken = woken.wrapping_add(1);
        Ok(())
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

pub struct HandoffCaller<'a> {
    table: &'a Table,
    request: Vec<u8>,
    reply: Vec<u8>,
    size: usize,
    woken: u32,
}

impl HandoffCaller<'_> {
    pub fn new(table: &Table) -> HandoffCaller<'_> {
        let room = vec![0x5a; table.largest];
        HandoffCaller { table, request: room.clone(), reply: room, size: 0, woken: 0 }
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
        self.table.wake(Side::Server)?;
        self.table.wait(Side::Client, &mut self.woken)?;
        let size = self.table.word(REPLY).load(Ordering::Relaxed) as usize;
        self.table.take(Side::Client, &mut self.reply[..size]);
        Ok(())
    }
}

/// Answers each request, for ever: with its own bytes, or with none.
pub fn serve(table: &Table, echo: bool) -> Result<()> {
    let mut room = vec![0; table.largest];
    let mut woken = 0;
    loop {
        table.wait(Side::Server, &mut woken)?;
        let size = (table.word(REQUEST).load(Ordering::Relaxed) as usize).min(table.largest);
        table.take(Side::Server, &mut room[..size]);
        let reply = if echo { size } else { 0 };
        table.lay(Side::Client, &room[..reply]);
        table.word(REPLY).store(reply as u32, Ordering::Relaxed);
        table.wake(Side::Client)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_carried_there_and_back() {
        for echo in [true, false] {
            // A server serves for ever, so its table has to live as long.
            let table: &'static Table = Box::leak(Box::new(Table::new(65_536).unwrap()));
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
