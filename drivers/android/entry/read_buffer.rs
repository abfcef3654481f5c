// SPDX-License-Identifier: GPL-2.0

//! The read buffer of the calling process: what it is told is gathered, and written in one go.

use crate::{
    defs::{Return, WriteRead, LARGEST_RETURN},
    kernel_ext::stack_bytes::StackBytes, //
};
use kernel::{
    prelude::*,
    uaccess::{UserPtr, UserSlice}, //
};

/// How many bytes are gathered before they are written: more than one read usually tells.
const PIECE: usize = 192;

const _: () = assert!(LARGEST_RETURN < PIECE);

/// The read buffer of the calling process.
pub(crate) struct ReadBuffer {
    address: u64,
    size: u64,
    /// Up to where it is written.
    flushed: u64,
    /// What comes behind that.
    piece: StackBytes<PIECE>,
}

impl ReadBuffer {
    /// `EFAULT` where there is no room for a single code, or none left.
    pub(crate) fn new(io: &WriteRead) -> Result<Self> {
        let room = io.read_size.checked_sub(io.read_consumed).ok_or(EFAULT)?;
        if io.read_consumed == 0 && room < size_of::<u32>() as u64 {
            return Err(EFAULT);
        }
        Ok(Self {
            address: io.read_buffer,
            size: io.read_size,
            flushed: io.read_consumed,
            piece: StackBytes::new(),
        })
    }

    /// How much of the buffer is used, including what is not flushed yet.
    pub(crate) fn written(&self) -> u64 {
        self.flushed + self.piece.as_slice().len() as u64
    }

    /// Whether user space left room for another item, whatever its size (contract WR-8).
    pub(crate) fn has_room(&self) -> bool {
        self.size.saturating_sub(self.written()) >= LARGEST_RETURN as u64
    }

    /// Whether another item might not fit without a flush.
    pub(crate) fn is_piece_full(&self) -> bool {
        self.piece.room() < LARGEST_RETURN
    }

    /// Adds an item. There has to be room for it in the piece.
    pub(crate) fn put(&mut self, code: Return, payload: &[u8]) {
        let _ = self.piece.push(&code.code().to_ne_bytes());
        let _ = self.piece.push(payload);
    }

    /// Replaces the first code of the buffer (contract WR-10).
    pub(crate) fn put_first(&mut self, code: Return) -> Result {
        let code = code.code().to_ne_bytes();
        if self.flushed == 0 {
            if let Some(first) = self.piece.as_mut_slice().first_chunk_mut() {
                *first = code;
                return Ok(());
            }
        }
        write(self.address, &code)
    }

    /// Writes what is gathered to user space.
    pub(crate) fn flush(&mut self) -> Result {
        let piece = self.piece.as_slice();
        if !piece.is_empty() {
            let address = self.address.checked_add(self.flushed).ok_or(EFAULT)?;
            write(address, piece)?;
            self.flushed += piece.len() as u64;
            self.piece.clear();
        }
        Ok(())
    }
}

/// Writes to the calling process.
fn write(address: u64, bytes: &[u8]) -> Result {
    let address = UserPtr::from_addr(usize::try_from(address).map_err(|_| EFAULT)?);
    UserSlice::new(address, bytes.len())
        .writer()
        .write_slice(bytes)
}
