// SPDX-License-Identifier: GPL-2.0

//! The read buffer of the calling process. Items (a `BR_*` code and its payload) are gathered in
//! the kernel, and written to user space in one piece.

use crate::{
    common::code_counts::Counter,
    defs::{Return, WriteRead, LARGEST_RETURN},
    ffi::trace, //
    kernel_ext::{stack_bytes::StackBytes, user},
    thread::Thread,
};
use kernel::{
    prelude::*,
    uaccess::UserPtr, //
};

/// How many bytes are gathered before they are written: more than one read usually returns.
const PIECE: usize = 192;

const _: () = assert!(LARGEST_RETURN < PIECE);

const SIZE_OF_CODE: u64 = size_of::<u32>() as u64;

/// The read buffer of the calling process.
pub(crate) struct ReadBuffer<'a> {
    /// Who reads it.
    reader: &'a Thread,
    address: u64,
    size: u64,
    /// The offset up to which the buffer is written.
    flushed: u64,
    /// The bytes behind that, which are not written yet.
    piece: StackBytes<PIECE>,
}

impl<'a> ReadBuffer<'a> {
    /// Returns the read buffer of `reader` that `io` describes, after it has [begun](begin).
    #[inline(always)]
    pub(crate) fn new(reader: &'a Thread, io: &WriteRead) -> Self {
        let mut buffer = Self {
            reader,
            address: io.read_buffer,
            size: io.read_size,
            flushed: io.read_consumed,
            piece: StackBytes::new(),
        };
        if io.read_consumed == 0 {
            // It is written once more with what comes behind it: whole words are copied faster.
            buffer.push(Return::Noop, &[]);
        }
        buffer
    }

    /// Returns how many bytes of the buffer are used, including those that are not flushed yet.
    pub(crate) fn written(&self) -> u64 {
        self.flushed + self.piece.as_slice().len() as u64
    }

    /// Whether user space has left room for another item of any size (contract WR-8).
    pub(crate) fn has_room(&self) -> bool {
        self.size.saturating_sub(self.written()) >= LARGEST_RETURN as u64
    }

    /// Whether another item might not fit without a flush.
    pub(crate) fn is_piece_full(&self) -> bool {
        self.piece.room() < LARGEST_RETURN
    }

    /// Adds an item, and counts it. The piece must have room for it.
    #[inline(always)]
    pub(crate) fn put(&mut self, code: Return, payload: &[u8]) {
        self.push(code, payload);
        self.reader.count(Counter::of_return(code));
        trace::return_code(code.code());
    }

    /// Adds a call or a reply. The piece must have room for it. Once it is flushed,
    /// [`transaction_delivered`] is to follow.
    pub(crate) fn put_transaction(&mut self, code: Return, payload: &[u8]) {
        self.push(code, payload);
    }

    fn push(&mut self, code: Return, payload: &[u8]) {
        let _ = self.piece.push(&code.code().to_ne_bytes());
        let _ = self.piece.push(payload);
    }

    /// Replaces the first code of the buffer (contract WR-10), and counts it. Fails with `EFAULT`.
    pub(crate) fn put_first(&mut self, code: Return) -> Result {
        match self.piece.as_mut_slice().first_chunk_mut() {
            Some(first) if self.flushed == 0 => *first = code.code().to_ne_bytes(),
            _ => user::write_u32(place(self.address)?, code.code())?,
        }
        self.reader.count(Counter::of_return(code));
        trace::return_code(code.code());
        Ok(())
    }

    /// Writes the gathered items to user space. Fails with `EFAULT`, and keeps them then.
    pub(crate) fn flush(&mut self) -> Result {
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

/// Whether the buffer that `io` describes has what is said to be consumed of it, and room for the
/// code that a read [begins](begin) with if that is nothing.
#[inline(always)]
pub(crate) fn can_begin(io: &WriteRead) -> bool {
    let needed = match io.read_consumed {
        0 => SIZE_OF_CODE,
        consumed => consumed,
    };
    io.read_size >= needed
}

/// Begins a read that [can begin](can_begin): if nothing of the buffer that `io` describes is
/// consumed, writes the code that a read begins with, which is neither counted nor traced. So a
/// buffer that cannot be written is noticed before anything is taken out for it, or waited for
/// (contract WR-12). Returns how much of the buffer is written then, which is no more than it has.
/// Fails with `EFAULT`.
#[inline(always)]
pub(crate) fn begin(io: &WriteRead) -> Result<u64> {
    if io.read_consumed > 0 {
        return Ok(io.read_consumed);
    }
    user::write_u32(place(io.read_buffer)?, Return::Noop.code())?;
    Ok(SIZE_OF_CODE)
}

/// Ends a read of `reader` with one code at offset `at`, and counts it. There must be room for it.
/// Fails with `EFAULT`.
#[inline(always)]
pub(crate) fn end_with(reader: &Thread, io: &mut WriteRead, at: u64, code: Return) -> Result {
    let address = io.read_buffer.checked_add(at).ok_or(EFAULT)?;
    user::write_u32(place(address)?, code.code())?;
    reader.count(Counter::of_return(code));
    trace::return_code(code.code());
    io.read_consumed = at + SIZE_OF_CODE;
    Ok(())
}

/// Counts and traces call or reply `id`, which user space has as `code` now.
#[inline(always)]
pub(crate) fn transaction_delivered(reader: &Thread, id: u32, code: Return) {
    reader.count(Counter::of_return(code));
    trace::transaction_received(id);
    trace::return_code(code.code());
}

/// Returns the place in the memory of the calling process that has this address. Fails with
/// `EFAULT`.
fn place(address: u64) -> Result<UserPtr> {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    Ok(UserPtr::from_addr(address))
}
