// SPDX-License-Identifier: GPL-2.0
//! The codes of the two streams: commands `BC_*` to the driver, returns `BR_*` from it.
//!
//! A code is built like an ioctl number, so it carries the size of its payload.

use crate::ioctl::{plain, read, write};
use crate::structs::*;

macro_rules! codes {
    ($table:ident, $name_of:ident, $letter:expr; $($(#[$doc:meta])* $name:ident = $make:ident $(<$payload:ty>)? ($nr:expr);)*) => {
        $($(#[$doc])* pub const $name: u32 = $make$(::<$payload>)?($letter, $nr);)*

        /// Every code of this stream with its name, in the order of the ABI header.
        pub const $table: &[(u32, &str)] = &[$(($name, stringify!($name))),*];

        /// The name of a code, if it has one.
        pub fn $name_of(code: u32) -> Option<&'static str> {
            $table.iter().find(|(value, _)| *value == code).map(|(_, name)| *name)
        }
    };
}

codes! { COMMANDS, command_name, b'c';
    /// Call a node.
    BC_TRANSACTION = write<BinderTransactionData>(0);
    /// Answer the call being served.
    BC_REPLY = write<BinderTransactionData>(1);
    /// Rejected by all drivers.
    BC_ACQUIRE_RESULT = write<i32>(2);
    /// Give a received buffer back.
    BC_FREE_BUFFER = write<u64>(3);
    /// One more weak count on a handle.
    BC_INCREFS = write<u32>(4);
    /// One more strong count on a handle.
    BC_ACQUIRE = write<u32>(5);
    /// One strong count less on a handle.
    BC_RELEASE = write<u32>(6);
    /// One weak count less on a handle.
    BC_DECREFS = write<u32>(7);
    /// `BR_INCREFS` has been acted on.
    BC_INCREFS_DONE = write<BinderPtrCookie>(8);
    /// `BR_ACQUIRE` has been acted on.
    BC_ACQUIRE_DONE = write<BinderPtrCookie>(9);
    /// Rejected by all drivers.
    BC_ATTEMPT_ACQUIRE = write<[u32; 2]>(10);
    /// A thread that the driver asked for enters the pool.
    BC_REGISTER_LOOPER = plain(11);
    /// A thread enters the pool by itself.
    BC_ENTER_LOOPER = plain(12);
    /// A thread leaves the pool.
    BC_EXIT_LOOPER = plain(13);
    /// Ask to be told of a node's death.
    BC_REQUEST_DEATH_NOTIFICATION = write<BinderHandleCookie>(14);
    /// No longer be told of it.
    BC_CLEAR_DEATH_NOTIFICATION = write<BinderHandleCookie>(15);
    /// `BR_DEAD_BINDER` has been acted on.
    BC_DEAD_BINDER_DONE = write<u64>(16);
    /// Call a node with a scatter-gather area.
    BC_TRANSACTION_SG = write<BinderTransactionDataSg>(17);
    /// Answer with a scatter-gather area.
    BC_REPLY_SG = write<BinderTransactionDataSg>(18);
    /// Ask to be told when a node's owner freezes.
    BC_REQUEST_FREEZE_NOTIFICATION = write<BinderHandleCookie>(19);
    /// No longer be told of it.
    BC_CLEAR_FREEZE_NOTIFICATION = write<BinderHandleCookie>(20);
    /// `BR_FROZEN_BINDER` has been acted on.
    BC_FREEZE_NOTIFICATION_DONE = write<u64>(21);
}

codes! { RETURNS, return_name, b'r';
    /// Out of memory in a death request; the announced payload is never written.
    BR_ERROR = read<i32>(0);
    /// "No error" in an extended error; never in a stream.
    BR_OK = plain(1);
    /// A call to serve, with the caller's security context.
    BR_TRANSACTION_SEC_CTX = read<BinderTransactionDataSecctx>(2);
    /// A call to serve.
    BR_TRANSACTION = read<BinderTransactionData>(2);
    /// The answer to a call.
    BR_REPLY = read<BinderTransactionData>(3);
    /// Never sent.
    BR_ACQUIRE_RESULT = read<i32>(4);
    /// The callee is gone.
    BR_DEAD_REPLY = plain(5);
    /// A command to send has been carried out.
    BR_TRANSACTION_COMPLETE = plain(6);
    /// The owner must hold a weak count on an object.
    BR_INCREFS = read<BinderPtrCookie>(7);
    /// The owner must hold a strong count on an object.
    BR_ACQUIRE = read<BinderPtrCookie>(8);
    /// The owner may drop the strong count.
    BR_RELEASE = read<BinderPtrCookie>(9);
    /// The owner may drop the weak count.
    BR_DECREFS = read<BinderPtrCookie>(10);
    /// Never sent.
    BR_ATTEMPT_ACQUIRE = read<[u64; 3]>(11);
    /// Starts each read.
    BR_NOOP = plain(12);
    /// The pool should grow by a thread.
    BR_SPAWN_LOOPER = plain(13);
    /// Never sent.
    BR_FINISHED = plain(14);
    /// A node has died.
    BR_DEAD_BINDER = read<u64>(15);
    /// A death request has been withdrawn.
    BR_CLEAR_DEATH_NOTIFICATION_DONE = read<u64>(16);
    /// A call could not be carried out.
    BR_FAILED_REPLY = plain(17);
    /// The callee is frozen.
    BR_FROZEN_REPLY = plain(18);
    /// A oneway call was carried out, but there are too many of them.
    BR_ONEWAY_SPAM_SUSPECT = plain(19);
    /// A oneway call waits for its frozen callee.
    BR_TRANSACTION_PENDING_FROZEN = plain(20);
    /// A node's owner was frozen or thawed.
    BR_FROZEN_BINDER = read<BinderFrozenStateInfo>(21);
    /// A freeze request has been withdrawn.
    BR_CLEAR_FREEZE_NOTIFICATION_DONE = read<u64>(22);
}
