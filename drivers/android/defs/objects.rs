// SPDX-License-Identifier: GPL-2.0

//! Objects in the data of a transaction that name nodes, and what they say about the nodes.

use super::{double_word, put_double_word, put_word, word};

/// Returns the code of an object type: three letters, of which the last may be a star, and a
/// constant.
pub(super) const fn type_of(letters: [u8; 3]) -> u32 {
    let [first, second, third] = letters;
    u32::from_be_bytes([first, second, third, 0x85])
}

/// The name that the owner of a node gives it: a pointer and a cookie that mean something to the
/// owner only.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeName {
    pub(crate) ptr: u64,
    pub(crate) cookie: u64,
}

impl NodeName {
    pub(crate) const SIZE: usize = 16;

    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            ptr: double_word(bytes, 0),
            cookie: double_word(bytes, 8),
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put_double_word(&mut bytes, 0, self.ptr);
        put_double_word(&mut bytes, 8, self.cookie);
        bytes
    }
}

/// The flags that the owner of a node sends with it, fixed when the node first becomes known
/// (contract NODE-1). Those that mean something are in its lower half.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeFlags {
    minimum_priority: u8,
    others: u8,
}

impl NodeFlags {
    // Of the second byte.
    const ACCEPTS_FDS: u8 = 0x1;
    const POLICY_SHIFT: u8 = 1;
    const POLICY_MASK: u8 = 3;
    const INHERIT_RT: u8 = 0x8;
    const SECURITY_CONTEXT: u8 = 0x10;

    pub(crate) const fn new(flags: u32) -> Self {
        let [minimum_priority, others, ..] = flags.to_le_bytes();
        Self {
            minimum_priority,
            others,
        }
    }

    /// Whether calls of the node may carry file descriptors.
    pub(crate) const fn accepts_fds(self) -> bool {
        self.others & Self::ACCEPTS_FDS != 0
    }

    /// Returns the least priority at which its calls are served: a nice value, or with a real-time
    /// policy a real-time priority.
    pub(crate) const fn minimum_priority(self) -> u8 {
        self.minimum_priority
    }

    /// Returns the scheduling policy that belongs to it.
    pub(crate) const fn policy(self) -> u8 {
        self.others >> Self::POLICY_SHIFT & Self::POLICY_MASK
    }

    /// Whether its calls are served at the real-time priority of the caller.
    pub(crate) const fn inherits_real_time(self) -> bool {
        self.others & Self::INHERIT_RT != 0
    }

    /// Whether the owner of the node receives the security context of each caller.
    pub(crate) const fn wants_security_context(self) -> bool {
        self.others & Self::SECURITY_CONTEXT != 0
    }
}

/// A handle, and the cookie of the holder's request to be notified of something about its node.
#[derive(Clone, Copy)]
pub(crate) struct HandleCookie {
    pub(crate) handle: u32,
    pub(crate) cookie: u64,
}

impl HandleCookie {
    pub(crate) const SIZE: usize = 12;

    /// Decodes the two, which follow each other without a gap.
    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            handle: word(bytes, 0),
            cookie: double_word(bytes, 4),
        }
    }
}

/// Whether a count keeps an object in use (strong) or only its name (weak).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    Strong,
    Weak,
}

/// An object in the data of a transaction that names a node: by its owner's name for it, or by a
/// handle.
#[derive(Clone, Copy)]
pub(crate) enum FlatObject {
    Binder {
        strength: Strength,
        flags: u32,
        name: NodeName,
    },
    Handle {
        strength: Strength,
        flags: u32,
        handle: u32,
    },
}

impl FlatObject {
    pub(crate) const SIZE: usize = 24;

    const BINDER: u32 = type_of([b's', b'b', b'*']);
    const WEAK_BINDER: u32 = type_of([b'w', b'b', b'*']);
    const HANDLE: u32 = type_of([b's', b'h', b'*']);
    const WEAK_HANDLE: u32 = type_of([b'w', b'h', b'*']);

    /// Decodes an object; `None` for a type that names no node.
    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let flags = word(bytes, 4);
        let binder = |strength| Self::Binder {
            strength,
            flags,
            name: NodeName {
                ptr: double_word(bytes, 8),
                cookie: double_word(bytes, 16),
            },
        };
        let handle = |strength| Self::Handle {
            strength,
            flags,
            handle: word(bytes, 8),
        };
        match word(bytes, 0) {
            Self::BINDER => Some(binder(Strength::Strong)),
            Self::WEAK_BINDER => Some(binder(Strength::Weak)),
            Self::HANDLE => Some(handle(Strength::Strong)),
            Self::WEAK_HANDLE => Some(handle(Strength::Weak)),
            _ => None,
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let (kind, flags) = match self {
            Self::Binder {
                strength,
                flags,
                name,
            } => {
                put_double_word(&mut bytes, 8, name.ptr);
                put_double_word(&mut bytes, 16, name.cookie);
                match strength {
                    Strength::Strong => (Self::BINDER, *flags),
                    Strength::Weak => (Self::WEAK_BINDER, *flags),
                }
            }
            Self::Handle {
                strength,
                flags,
                handle,
            } => {
                put_word(&mut bytes, 8, *handle);
                match strength {
                    Strength::Strong => (Self::HANDLE, *flags),
                    Strength::Weak => (Self::WEAK_HANDLE, *flags),
                }
            }
        };
        put_word(&mut bytes, 0, kind);
        put_word(&mut bytes, 4, flags);
        bytes
    }

    /// Decodes the node that `BINDER_SET_CONTEXT_MGR_EXT` describes, whatever the type of the
    /// object.
    pub(crate) fn decode_manager(bytes: &[u8; Self::SIZE]) -> (NodeName, NodeFlags) {
        let name = NodeName {
            ptr: double_word(bytes, 8),
            cookie: double_word(bytes, 16),
        };
        (name, NodeFlags::new(word(bytes, 4)))
    }
}
