// SPDX-License-Identifier: GPL-2.0
//! A stream of `BC_*` commands: codes and payloads one after the other, without padding.

use crate::codes::*;
use crate::structs::*;
use zerocopy::{Immutable, IntoBytes};

/// Builds a stream of commands in the order of the calls. Each method appends one command.
///
/// The builder can be cleared and used again without giving up its memory.
#[derive(Clone, Debug, Default)]
pub struct Commands(Vec<u8>);

macro_rules! commands {
    ($($(#[$doc:meta])* $method:ident($($field:ident: $type:ty),*) => $code:ident, $payload:expr;)*) => {
        $($(#[$doc])*
        pub fn $method(&mut self, $($field: $type),*) -> &mut Self {
            self.command($code, &$payload)
        })*
    };
}

impl Commands {
    /// An empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends any code with any payload, sensible or not.
    pub fn command(&mut self, code: u32, payload: &(impl IntoBytes + Immutable + ?Sized)) -> &mut Self {
        self.0.extend_from_slice(code.as_bytes());
        self.0.extend_from_slice(payload.as_bytes());
        self
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The stream so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing has been appended yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Starts over.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    commands! {
        /// Calls a node.
        transaction(data: &BinderTransactionData) => BC_TRANSACTION, *data;
        /// Answers the call being served.
        reply(data: &BinderTransactionData) => BC_REPLY, *data;
        /// Calls a node, with a scatter-gather area.
        transaction_sg(data: &BinderTransactionDataSg) => BC_TRANSACTION_SG, *data;
        /// Answers, with a scatter-gather area.
        reply_sg(data: &BinderTransactionDataSg) => BC_REPLY_SG, *data;
        /// Gives a received buffer back.
        free_buffer(address: u64) => BC_FREE_BUFFER, address;
        /// One more weak count.
        increfs(handle: u32) => BC_INCREFS, handle;
        /// One more strong count.
        acquire(handle: u32) => BC_ACQUIRE, handle;
        /// One strong count less.
        release(handle: u32) => BC_RELEASE, handle;
        /// One weak count less.
        decrefs(handle: u32) => BC_DECREFS, handle;
        /// Answers `BR_INCREFS`.
        increfs_done(ptr: u64, cookie: u64) => BC_INCREFS_DONE, BinderPtrCookie { ptr, cookie };
        /// Answers `BR_ACQUIRE`.
        acquire_done(ptr: u64, cookie: u64) => BC_ACQUIRE_DONE, BinderPtrCookie { ptr, cookie };
        /// Enters the pool as a thread that the driver asked for.
        register_looper() => BC_REGISTER_LOOPER, ();
        /// Enters the pool.
        enter_looper() => BC_ENTER_LOOPER, ();
        /// Leaves the pool.
        exit_looper() => BC_EXIT_LOOPER, ();
        /// Asks to be told of a node's death.
        request_death(handle: u32, cookie: u64) => BC_REQUEST_DEATH_NOTIFICATION, BinderHandleCookie { handle, cookie };
        /// Withdraws that.
        clear_death(handle: u32, cookie: u64) => BC_CLEAR_DEATH_NOTIFICATION, BinderHandleCookie { handle, cookie };
        /// Answers `BR_DEAD_BINDER`.
        dead_binder_done(cookie: u64) => BC_DEAD_BINDER_DONE, cookie;
        /// Asks to be told when a node's owner freezes.
        request_freeze(handle: u32, cookie: u64) => BC_REQUEST_FREEZE_NOTIFICATION, BinderHandleCookie { handle, cookie };
        /// Withdraws that.
        clear_freeze(handle: u32, cookie: u64) => BC_CLEAR_FREEZE_NOTIFICATION, BinderHandleCookie { handle, cookie };
        /// Answers `BR_FROZEN_BINDER`.
        freeze_done(cookie: u64) => BC_FREEZE_NOTIFICATION_DONE, cookie;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_follow_each_other_without_padding() {
        let mut stream = Commands::new();
        stream.enter_looper().acquire(7).free_buffer(0x1000).request_death(1, 2);
        assert_eq!(stream.len(), 4 + 8 + 12 + 16);
        assert_eq!(&stream.as_bytes()[..4], &BC_ENTER_LOOPER.to_ne_bytes());
        assert_eq!(&stream.as_bytes()[8..12], &7u32.to_ne_bytes());
        assert_eq!(&stream.as_bytes()[16..24], &0x1000u64.to_ne_bytes());
    }

    #[test]
    fn every_payload_has_the_size_that_its_code_announces() {
        use crate::ioctl::size_of_number;
        let (data, sg) = (BinderTransactionData::default(), BinderTransactionDataSg::default());
        let steps: [fn(&mut Commands, &BinderTransactionData, &BinderTransactionDataSg) -> usize; 20] = [
            |c, d, _| c.transaction(d).len(),
            |c, d, _| c.reply(d).len(),
            |c, _, s| c.transaction_sg(s).len(),
            |c, _, s| c.reply_sg(s).len(),
            |c, _, _| c.free_buffer(0).len(),
            |c, _, _| c.increfs(0).len(),
            |c, _, _| c.acquire(0).len(),
            |c, _, _| c.release(0).len(),
            |c, _, _| c.decrefs(0).len(),
            |c, _, _| c.increfs_done(0, 0).len(),
            |c, _, _| c.acquire_done(0, 0).len(),
            |c, _, _| c.register_looper().len(),
            |c, _, _| c.enter_looper().len(),
            |c, _, _| c.exit_looper().len(),
            |c, _, _| c.request_death(0, 0).len(),
            |c, _, _| c.clear_death(0, 0).len(),
            |c, _, _| c.dead_binder_done(0).len(),
            |c, _, _| c.request_freeze(0, 0).len(),
            |c, _, _| c.clear_freeze(0, 0).len(),
            |c, _, _| c.freeze_done(0).len(),
        ];
        for step in steps {
            let mut stream = Commands::new();
            let length = step(&mut stream, &data, &sg);
            let code = u32::from_ne_bytes(stream.as_bytes()[..4].try_into().unwrap());
            assert_eq!(length - 4, size_of_number(code), "{:?}", command_name(code));
        }
    }
}
