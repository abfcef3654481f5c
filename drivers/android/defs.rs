// SPDX-License-Identifier: GPL-2.0

//! The ABI: the commands, return codes and structures that user space and the driver exchange.
//!
//! Their numbers and layouts are those of `kernel::uapi`, which the kernel's build derives from
//! `include/uapi/linux/android/binder.h`. The two tables of codes below give each a name in the
//! driver, and the type of what follows it. Everything that depends on a code, its name or its size
//! derives from them, so no two of them can disagree (lesson R13).

use kernel::{
    ioctl::{_IOC_NR, _IOC_SIZE},
    macros::paste,
    uapi, //
};

pub(crate) use crate::ffi::structs::*;
pub(crate) use kernel::uapi::{
    flat_binder_object_flags_FLAT_BINDER_FLAG_ACCEPTS_FDS as ACCEPTS_FDS,
    flat_binder_object_flags_FLAT_BINDER_FLAG_TXN_SECURITY_CTX as TXN_SECURITY_CTX,
    transaction_flags_TF_ACCEPT_FDS as TF_ACCEPT_FDS,
    transaction_flags_TF_CLEAR_BUF as TF_CLEAR_BUF,
    transaction_flags_TF_ONE_WAY as TF_ONE_WAY,
    transaction_flags_TF_UPDATE_TXN as TF_UPDATE_TXN,
    BINDER_BUFFER_FLAG_HAS_PARENT,
    BINDER_CURRENT_PROTOCOL_VERSION, //
};

/// The completion of a reply or a oneway call is deferred. Linux 7.3 lacks it in its header.
pub(crate) const TF_DEFER_COMPLETE: u32 = 1 << 7;

macro_rules! ioctls {
    ($($name:ident: $argument:ty;)*) => {
        /// The ioctl commands.
        pub(crate) mod ioctl {
            pub(crate) use kernel::uapi::{$($name,)*};

            /// Returns the name in C.
            pub(crate) const fn name(command: u32) -> &'static str {
                match command {
                    $($name => stringify!($name),)*
                    _ => "an unknown ioctl",
                }
            }
        }

        // The copied argument has the size that the number of the ioctl encodes (lesson R25).
        $(const _: () = assert!(size_of::<$argument>() == _IOC_SIZE(ioctl::$name));)*
    };
}

ioctls! {
    BINDER_WRITE_READ: WriteRead;
    BINDER_SET_MAX_THREADS: u32;
    BINDER_SET_CONTEXT_MGR: u32;
    BINDER_THREAD_EXIT: u32;
    BINDER_VERSION: u32;
    BINDER_GET_NODE_DEBUG_INFO: NodeDebugInfo;
    BINDER_GET_NODE_INFO_FOR_REF: NodeInfoForRef;
    BINDER_SET_CONTEXT_MGR_EXT: FlatObject;
    BINDER_FREEZE: FreezeRequest;
    BINDER_GET_FROZEN_INFO: FrozenInfo;
    BINDER_ENABLE_ONEWAY_SPAM_DETECTION: u32;
    BINDER_GET_EXTENDED_ERROR: ExtendedError;
}

macro_rules! codes {
    (
        $(#[$meta:meta])* $table:ident of $protocol:ident:
        $($variant:ident = $code:ident: $payload:ty;)*
        $(_ = $gone:ident;)*
    ) => { paste! {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum $table {
            $($variant = uapi::[<$protocol _ $code>],)*
        }

        impl $table {
            /// One more than the highest running number.
            pub(crate) const NUMBERS: usize = {
                let mut numbers = 0;
                $(if Self::$variant.number() >= numbers {
                    numbers = Self::$variant.number() + 1;
                })*
                numbers
            };

            /// The codes by running number; of two with one number it is the first.
            pub(crate) const BY_NUMBER: [Option<Self>; Self::NUMBERS] = {
                let mut codes = [None; Self::NUMBERS];
                $(if codes[Self::$variant.number()].is_none() {
                    codes[Self::$variant.number()] = Some(Self::$variant);
                })*
                codes
            };

            /// The names by running number, also of what no longer exists (`_` in the table).
            pub(crate) const NAMES: [&'static str; Self::NUMBERS] = {
                let mut names = [""; Self::NUMBERS];
                $(names[_IOC_NR(uapi::[<$protocol _ $gone>]) as usize] = stringify!($gone);)*
                let mut at = 0;
                while at < Self::NUMBERS {
                    if let Some(code) = Self::BY_NUMBER[at] {
                        names[at] = code.name();
                    }
                    at += 1;
                }
                names
            };

            /// Returns the name in C.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($code),)*
                }
            }

            /// Returns the running number.
            pub(crate) const fn number(self) -> usize {
                _IOC_NR(self.code()) as usize
            }

            /// Returns the code.
            pub(crate) const fn code(self) -> u32 {
                self as u32
            }
        }

        // The copied payload has the size that the code encodes (lesson R25).
        $(const _: () = assert!(size_of::<$payload>() == _IOC_SIZE($table::$variant.code()));)*
    } };
}

codes! {
    /// The commands of user space in the write half of `BINDER_WRITE_READ`.
    Command of binder_driver_command_protocol:
    Transaction = BC_TRANSACTION: TransactionData;
    Reply = BC_REPLY: TransactionData;
    FreeBuffer = BC_FREE_BUFFER: u64;
    IncRefs = BC_INCREFS: u32;
    Acquire = BC_ACQUIRE: u32;
    Release = BC_RELEASE: u32;
    DecRefs = BC_DECREFS: u32;
    IncRefsDone = BC_INCREFS_DONE: NodeName;
    AcquireDone = BC_ACQUIRE_DONE: NodeName;
    RegisterLooper = BC_REGISTER_LOOPER: ();
    EnterLooper = BC_ENTER_LOOPER: ();
    ExitLooper = BC_EXIT_LOOPER: ();
    RequestDeathNotification = BC_REQUEST_DEATH_NOTIFICATION: HandleCookie;
    ClearDeathNotification = BC_CLEAR_DEATH_NOTIFICATION: HandleCookie;
    DeadBinderDone = BC_DEAD_BINDER_DONE: u64;
    TransactionSg = BC_TRANSACTION_SG: TransactionDataSg;
    ReplySg = BC_REPLY_SG: TransactionDataSg;
    RequestFreezeNotification = BC_REQUEST_FREEZE_NOTIFICATION: HandleCookie;
    ClearFreezeNotification = BC_CLEAR_FREEZE_NOTIFICATION: HandleCookie;
    FreezeNotificationDone = BC_FREEZE_NOTIFICATION_DONE: u64;
    _ = BC_ACQUIRE_RESULT;
    _ = BC_ATTEMPT_ACQUIRE;
}

codes! {
    /// The return codes of the driver in the read half.
    Return of binder_driver_return_protocol:
    Error = BR_ERROR: u32;
    Ok = BR_OK: ();
    Transaction = BR_TRANSACTION: TransactionData;
    TransactionSecCtx = BR_TRANSACTION_SEC_CTX: TransactionDataSecctx;
    Reply = BR_REPLY: TransactionData;
    DeadReply = BR_DEAD_REPLY: ();
    TransactionComplete = BR_TRANSACTION_COMPLETE: ();
    IncRefs = BR_INCREFS: NodeName;
    Acquire = BR_ACQUIRE: NodeName;
    Release = BR_RELEASE: NodeName;
    DecRefs = BR_DECREFS: NodeName;
    Noop = BR_NOOP: ();
    SpawnLooper = BR_SPAWN_LOOPER: ();
    DeadBinder = BR_DEAD_BINDER: u64;
    ClearDeathNotificationDone = BR_CLEAR_DEATH_NOTIFICATION_DONE: u64;
    FailedReply = BR_FAILED_REPLY: ();
    FrozenReply = BR_FROZEN_REPLY: ();
    OnewaySpamSuspect = BR_ONEWAY_SPAM_SUSPECT: ();
    TransactionPendingFrozen = BR_TRANSACTION_PENDING_FROZEN: ();
    FrozenBinder = BR_FROZEN_BINDER: FreezeNotice;
    ClearFreezeNotificationDone = BR_CLEAR_FREEZE_NOTIFICATION_DONE: u64;
}

/// The room that a read buffer has to have before the driver encodes another item: the largest item
/// is a transaction with its security context (contract WR-8).
pub(crate) const LARGEST_RETURN: usize = 4 + _IOC_SIZE(Return::TransactionSecCtx.code());

/// Returns the answer of `BINDER_GET_EXTENDED_ERROR` for transaction `id`, in which nothing has
/// failed.
pub(crate) const fn no_error(id: u32) -> ExtendedError {
    ExtendedError {
        id,
        command: Return::Ok.code(),
        param: 0,
    }
}
