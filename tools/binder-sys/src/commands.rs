// SPDX-License-Identifier: GPL-2.0
//! A stream of `BC_*` commands: codes and payloads one after the other, without padding.

use crate::codes::*;
use crate::ioctl::size_of_number;
use crate::structs::*;
use zerocopy::{Immutable, IntoBytes};

/// Builds a stream of commands in the order of the calls. Each method appends one command.
///
/// The builder can be cleared and used again without giving up its memory.
#[derive(Clone, Debug, Default)]
pub struct Commands(Vec<u8>);

macro_rules! commands {
    ($($method:ident($($field:ident: $type:ty),*) => $code:ident, $payload:expr;)*) => {
        $(#[doc = concat!("Appends `", stringify!($code), "`.")]
        pub fn $method(&mut self, $($field: $type),*) -> &mut Self {
            assert_eq!(size_of_val(&$payload), size_of_number($code));
            self.command($code, &$payload)
        })*
    };
}

impl Commands {
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

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    commands! {
        transaction(data: &BinderTransactionData) => BC_TRANSACTION, *data;
        reply(data: &BinderTransactionData) => BC_REPLY, *data;
        transaction_sg(data: &BinderTransactionDataSg) => BC_TRANSACTION_SG, *data;
        reply_sg(data: &BinderTransactionDataSg) => BC_REPLY_SG, *data;
        free_buffer(address: u64) => BC_FREE_BUFFER, address;
        increfs(handle: u32) => BC_INCREFS, handle;
        acquire(handle: u32) => BC_ACQUIRE, handle;
        release(handle: u32) => BC_RELEASE, handle;
        decrefs(handle: u32) => BC_DECREFS, handle;
        increfs_done(ptr: u64, cookie: u64) => BC_INCREFS_DONE, BinderPtrCookie { ptr, cookie };
        acquire_done(ptr: u64, cookie: u64) => BC_ACQUIRE_DONE, BinderPtrCookie { ptr, cookie };
        register_looper() => BC_REGISTER_LOOPER, ();
        enter_looper() => BC_ENTER_LOOPER, ();
        exit_looper() => BC_EXIT_LOOPER, ();
        request_death(handle: u32, cookie: u64) => BC_REQUEST_DEATH_NOTIFICATION, BinderHandleCookie { handle, cookie };
        clear_death(handle: u32, cookie: u64) => BC_CLEAR_DEATH_NOTIFICATION, BinderHandleCookie { handle, cookie };
        dead_binder_done(cookie: u64) => BC_DEAD_BINDER_DONE, cookie;
        request_freeze(handle: u32, cookie: u64) => BC_REQUEST_FREEZE_NOTIFICATION, BinderHandleCookie { handle, cookie };
        clear_freeze(handle: u32, cookie: u64) => BC_CLEAR_FREEZE_NOTIFICATION, BinderHandleCookie { handle, cookie };
        freeze_done(cookie: u64) => BC_FREEZE_NOTIFICATION_DONE, cookie;
    }
}
