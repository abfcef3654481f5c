// SPDX-License-Identifier: GPL-2.0
//! The codes of the two streams: commands `BC_*` to the driver, returns `BR_*` from it.
//!
//! A code is built like an ioctl number, so it carries the size of its payload. The meaning of each code
//! is in `include/uapi/linux/android/binder.h`.

use crate::ioctl::{plain, read, write};
use crate::structs::*;

macro_rules! codes {
    ($table:ident, $name_of:ident, $letter:expr; $($name:ident = $make:ident $(<$payload:ty>)? ($nr:expr);)*) => {
        $(pub const $name: u32 = $make$(::<$payload>)?($letter, $nr);)*

        /// Every code of this stream with its name, in the order of the ABI header.
        pub const $table: &[(u32, &str)] = &[$(($name, stringify!($name))),*];

        /// The name of a code, if it has one.
        pub fn $name_of(code: u32) -> Option<&'static str> {
            $table.iter().find(|(value, _)| *value == code).map(|(_, name)| *name)
        }
    };
}

codes! { COMMANDS, command_name, b'c';
    BC_TRANSACTION = write<BinderTransactionData>(0);
    BC_REPLY = write<BinderTransactionData>(1);
    BC_ACQUIRE_RESULT = write<i32>(2);
    BC_FREE_BUFFER = write<u64>(3);
    BC_INCREFS = write<u32>(4);
    BC_ACQUIRE = write<u32>(5);
    BC_RELEASE = write<u32>(6);
    BC_DECREFS = write<u32>(7);
    BC_INCREFS_DONE = write<BinderPtrCookie>(8);
    BC_ACQUIRE_DONE = write<BinderPtrCookie>(9);
    BC_ATTEMPT_ACQUIRE = write<[u32; 2]>(10);
    BC_REGISTER_LOOPER = plain(11);
    BC_ENTER_LOOPER = plain(12);
    BC_EXIT_LOOPER = plain(13);
    BC_REQUEST_DEATH_NOTIFICATION = write<BinderHandleCookie>(14);
    BC_CLEAR_DEATH_NOTIFICATION = write<BinderHandleCookie>(15);
    BC_DEAD_BINDER_DONE = write<u64>(16);
    BC_TRANSACTION_SG = write<BinderTransactionDataSg>(17);
    BC_REPLY_SG = write<BinderTransactionDataSg>(18);
    BC_REQUEST_FREEZE_NOTIFICATION = write<BinderHandleCookie>(19);
    BC_CLEAR_FREEZE_NOTIFICATION = write<BinderHandleCookie>(20);
    BC_FREEZE_NOTIFICATION_DONE = write<u64>(21);
}

codes! { RETURNS, return_name, b'r';
    // The announced payload is never written.
    BR_ERROR = read<i32>(0);
    BR_OK = plain(1);
    BR_TRANSACTION_SEC_CTX = read<BinderTransactionDataSecctx>(2);
    BR_TRANSACTION = read<BinderTransactionData>(2);
    BR_REPLY = read<BinderTransactionData>(3);
    BR_ACQUIRE_RESULT = read<i32>(4);
    BR_DEAD_REPLY = plain(5);
    BR_TRANSACTION_COMPLETE = plain(6);
    BR_INCREFS = read<BinderPtrCookie>(7);
    BR_ACQUIRE = read<BinderPtrCookie>(8);
    BR_RELEASE = read<BinderPtrCookie>(9);
    BR_DECREFS = read<BinderPtrCookie>(10);
    BR_ATTEMPT_ACQUIRE = read<[u64; 3]>(11);
    BR_NOOP = plain(12);
    BR_SPAWN_LOOPER = plain(13);
    BR_FINISHED = plain(14);
    BR_DEAD_BINDER = read<u64>(15);
    BR_CLEAR_DEATH_NOTIFICATION_DONE = read<u64>(16);
    BR_FAILED_REPLY = plain(17);
    BR_FROZEN_REPLY = plain(18);
    BR_ONEWAY_SPAM_SUSPECT = plain(19);
    BR_TRANSACTION_PENDING_FROZEN = plain(20);
    BR_FROZEN_BINDER = read<BinderFrozenStateInfo>(21);
    BR_CLEAR_FREEZE_NOTIFICATION_DONE = read<u64>(22);
}
