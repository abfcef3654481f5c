// SPDX-License-Identifier: GPL-2.0

//! The structures of `kernel::uapi` as bytes, and access to those that contain unions.
//!
//! A structure of integers is used as it is. One with a union is wrapped, because a union need not
//! be initialised as a whole.

use crate::{kernel_ext::user::Plain, pure::node_counts::Strength};
use core::mem::offset_of;
use kernel::uapi::{self, binder_transaction_data};

pub(crate) use kernel::uapi::{
    binder_buffer_object as PointerObject,
    binder_extended_error as ExtendedError,
    binder_fd_array_object as FileArrayObject,
    binder_freeze_info as FreezeRequest,
    binder_frozen_state_info as FreezeNotice,
    binder_frozen_status_info as FrozenInfo,
    binder_handle_cookie as HandleCookie,
    binder_node_debug_info as NodeDebugInfo,
    binder_node_info_for_ref as NodeInfoForRef,
    binder_ptr_cookie as NodeName,
    binder_write_read as WriteRead, //
};

macro_rules! plain {
    ($($name:ident)*) => {
        $(
            // SAFETY: Its members are integers, so each bit pattern is a value. They leave no gap,
            // which `tests/uapi` checks.
            unsafe impl Plain for $name {}
        )*
    };
}

plain! {
    ExtendedError FileArrayObject FreezeNotice FreezeRequest FrozenInfo HandleCookie NodeDebugInfo
    NodeInfoForRef NodeName PointerObject WriteRead
}

macro_rules! with_unions {
    ($($(#[$meta:meta])* $name:ident($of:ty);)*) => {
        $(
            $(#[$meta])*
            ///
            /// # Invariants
            ///
            /// Each byte is initialised, whichever members of its unions are used.
            #[derive(Clone, Copy)]
            #[repr(transparent)]
            pub(crate) struct $name($of);

            // SAFETY: Its members are integers and unions of integers, so each bit pattern is a
            // value. They leave no gap, which `tests/uapi` checks, and all bytes are initialised by
            // the type invariant.
            unsafe impl Plain for $name {}
        )*
    };
}

with_unions! {
    /// A call or a reply: the request of its sender, and what its receiver reads.
    TransactionData(binder_transaction_data);
    /// The request of a sender that includes how much room its pointers need (`BC_*_SG`).
    TransactionDataSg(uapi::binder_transaction_data_sg);
    /// A call for a receiver that also reads where the sender's security context lies.
    TransactionDataSecctx(uapi::binder_transaction_data_secctx);
    /// An object in the data of a transaction that names a node: by its owner's name for it, or by
    /// a handle.
    FlatObject(uapi::flat_binder_object);
    /// A file descriptor in the data of a transaction.
    FileObject(uapi::binder_fd_object);
}

/// The request of a sender for a call or a reply. Its fields about the sender (cookie, pid, euid)
/// are not trusted, so they are left out.
#[derive(Clone, Copy)]
pub(crate) struct TransactionRequest {
    pub(crate) handle: u32,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    pub(crate) data_size: u64,
    pub(crate) offsets_size: u64,
    pub(crate) data: u64,
    pub(crate) offsets: u64,
    /// The room for the blocks that pointers in the data point to.
    pub(crate) buffers_size: u64,
}

impl From<TransactionData> for TransactionRequest {
    #[inline(always)] // Each call and each reply has one.
    fn from(TransactionData(sent): TransactionData) -> Self {
        // SAFETY: All members of both unions are integers, or structures of integers, whose bytes
        // are initialised by the type invariant.
        let (handle, pointers) = unsafe { (sent.target.handle, sent.data.ptr) };
        Self {
            handle,
            code: sent.code,
            flags: sent.flags,
            data_size: sent.data_size,
            offsets_size: sent.offsets_size,
            data: pointers.buffer,
            offsets: pointers.offsets,
            buffers_size: 0,
        }
    }
}

impl From<TransactionDataSg> for TransactionRequest {
    fn from(TransactionDataSg(sent): TransactionDataSg) -> Self {
        Self {
            buffers_size: sent.buffers_size,
            // INVARIANT: It is a part of a structure that is initialised as a whole.
            ..Self::from(TransactionData(sent.transaction_data))
        }
    }
}

impl TransactionData {
    /// Returns what the receiver reads of a transaction whose data and offsets have these
    /// addresses. The unions of `fields` are not used.
    #[inline(always)] // It is most of a delivery.
    pub(crate) fn new(mut fields: binder_transaction_data, node: u64, data: (u64, u64)) -> Self {
        fields.target.ptr = node;
        (fields.data.ptr.buffer, fields.data.ptr.offsets) = data;
        // INVARIANT: These are the largest members of the two unions.
        Self(fields)
    }

    /// Returns the same for a receiver that also reads the sender's security context, which has
    /// this address.
    pub(crate) fn with_context(self, secctx: u64) -> TransactionDataSecctx {
        // INVARIANT: `self` is initialised as a whole by the type invariant.
        TransactionDataSecctx(uapi::binder_transaction_data_secctx {
            transaction_data: self.0,
            secctx,
        })
    }
}

/// The name by which a [`FlatObject`] refers to a node.
pub(crate) enum Named {
    Node(NodeName),
    Handle(u32),
}

impl FlatObject {
    /// Returns the flags of the node; for a handle, they are passed on.
    pub(crate) fn flags(&self) -> u32 {
        self.0.flags
    }

    /// Returns the kind of count, strong or weak, that the sender has on the node.
    pub(crate) fn strength(&self) -> Strength {
        match self.0.hdr.type_ {
            uapi::BINDER_TYPE_WEAK_BINDER | uapi::BINDER_TYPE_WEAK_HANDLE => Strength::Weak,
            _ => Strength::Strong,
        }
    }

    /// Returns the owner's name for the node, whatever the type.
    pub(crate) fn node(&self) -> NodeName {
        NodeName {
            // SAFETY: All members of the union are integers, whose bytes are initialised by the
            // type invariant.
            ptr: unsafe { self.0.__bindgen_anon_1.binder },
            cookie: self.0.cookie,
        }
    }

    /// Returns what the object names its node by.
    pub(crate) fn named(&self) -> Named {
        match self.0.hdr.type_ {
            uapi::BINDER_TYPE_BINDER | uapi::BINDER_TYPE_WEAK_BINDER => Named::Node(self.node()),
            // SAFETY: All members of the union are integers, whose bytes are initialised by the
            // type invariant.
            _ => Named::Handle(unsafe { self.0.__bindgen_anon_1.handle }),
        }
    }

    /// Returns an object of the same strength and flags that names its node by `named`.
    pub(crate) fn naming(mut self, named: Named) -> Self {
        self.0.hdr.type_ = match (&named, self.strength()) {
            (Named::Node(_), Strength::Strong) => uapi::BINDER_TYPE_BINDER,
            (Named::Node(_), Strength::Weak) => uapi::BINDER_TYPE_WEAK_BINDER,
            (Named::Handle(_), Strength::Strong) => uapi::BINDER_TYPE_HANDLE,
            (Named::Handle(_), Strength::Weak) => uapi::BINDER_TYPE_WEAK_HANDLE,
        };
        // INVARIANT: `binder` is the largest member of the union; a handle changes some bytes of
        // it, and leaves the others as they are.
        match named {
            Named::Node(name) => {
                self.0.__bindgen_anon_1.binder = name.ptr;
                self.0.cookie = name.cookie;
            }
            Named::Handle(handle) => {
                self.0.__bindgen_anon_1.binder = 0;
                self.0.__bindgen_anon_1.handle = handle;
                self.0.cookie = 0;
            }
        }
        self
    }
}

impl FileObject {
    /// The offset of the descriptor's number in the object.
    pub(crate) const FD_AT: usize = offset_of!(uapi::binder_fd_object, __bindgen_anon_1);

    /// Returns the descriptor's number in the sender.
    pub(crate) fn fd(&self) -> u32 {
        // SAFETY: All members of the union are integers, whose bytes are initialised by the type
        // invariant.
        unsafe { self.0.__bindgen_anon_1.fd }
    }

    /// Returns the object without the number.
    pub(crate) fn without_number(mut self) -> Self {
        // INVARIANT: It is the largest member of the union.
        self.0.__bindgen_anon_1.pad_binder = 0;
        self
    }
}

/// An object of any kind.
#[derive(Clone, Copy)]
pub(crate) enum Object {
    Flat(FlatObject),
    File(FileObject),
    Pointer(PointerObject),
    FileArray(FileArrayObject),
}

impl Object {
    /// The size of the largest object.
    pub(crate) const MAX_SIZE: usize = size_of::<PointerObject>();

    /// Returns the object at the start of `bytes`. `None` for an unknown type, and for an object
    /// that is cut off.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        // Each kind of object begins with its type.
        match u32::read(bytes)? {
            uapi::BINDER_TYPE_BINDER
            | uapi::BINDER_TYPE_WEAK_BINDER
            | uapi::BINDER_TYPE_HANDLE
            | uapi::BINDER_TYPE_WEAK_HANDLE => Plain::read(bytes).map(Self::Flat),
            uapi::BINDER_TYPE_FD => Plain::read(bytes).map(Self::File),
            uapi::BINDER_TYPE_PTR => Plain::read(bytes).map(Self::Pointer),
            uapi::BINDER_TYPE_FDA => Plain::read(bytes).map(Self::FileArray),
            _ => None,
        }
    }

    /// Returns the bytes of the object in the data.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Flat(flat) => flat.as_bytes(),
            Self::File(file) => file.as_bytes(),
            Self::Pointer(pointer) => pointer.as_bytes(),
            Self::FileArray(array) => array.as_bytes(),
        }
    }
}
