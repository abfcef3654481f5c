// SPDX-License-Identifier: GPL-2.0

//! The read buffer of the calling process.
//!
//! Items (a `BR_*` code and its payload) are gathered in the kernel, and written to user space in
//! one piece.

use crate::{
    common::stats::Counter,
    defs::{Return, WriteRead, LARGEST_RETURN},
    ffi::trace,
    kernel_ext::user::{self, StackBytes},
    thread::Thread, //
};
use kernel::{prelude::*, uaccess::UserPtr};

/// How many bytes are gathered before they are written: more than one read usually returns.
const PIECE: usize = 192;

const _: () = assert!(LARGEST_RETURN < PIECE);

pub(super) const SIZE_OF_CODE: u64 = size_of::<u32>() as u64;

/// The read buffer of the calling process.
pub(super) struct ReadBuffer<'a> {
    /// Who reads it.
    pub(super) reader: &'a Thread,
    pub(super) address: u64,
    pub(super) size: u64,
    /// The offset up to which the buffer is written.
    pub(super) flushed: u64,
    /// The bytes behind that, which are not written yet.
    pub(super) piece: StackBytes<PIECE>,
}

impl ReadBuffer<'_> {
    /// Whether user space has left room for another item of any size (contract WR-8).
    pub(super) fn has_room(&self) -> bool {
        let written = self.flushed + self.piece.as_slice().len() as u64;
        self.size.saturating_sub(written) >= LARGEST_RETURN as u64
    }

    /// Adds an item, and counts it. The piece must have room for it.
    #[inline(always)]
    pub(super) fn put(&mut self, code: Return, payload: &[u8]) {
        self.push(code, payload);
        count_return(self.reader, code);
    }

    /// Adds a call or a reply, which is counted once user space has it. The piece must have room
    /// for it.
    pub(super) fn push(&mut self, code: Return, payload: &[u8]) {
        let _ = self.piece.push(&code.code().to_ne_bytes());
        let _ = self.piece.push(payload);
    }

    /// Replaces the first code of the buffer (contract WR-10), and counts it. Fails with `EFAULT`.
    pub(super) fn put_first(&mut self, code: Return) -> Result {
        match self.piece.as_mut_slice().first_chunk_mut() {
            Some(first) if self.flushed == 0 => *first = code.code().to_ne_bytes(),
            _ => user::write_u32(place(self.address)?, code.code())?,
        }
        count_return(self.reader, code);
        Ok(())
    }

    /// Writes the gathered items to user space. Fails with `EFAULT`, and keeps them then.
    pub(super) fn flush(&mut self) -> Result {
        let piece = self.piece.as_slice();
        if !piece.is_empty() {
            let address = self.address.checked_add(self.flushed).ok_or(EFAULT)?;
            self.piece.write_user(place(address)?)?;
            self.flushed += piece.len() as u64;
            self.piece.clear();
        }
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
    user::write_u32(place(io.read_buffer)?, Return::Noop.code())?;
    Ok(SIZE_OF_CODE)
}

/// Counts and traces a code that user space has, or is about to have.
#[inline(always)]
pub(super) fn count_return(reader: &Thread, code: Return) {
    reader.counts.count(Counter::of_return(code));
    trace::return_code(code.code());
}

/// Returns the place in the memory of the calling process that has this address. Fails with
/// `EFAULT`.
pub(super) fn place(address: u64) -> Result<UserPtr> {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    Ok(UserPtr::from_addr(address))
}
