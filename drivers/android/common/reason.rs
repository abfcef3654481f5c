// SPDX-License-Identifier: GPL-2.0

//! Why a call or a reply fails, in words: what is wrong, and what to do about it.

/// Why a transaction fails.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reason {
    /// The errno says all that there is to say.
    Unsaid,
    NoManager,
    OwnManager,
    NoHandle,
    OwnerEnded,
    OwnNode,
    CallDenied,
    CallToServe,
    ReplyAwaited,
    NoCallToReplyTo,
    CallerEnded,
    ReceiverEnded,
    ReceiverFrozen,
    NotMapped,
    NoSpace,
    TooLarge,
    NoMemory,
    Undeliverable,
    UnreadableData,
    UnreadableOffsets,
    OddOffsets,
    OddPointers,
    OffsetOutOfOrder,
    NoObject,
    BadNode,
    BadHandle,
    NodeDenied,
    FilesNotTaken,
    NoFile,
    FileDenied,
    BadArray,
    BadPointer,
}

impl Reason {
    /// Returns what is wrong and what to do.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Unsaid => "the errno is all that is known",
            Self::NoManager => {
                "the device has no context manager; start one (BINDER_SET_CONTEXT_MGR) before its clients"
            }
            Self::OwnManager => {
                "handle 0 is a node of the caller's own process; call it without Binder"
            }
            Self::NoHandle => {
                "the caller has no such strong handle; keep a count on it (BC_ACQUIRE) as long as it is called"
            }
            Self::OwnerEnded => {
                "the owner of the node has ended or closed the device; request death notifications to learn of that"
            }
            Self::OwnNode => "the node is the caller's own; call it without Binder",
            Self::CallDenied => {
                "a security module does not let the caller call the receiver; look at its own messages"
            }
            Self::CallToServe => {
                "the thread has been given a call to serve; read it before making another call"
            }
            Self::ReplyAwaited => {
                "the thread waits for a reply; read it before making another call, or call from another thread"
            }
            Self::NoCallToReplyTo => {
                "the thread serves no call; reply once to each call that waits for a reply, from the thread that read it"
            }
            Self::CallerEnded => "whoever made the call has ended; nothing is left to do for it",
            Self::ReceiverEnded => {
                "the receiver has ended meanwhile; request death notifications to learn of that"
            }
            Self::ReceiverFrozen => {
                "the receiver is frozen; request freeze notifications to learn when it is thawed"
            }
            Self::NotMapped => {
                "the receiver has mapped no space to receive in, or none any more; it has to mmap the device"
            }
            Self::NoSpace => {
                "the receiver's space has no room; it has to free buffers (BC_FREE_BUFFER) or to map more, or send less at once"
            }
            Self::TooLarge => "the sizes add up to more than can be counted; look at how they are computed",
            Self::NoMemory => "memory is short, or a limit of the module is reached; try again later",
            Self::Undeliverable => {
                "the receiver cannot take it: its read buffer or its table of descriptors has no room"
            }
            Self::UnreadableData => "the data cannot be read at the address that was given",
            Self::UnreadableOffsets => "the offsets cannot be read at the address that was given",
            Self::OddOffsets => "offsets_size is no multiple of 8, the size of an offset",
            Self::OddPointers => "buffers_size is no multiple of 8",
            Self::OffsetOutOfOrder => {
                "its offset lies within an earlier object or behind the data; list objects by ascending offset"
            }
            Self::NoObject => {
                "no whole object begins at its offset: misaligned, unreadable, cut off, or of an unknown type"
            }
            Self::BadNode => {
                "the node cannot be sent: it was sent with another cookie before, or has to be forgotten first"
            }
            Self::BadHandle => {
                "the sender has no such handle; keep a count on it (BC_ACQUIRE, BC_INCREFS) until it is sent"
            }
            Self::NodeDenied => {
                "a security module does not let the sender pass nodes to the receiver; look at its own messages"
            }
            Self::FilesNotTaken => {
                "the receiver takes no files: the node, or for a reply the call, needs the flag for that"
            }
            Self::NoFile => "the sender has no such descriptor",
            Self::FileDenied => {
                "a security module does not let the sender pass that file to the receiver; look at its own messages"
            }
            Self::BadArray => {
                "the array of descriptors does not lie in the block of an earlier pointer, or cannot be read"
            }
            Self::BadPointer => {
                "its block cannot be read, has no room in buffers_size, or its parent is no earlier pointer with room for it"
            }
        }
    }

    /// Whether it is the fault of whoever sends: it broke the protocol. (Not, for example, that the
    /// receiver has ended.)
    pub(crate) const fn is_user_error(self) -> bool {
        matches!(
            self,
            Self::OwnManager
                | Self::NoHandle
                | Self::CallToServe
                | Self::ReplyAwaited
                | Self::NoCallToReplyTo
                | Self::UnreadableData
                | Self::UnreadableOffsets
                | Self::OddOffsets
                | Self::OddPointers
                | Self::OffsetOutOfOrder
                | Self::NoObject
                | Self::BadNode
                | Self::BadHandle
                | Self::FilesNotTaken
                | Self::NoFile
                | Self::BadArray
                | Self::BadPointer
        )
    }

    /// Whether it is about the space that data is received in.
    pub(crate) const fn is_about_space(self) -> bool {
        matches!(self, Self::NotMapped | Self::NoSpace | Self::TooLarge)
    }
}
