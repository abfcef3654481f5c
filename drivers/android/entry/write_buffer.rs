// SPDX-License-Identifier: GPL-2.0

//! The write buffer of the calling process, from which commands are decoded.
//!
//! Commands are read from user space in bounded pieces. A command starts to run only after all of
//! it has been read and found to lie within the write buffer (lesson C17). If a piece ends within a
//! command, the next one begins with that command: its code is what was read first, its payload
//! what was read last.

use crate::{
    common::code_counts::Counter,
    defs::{Command, TransactionData, WriteRead},
    entry::refusals,
    ffi::trace, //
    kernel_ext::user::{Plain, UserBytes},
    thread::Thread,
};
use core::cell::Cell;
use kernel::{
    fmt,
    prelude::*,
    uaccess::UserPtr, //
};

/// How many bytes of commands are read at once. A usual write fits: a command that frees a buffer,
/// and one that makes a call.
const PIECE: usize = 128;

/// The write buffer of the calling process.
pub(crate) struct WriteBuffer<'a> {
    address: u64,
    /// The address behind its end.
    end: u64,
    /// The offset up to which commands have run, which nothing else writes.
    consumed: &'a Cell<u64>,
    /// What has been read of the buffer from that offset on.
    piece: UserBytes<PIECE>,
}

impl<'a> WriteBuffer<'a> {
    /// Returns the write buffer that `io` describes, of which `consumed` bytes have run. Addresses
    /// wrap around, as in the C driver: a buffer that would end beyond the last address has no
    /// commands (contract WR-2).
    pub(crate) fn new(io: &WriteRead, consumed: &'a Cell<u64>) -> Self {
        Self {
            address: io.write_buffer,
            end: io.write_buffer.wrapping_add(io.write_size),
            consumed,
            piece: UserBytes::new(),
        }
    }

    /// Returns how many bytes of commands have not run.
    pub(crate) fn remaining(&self) -> u64 {
        self.end.saturating_sub(self.next())
    }

    /// Returns the address of the next command.
    fn next(&self) -> u64 {
        self.address.wrapping_add(self.consumed.get())
    }

    /// Whether no command follows the next one, which is `command`.
    pub(crate) fn is_last(&self, command: Command) -> bool {
        self.remaining() == size(command) as u64
    }

    /// Returns the request of the reply that follows the next command, which is to free a buffer,
    /// if one does and has been read.
    #[inline(always)]
    pub(crate) fn reply_behind(&self) -> Option<TransactionData> {
        const AT: usize = size(Command::FreeBuffer);
        const PAYLOAD_AT: usize = AT + size_of::<u32>();
        let payload = self.piece.value::<PAYLOAD_AT, _>()?;
        (self.piece.value::<AT, u32>()? == Command::Reply.code()).then_some(payload)
    }

    /// Returns the next command, after its payload has been read as well. Fails with `EFAULT` when
    /// the command is cut off or unreadable, and with `EINVAL` when no such command exists.
    pub(crate) fn command(&mut self) -> Result<Command> {
        self.require(size_of::<u32>())?;
        let code = self.code().ok_or(EFAULT)?;
        trace::command(code);
        let command = Command::from_code(code).ok_or(EINVAL)?;
        self.require(size(command))?;
        Ok(command)
    }

    /// Tells why the next command cannot run.
    #[cold]
    pub(crate) fn tell_malformed(&self) {
        match self.code() {
            Some(code) if Command::from_code(code).is_none() => refusals::malformed(
                self.consumed.get(),
                fmt!("{code:#x} is no command, or none any more; commands before it have run"),
            ),
            _ => refusals::malformed(
                self.consumed.get(),
                fmt!(
                    "of {} bytes is unreadable, or ends within a command",
                    self.end.wrapping_sub(self.address)
                ),
            ),
        }
    }

    /// Tells of the next command, which is `command`, that it has no effect, and why. No lock may
    /// be held.
    #[cold]
    pub(crate) fn refuse(&self, command: Command, why: fmt::Arguments<'_>) {
        refusals::command(command.name(), self.consumed.get(), why);
    }

    /// Returns the payload of the next command.
    #[inline(always)]
    pub(crate) fn payload<T: Plain>(&self) -> Result<T> {
        self.piece.value::<{ size_of::<u32>() }, _>().ok_or(EFAULT)
    }

    /// Counts the next command, which does not run, if its code could be read.
    #[cold]
    pub(crate) fn count_refused(&self, thread: &Thread) {
        if let Some(counter) = self.code().and_then(Counter::of_refused) {
            thread.count(counter);
        }
    }

    /// Returns the code of the next command, if it has been read.
    fn code(&self) -> Option<u32> {
        self.piece.value::<0, _>()
    }

    /// Reads from user space unless the piece has `size` bytes behind `consumed` already. Fails
    /// with `EFAULT` when the write buffer ends before that, or is unreadable.
    fn require(&mut self, size: usize) -> Result {
        if self.piece.left() >= size {
            return Ok(());
        }
        let remaining = usize::try_from(self.remaining()).unwrap_or(usize::MAX);
        let readable = remaining.min(PIECE);
        if readable < size {
            return Err(EFAULT);
        }
        let address = UserPtr::from_addr(usize::try_from(self.next()).map_err(|_| EFAULT)?);
        let is_read = self.piece.read(address, readable);
        is_read.or_else(|_| self.read_no_further(address, size))
    }

    /// Reads `size` bytes, behind which something may be unreadable that the next command does not
    /// need. If they are unreadable themselves, reads the code of the command, which is counted.
    #[cold]
    fn read_no_further(&mut self, address: UserPtr, size: usize) -> Result {
        let is_read = self.piece.read(address, size);
        if is_read.is_err() {
            let _ = self.piece.read(address, size_of::<u32>());
        }
        is_read
    }

    /// Advances behind `command`, which has run.
    pub(crate) fn advance(&mut self, command: Command) {
        let size = size(command);
        self.piece.skip(size);
        // No more than the size of the buffer: all of the command was in the piece, which ends with
        // the buffer at the latest.
        let consumed = self.consumed.get().wrapping_add(size as u64);
        self.consumed.set(consumed);
    }
}

/// Returns how many bytes a command takes, its code and its payload.
const fn size(command: Command) -> usize {
    size_of::<u32>() + command.payload_size()
}
