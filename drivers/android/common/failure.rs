// SPDX-License-Identifier: GPL-2.0

//! Why a call or a reply does not go through, and what its sender reads.
//!
//! An ioctl fails with an errno of the `kernel` crate. A transaction that fails does not make the
//! ioctl fail: the sender reads a `BR_*` code and may request the errno behind it afterwards. A
//! [`Failure`] has both. It also has what only messages and logs contain: the reason, the object,
//! and where it was found.

use crate::defs::Return;
use core::panic::Location;
use kernel::{
    alloc::AllocError,
    error::Error,
    prelude::*, //
};

/// Why a transaction does not go through.
#[derive(Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    /// The negative errno, or 0 where the contract has none.
    pub(crate) errno: i16,
    /// The line of the source that has found it: in the file of the step that fails, so that it
    /// means something together with the reason alone.
    pub(crate) line: u16,
    /// Counted from 1; 0 if it is not about one of the objects. The highest number also means all
    /// higher ones.
    object: u16,
}

// As large as the part of it that user space reads: calls that succeed return one, too, in a
// register.
const _: () = assert!(size_of::<Result<(), Failure>>() == 8);

impl Failure {
    /// Returns the failure for this reason. `ENOMEM` has one reason, whatever the step that fails.
    #[cold]
    #[track_caller]
    pub(crate) fn new(reason: Reason, error: Error) -> Self {
        let reason = if error == ENOMEM {
            Reason::NoMemory
        } else {
            reason
        };
        Self {
            // CAST: an errno is not below -4095.
            errno: error.to_errno() as i16,
            ..Self::without_errno(reason)
        }
    }

    /// Returns the failure for a reason that the contract has no errno for.
    #[cold]
    #[track_caller]
    pub(crate) fn without_errno(reason: Reason) -> Self {
        Self {
            reason,
            errno: 0,
            // CAST: a file of the driver has fewer lines than 2^16.
            line: Location::caller().line() as u16,
            object: 0,
        }
    }

    /// Returns the same failure, about the object that is entry `index` of the array of offsets.
    #[cold]
    pub(crate) fn of_object(self, index: u64) -> Self {
        let object = u16::try_from(index + 1).unwrap_or(u16::MAX);
        Self { object, ..self }
    }

    /// Returns the index of the object that it is about, if it is about one and that is known.
    pub(crate) fn object(self) -> Option<u16> {
        self.object.checked_sub(1)
    }

    /// Returns the code that the sender reads.
    pub(crate) fn return_code(self) -> Return {
        match self.reason {
            Reason::NoManager
            | Reason::OwnerEnded
            | Reason::CallerEnded
            | Reason::ReceiverEnded
            | Reason::NotMapped => Return::DeadReply,
            Reason::ReceiverFrozen => Return::FrozenReply,
            _ => Return::FailedReply,
        }
    }
}

// There is no conversion from `Error`: an errno is not a reason.
impl From<AllocError> for Failure {
    #[track_caller]
    fn from(_: AllocError) -> Self {
        Self::new(Reason::NoMemory, ENOMEM)
    }
}

/// Defines [`Reason`]: each reason and its words, once, by whose fault it is.
macro_rules! reasons {
    (
        whoever_sends: { $($broken:ident: $broken_words:literal;)+ }
        others: { $($name:ident: $words:literal;)+ }
    ) => {
        /// Why a transaction fails.
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Reason {
            $($name,)+
            $($broken,)+
        }

        impl Reason {
            /// Returns what is wrong and what to do.
            pub(crate) const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)+
                    $(Self::$broken => $broken_words,)+
                }
            }

            /// Returns whether the sender has broken the protocol. (The end of the receiver, for
            /// example, is no fault of the sender.)
            pub(crate) const fn is_user_error(self) -> bool {
                matches!(self, $(Self::$broken)|+)
            }
        }
    };
}

reasons! {
    whoever_sends: {
        OwnManager: "handle 0 is a node of the caller's own process; call it without Binder";
        NoHandle: "the caller has no such strong handle; keep a count on it (BC_ACQUIRE) as long as it is called";
        CallToServe: "the thread has been given a call to serve; read it before making another call";
        ReplyUnread: "the thread has not read the reply to its last call; read it before making another call";
        ReplyAwaited: "the thread waits for a reply; read it before making another call, or call from another thread";
        NoCallToReplyTo: "the thread serves no call; reply once to each call that waits for a reply, from the thread that read it";
        UnreadableData: "the data cannot be read at the address that was given";
        UnreadableOffsets: "the offsets cannot be read at the address that was given";
        OddOffsets: "offsets_size is no multiple of 8, the size of an offset";
        OddPointers: "buffers_size is no multiple of 8";
        OffsetOutOfOrder: "its offset lies within an earlier object or behind the data; list objects by ascending offset";
        NoObject: "no whole object begins at its offset: misaligned, unreadable, cut off, or of an unknown type";
        BadNode: "the node cannot be sent: it was sent with another cookie before, or has to be forgotten first";
        BadHandle: "the sender has no such handle; keep a count on it (BC_ACQUIRE, BC_INCREFS) until it is sent";
        FilesNotTaken: "the receiver takes no files: the node, or for a reply the call, needs the flag for that";
        NoFile: "the sender has no such descriptor";
        BadArray: "the array of descriptors does not lie in the block of an earlier pointer, or cannot be read";
        BadPointer: "its block cannot be read, has no room in buffers_size, or its parent is no earlier pointer with room for it";
    }
    others: {
        NoManager: "the device has no context manager; start one (BINDER_SET_CONTEXT_MGR) before its clients";
        OwnerEnded: "the owner of the node has ended or closed the device; request death notifications to learn of that";
        CallDenied: "a security module does not allow the caller to call the receiver; look at its own messages";
        CallerEnded: "the caller has ended; nothing is left to do for it";
        ReceiverEnded: "the receiver has ended; request death notifications to learn of that";
        ReceiverFrozen: "the receiver is frozen; request freeze notifications to learn when it is thawed";
        SpaceGone: "the receiver has unmapped its space; it has to keep the space as long as others call it";
        NotMapped: "the receiver has mapped no space to receive in, or none any more; it has to mmap the device";
        LargerThanSpace: "the data is larger than the receiver's whole space; send less at once, or pass it in a file";
        LargerThanHalf: "the data is larger than the half of the receiver's space that oneway calls may use; send less at once, or wait for a reply";
        NoOnewaySpace: "oneway calls that the receiver has not freed use up their part of its space, or the sender's share of it; send fewer, or wait for a reply now and then";
        NoSpace: "the receiver's space is full; it has to free buffers (BC_FREE_BUFFER) or to map more";
        TooLarge: "the sizes add up to more than can be counted; look at how they are computed";
        NoContext: "the node requires its callers' security contexts, and the active security module has none; boot with one that has, or make the node without FLAT_BINDER_FLAG_TXN_SECURITY_CTX";
        NoMemory: "memory is short, or a limit of the module is reached; try again later";
        Undeliverable: "the receiver cannot take it: its read buffer or its table of descriptors has no room";
        NodeDenied: "a security module does not allow the sender to pass nodes to the receiver; look at its own messages";
        FileDenied: "a security module does not allow the sender to pass that file to the receiver; look at its own messages";
        DriverFault: "the driver is in a state that it excludes; report this message";
    }
}

impl Reason {
    /// Returns whether it is about the space that data is received in.
    pub(crate) const fn is_about_space(self) -> bool {
        matches!(self, Self::NotMapped | Self::TooLarge) || self.is_lack_of_room()
    }

    /// Returns whether the reason is a lack of room in the space.
    pub(crate) const fn is_lack_of_room(self) -> bool {
        matches!(
            self,
            Self::LargerThanSpace | Self::LargerThanHalf | Self::NoOnewaySpace | Self::NoSpace
        )
    }
}
