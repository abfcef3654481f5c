// SPDX-License-Identifier: GPL-2.0
//! The structures that cross the boundary between user space and the driver.
//!
//! Names of fields are the ABI's, and what they mean is in `include/uapi/linux/android/binder.h`. Unions appear as
//! their widest member, with accessors for the others.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The protocol version of this crate: 64-bit sizes and pointers.
pub const PROTOCOL_VERSION: i32 = 8;

macro_rules! abi {
    ($($(#[$meta:meta])* pub struct $name:ident { $($body:tt)* })*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
        )]
        #[repr(C)]
        pub struct $name { $($body)* }
    )*};
}

abi! {
    /// Argument of `BINDER_WRITE_READ`.
    pub struct BinderWriteRead {
        pub write_size: u64,
        pub write_consumed: u64,
        pub write_buffer: u64,
        pub read_size: u64,
        pub read_consumed: u64,
        pub read_buffer: u64,
    }

    /// One transaction or reply, in either direction.
    pub struct BinderTransactionData {
        /// The handle when sending (low 32 bits), the node's pointer when receiving.
        pub target: u64,
        pub cookie: u64,
        pub code: u32,
        /// See [`TransactionFlags`].
        pub flags: u32,
        pub sender_pid: i32,
        pub sender_euid: u32,
        pub data_size: u64,
        pub offsets_size: u64,
        pub buffer: u64,
        pub offsets: u64,
    }

    /// A received transaction with the caller's security context.
    pub struct BinderTransactionDataSecctx {
        pub data: BinderTransactionData,
        pub secctx: u64,
    }

    /// A transaction to send that has a scatter-gather area.
    pub struct BinderTransactionDataSg {
        pub data: BinderTransactionData,
        pub buffers_size: u64,
    }

    /// A node or a handle inside a transaction's data.
    pub struct FlatBinderObject {
        /// See [`ObjectType`].
        pub kind: u32,
        /// See [`ObjectFlags`]; the low eight bits are the minimum priority.
        pub flags: u32,
        /// The node's pointer, or the handle in the low 32 bits.
        pub binder: u64,
        pub cookie: u64,
    }

    /// A file descriptor inside a transaction's data.
    pub struct BinderFdObject {
        /// [`ObjectType::FD`].
        pub kind: u32,
        pub pad_flags: u32,
        /// The descriptor, in the low 32 bits.
        pub fd: u64,
        pub cookie: u64,
    }

    /// A block of memory in the scatter-gather area.
    pub struct BinderBufferObject {
        /// [`ObjectType::PTR`].
        pub kind: u32,
        /// [`BinderBufferObject::HAS_PARENT`] or 0.
        pub flags: u32,
        pub buffer: u64,
        pub length: u64,
        pub parent: u64,
        pub parent_offset: u64,
    }

    /// An array of file descriptors inside a parent block.
    pub struct BinderFdArrayObject {
        /// [`ObjectType::FDA`].
        pub kind: u32,
        pub pad: u32,
        pub num_fds: u64,
        pub parent: u64,
        pub parent_offset: u64,
    }

    /// A node by its owner's pointers.
    pub struct BinderPtrCookie {
        pub ptr: u64,
        pub cookie: u64,
    }

    /// Argument of `BINDER_VERSION`.
    pub struct BinderVersion {
        pub protocol_version: i32,
    }

    /// Argument of `BINDER_GET_NODE_DEBUG_INFO`.
    pub struct BinderNodeDebugInfo {
        pub ptr: u64,
        pub cookie: u64,
        pub has_strong_ref: u32,
        pub has_weak_ref: u32,
    }

    /// Argument of `BINDER_GET_NODE_INFO_FOR_REF`.
    pub struct BinderNodeInfoForRef {
        pub handle: u32,
        pub strong_count: u32,
        pub weak_count: u32,
        pub reserved1: u32,
        pub reserved2: u32,
        pub reserved3: u32,
    }

    /// Argument of `BINDER_FREEZE`.
    pub struct BinderFreezeInfo {
        pub pid: u32,
        pub enable: u32,
        pub timeout_ms: u32,
    }

    /// Argument of `BINDER_GET_FROZEN_INFO`.
    pub struct BinderFrozenStatusInfo {
        pub pid: u32,
        pub sync_recv: u32,
        pub async_recv: u32,
    }

    /// Payload of `BR_FROZEN_BINDER`.
    pub struct BinderFrozenStateInfo {
        pub cookie: u64,
        pub is_frozen: u32,
        pub reserved: u32,
    }

    /// Argument of `BINDER_GET_EXTENDED_ERROR`.
    pub struct BinderExtendedError {
        pub id: u32,
        pub command: u32,
        pub param: i32,
    }
}

/// A handle with the cookie of a notification. Twelve bytes: packed, unlike its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, packed)]
pub struct BinderHandleCookie {
    pub handle: u32,
    pub cookie: u64,
}

/// Argument of `BINDER_CTL_ADD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BinderfsDevice {
    /// In: the name, padded with NULs.
    pub name: [u8; 256],
    /// Out: the device's major number.
    pub major: u32,
    /// Out: the device's minor number.
    pub minor: u32,
}

impl BinderfsDevice {
    /// A request for a device; a name that is too long is cut at 256 bytes, without a NUL.
    pub fn named(name: &[u8]) -> Self {
        let mut device = Self { name: [0; 256], major: 0, minor: 0 };
        let length = name.len().min(device.name.len());
        device.name[..length].copy_from_slice(&name[..length]);
        device
    }
}

bitflags::bitflags! {
    /// Flags of a transaction. The driver passes all bits through, known or not.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TransactionFlags: u32 {
        /// The transaction has no reply.
        const ONE_WAY = 0x01;
        /// The reply may carry file descriptors.
        const ACCEPT_FDS = 0x10;
        /// Wipe the buffer when it is freed.
        const CLEAR_BUF = 0x20;
        /// Supersede an equal call that waits for a frozen process.
        const UPDATE_TXN = 0x40;
        /// The completion of a reply ends no wait (Linux 7.4).
        const DEFER_COMPLETE = 0x80;
        const _ = !0;
    }

    /// Flags of a node, fixed by the first object that names it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ObjectFlags: u32 {
        /// Calls may carry file descriptors.
        const ACCEPTS_FDS = 0x100;
        /// Calls come with the caller's security context.
        const TXN_SECURITY_CTX = 0x1000;
        const _ = !0;
    }
}

/// The types of objects: three letters and a constant.
pub struct ObjectType;

impl ObjectType {
    const fn of(a: u8, b: u8, c: u8, last: u8) -> u32 {
        u32::from_be_bytes([a, b, c, last])
    }
    /// A node, held strongly.
    pub const BINDER: u32 = Self::of(b's', b'b', b'*', 0x85);
    /// A node, held weakly.
    pub const WEAK_BINDER: u32 = Self::of(b'w', b'b', b'*', 0x85);
    /// A handle, held strongly.
    pub const HANDLE: u32 = Self::of(b's', b'h', b'*', 0x85);
    /// A handle, held weakly.
    pub const WEAK_HANDLE: u32 = Self::of(b'w', b'h', b'*', 0x85);
    /// A file descriptor.
    pub const FD: u32 = Self::of(b'f', b'd', b'*', 0x85);
    /// An array of file descriptors.
    pub const FDA: u32 = Self::of(b'f', b'd', b'a', 0x85);
    /// A block of memory.
    pub const PTR: u32 = Self::of(b'p', b't', b'*', 0x85);
}

impl FlatBinderObject {
    /// A node of the sender's, which the receiver will hold strongly.
    pub const fn binder(ptr: u64, cookie: u64) -> Self {
        Self { kind: ObjectType::BINDER, flags: 0, binder: ptr, cookie }
    }
    /// A node of the sender's, which the receiver will hold weakly.
    pub const fn weak_binder(ptr: u64, cookie: u64) -> Self {
        Self { kind: ObjectType::WEAK_BINDER, flags: 0, binder: ptr, cookie }
    }
    /// A handle of the sender's, passed on strongly.
    pub const fn strong_handle(handle: u32) -> Self {
        Self { kind: ObjectType::HANDLE, flags: 0, binder: handle as u64, cookie: 0 }
    }
    /// A handle of the sender's, passed on weakly.
    pub const fn weak_handle(handle: u32) -> Self {
        Self { kind: ObjectType::WEAK_HANDLE, flags: 0, binder: handle as u64, cookie: 0 }
    }
    /// The same object with flags.
    pub const fn with_flags(mut self, flags: ObjectFlags) -> Self {
        self.flags = flags.bits();
        self
    }
    /// The handle, where the object is one.
    pub const fn handle(&self) -> u32 {
        self.binder as u32
    }
}

impl BinderBufferObject {
    /// The block is pointed to from another one.
    pub const HAS_PARENT: u32 = 1;
}
