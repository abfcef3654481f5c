// SPDX-License-Identifier: GPL-2.0

//! The read buffer of the calling process.
//!
//! Items (a `BR_*` code and its payload) are gathered in the kernel, and written to user space in
//! one piece.

use crate::{
    common::stats::Counter,
    defs::{Return, WriteRead, LARGEST_RETURN},
    ffi::trace,
    kernel_ext::user::{self, Plain, StackBytes},
    thread::Thread, //
};
use kernel::{prelude::*, uaccess::UserPtr};

/// The number of bytes that are gathered before they are written: more than one read usually
/// returns.
pub(super) const PIECE: usize = 192;

const _: () = assert!(LARGEST_RETURN < PIECE);

pub(super) const SIZE_OF_CODE: u64 = size_of::<u32>() as u64;

/// The read buffer of the calling process.
pub(super) struct ReadBuffer<'a> {
    /// The thread that reads it.
    reader: &'a Thread,
    address: u64,
    /// The number of bytes that have been written to user space.
    pub(super) flushed: u64,
    /// The number of those that there is room for behind them.
    room: u64,
    /// Those that are still to be written.
    pub(super) piece: StackBytes<PIECE>,
}

impl<'a> ReadBuffer<'a> {
    /// Returns the read buffer that `io` describes, for this thread to read.
    pub(super) fn new(reader: &'a Thread, io: &WriteRead) -> Self {
        Self {
            reader,
            address: io.read_buffer,
            flushed: io.read_consumed,
            room: io.read_size.saturating_sub(io.read_consumed),
            piece: StackBytes::new(),
        }
    }

    /// Returns true if the buffer has room for another item of any size (contract WR-8).
    pub(super) fn has_room(&self) -> bool {
        (self.piece.len() + LARGEST_RETURN) as u64 <= self.room
    }

    /// Adds an item, and counts it. The piece must have room for it.
    #[inline(always)]
    pub(super) fn put(&mut self, code: Return, payload: impl Plain) {
        self.push(code, payload);
        count_return(self.reader, code);
    }

    /// Adds a call or a reply, which is counted once user space has it. The piece must have room
    /// for it.
    #[inline(always)] // The code and the size of the payload are known in most places.
    pub(super) fn push<T: Plain>(&mut self, code: Return, payload: T) {
        let _ = self.piece.push(code.code(), payload);
    }

    /// Replaces the first code of the buffer (contract WR-10), and counts it. Fails with `EFAULT`.
    pub(super) fn put_first(&mut self, code: Return) -> Result {
        match self.piece.as_mut_slice().first_chunk_mut() {
            Some(first) if self.flushed == 0 => *first = code.code().to_ne_bytes(),
            _ => {
                if !user::put_u32(place(self.address)?, code.code()) {
                    return Err(EFAULT);
                }
            }
        }
        count_return(self.reader, code);
        Ok(())
    }

    /// Writes the gathered items to user space. Fails with `EFAULT`, and keeps them then.
    #[inline(always)]
    pub(super) fn flush(&mut self) -> Result {
        match self.piece.len() {
            0 => Ok(()),
            _ => self.flush_piece(),
        }
    }

    fn flush_piece(&mut self) -> Result {
        let len = self.piece.len() as u64;
        let address = self.address.checked_add(self.flushed).ok_or(EFAULT)?;
        self.piece.flush(place(address)?)?;
        self.flushed += len;
        self.room = self.room.saturating_sub(len);
        Ok(())
    }
}

/// Begins a read: if nothing of the buffer that `io` describes is consumed, writes the code that a
/// read begins with, which is neither counted nor traced. So a buffer that cannot be written is
/// noticed before anything is taken out for it, or waited for (contract WR-12). Returns how much of
/// the buffer is written then. Fails with `EFAULT`.
#[inline(always)]
pub(super) fn begin(io: &WriteRead) -> Result<u64> {
    if io.read_consumed > 0 {
        return Ok(io.read_consumed);
    }
    let is_written = user::put_u32(place(io.read_buffer)?, Return::Noop.code());
    is_written.then_some(SIZE_OF_CODE).ok_or(EFAULT)
}

/// Counts and traces a code that user space has, or is about to have.
#[inline(always)]
pub(super) fn count_return(reader: &Thread, code: Return) {
    reader.count(Counter::of_return(code));
    trace::return_code(code.code());
}

/// Returns the place in the memory of the calling process that has this address. Fails with
/// `EFAULT`.
pub(super) fn place(address: u64) -> Result<UserPtr> {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    Ok(UserPtr::from_addr(address))
}
