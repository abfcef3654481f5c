// SPDX-License-Identifier: GPL-2.0

//! What user space and the driver pass each other, as `<linux/ublk_cmd.h>` defines it.
//! `inline.c` compares the sizes.

use kernel::transmute::{AsBytes, FromBytes};

/// Features of a device. A server sets some, and reads those back that it gets.
pub(crate) mod flags {
    pub(crate) const ZERO_COPY: u64 = 1 << 0;
    pub(crate) const COMPLETES_IN_TASK: u64 = 1 << 1;
    pub(crate) const NEED_GET_DATA: u64 = 1 << 2;
    pub(crate) const RECOVERY: u64 = 1 << 3;
    pub(crate) const RECOVERY_REISSUE: u64 = 1 << 4;
    pub(crate) const UNPRIVILEGED: u64 = 1 << 5;
    pub(crate) const IOCTL_ENCODED: u64 = 1 << 6;
    pub(crate) const USER_COPY: u64 = 1 << 7;
    pub(crate) const ZONED: u64 = 1 << 8;
    pub(crate) const RECOVERY_FAIL: u64 = 1 << 9;
    pub(crate) const UPDATE_SIZE: u64 = 1 << 10;
    pub(crate) const AUTO_BUFFERS: u64 = 1 << 11;
    pub(crate) const QUIESCE: u64 = 1 << 12;
    pub(crate) const TASK_PER_SLOT: u64 = 1 << 13;
    pub(crate) const BUFFERS_BY_ANY_TASK: u64 = 1 << 14;
    pub(crate) const SAFE_STOP: u64 = 1 << 17;
    pub(crate) const NO_PARTITION_SCAN: u64 = 1 << 18;
    pub(crate) const DESCRIPTOR_SIZE: u64 = 1 << 20;

    /// Those that each device has.
    pub(crate) const ALWAYS: u64 =
        COMPLETES_IN_TASK | IOCTL_ENCODED | TASK_PER_SLOT | BUFFERS_BY_ANY_TASK | SAFE_STOP;
    /// Those with which a server copies no data.
    pub(crate) const WITHOUT_COPY: u64 = ZERO_COPY | USER_COPY | AUTO_BUFFERS;
    /// Those that the driver has.
    pub(crate) const ALL: u64 = ALWAYS
        | WITHOUT_COPY
        | NEED_GET_DATA
        | RECOVERY
        | RECOVERY_REISSUE
        | RECOVERY_FAIL
        | UNPRIVILEGED
        | UPDATE_SIZE
        | QUIESCE
        | NO_PARTITION_SCAN
        | DESCRIPTOR_SIZE;
}

/// The operation of a descriptor.
pub(crate) mod operation {
    pub(crate) const READ: u32 = 0;
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const FLUSH: u32 = 2;
    pub(crate) const DISCARD: u32 = 3;
    pub(crate) const WRITE_ZEROES: u32 = 5;

    pub(crate) const FAILFAST_DEVICE: u32 = 1 << 8;
    pub(crate) const FAILFAST_TRANSPORT: u32 = 1 << 9;
    pub(crate) const FAILFAST_DRIVER: u32 = 1 << 10;
    pub(crate) const META: u32 = 1 << 11;
    pub(crate) const FUA: u32 = 1 << 13;
    pub(crate) const NO_UNMAP: u32 = 1 << 15;
    pub(crate) const SWAP: u32 = 1 << 16;
    /// The buffer could not be registered by itself: the server has to.
    pub(crate) const NEEDS_BUFFER: u32 = 1 << 17;
}

/// Numbers of the commands for a device, in the low byte of their codes.
pub(crate) mod control {
    pub(crate) const GET_QUEUE_AFFINITY: u32 = 0x01;
    pub(crate) const GET_INFO: u32 = 0x02;
    pub(crate) const ADD: u32 = 0x04;
    pub(crate) const DELETE: u32 = 0x05;
    pub(crate) const START: u32 = 0x06;
    pub(crate) const STOP: u32 = 0x07;
    pub(crate) const SET_PARAMETERS: u32 = 0x08;
    pub(crate) const GET_PARAMETERS: u32 = 0x09;
    pub(crate) const START_RECOVERY: u32 = 0x10;
    pub(crate) const END_RECOVERY: u32 = 0x11;
    pub(crate) const GET_INFO_BY_PATH: u32 = 0x12;
    pub(crate) const GET_FEATURES: u32 = 0x13;
    pub(crate) const DELETE_LATER: u32 = 0x14;
    pub(crate) const UPDATE_SIZE: u32 = 0x15;
    pub(crate) const QUIESCE: u32 = 0x16;
    pub(crate) const TRY_STOP: u32 = 0x17;
}

/// Numbers of a server's commands, in the low byte of their codes.
pub(crate) mod io {
    pub(crate) const FETCH: u32 = 0x20;
    pub(crate) const COMMIT_AND_FETCH: u32 = 0x21;
    pub(crate) const GET_DATA: u32 = 0x22;
    pub(crate) const REGISTER_BUFFER: u32 = 0x23;
    pub(crate) const UNREGISTER_BUFFER: u32 = 0x24;

    /// Results of fetched commands: a request is there, or the server has to pass a buffer for its
    /// data, or there will be no more requests (`-ENODEV`).
    pub(crate) const OK: i32 = 0;
    pub(crate) const NEEDS_DATA: i32 = 1;
    pub(crate) const ABORT: i32 = -19;
}

/// States of a device.
pub(crate) mod state {
    pub(crate) const DEAD: u16 = 0;
    pub(crate) const LIVE: u16 = 1;
    pub(crate) const QUIESCED: u16 = 2;
    pub(crate) const FAILING: u16 = 3;
}

/// Between bytes and sectors.
pub(crate) const SECTOR_SHIFT: u32 = 9;
/// The most requests that a queue has at a time.
pub(crate) const MOST_DEPTH: u16 = 4096;
/// The most queues of a device.
pub(crate) const MOST_QUEUES: u16 = 4096;
/// The most bytes of a descriptor.
pub(crate) const MOST_DESCRIPTOR_SIZE: u16 = 256;

/// Where a server reads and writes the data of requests: from this position of its file on, each
/// queue has bits from 41 on, each tag from 25 on, and lower ones are for the byte.
pub(crate) const DATA_POSITION: u64 = 0x8000_0000;
pub(crate) const DATA_BITS: u32 = 25;
pub(crate) const TAG_BITS: u32 = 16;
pub(crate) const QUEUE_BITS: u32 = 12;

/// A request, as a server sees it.
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) operation: u32,
    pub(crate) sectors: u32,
    pub(crate) sector: u64,
    /// The server's buffer.
    pub(crate) address: u64,
}

/// A command for a device.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ControlCommand {
    pub(crate) id: u32,
    pub(crate) queue: u16,
    /// Of what is at `address`.
    pub(crate) length: u16,
    pub(crate) address: u64,
    pub(crate) data: u64,
    /// Of the path of the device's file, which is at `address`, too.
    pub(crate) path_length: u16,
    pad: u16,
    reserved: u32,
}

/// A server's command.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct IoCommand {
    pub(crate) queue: u16,
    pub(crate) tag: u16,
    /// Of a request that is committed: bytes, or a negative errno.
    pub(crate) result: i32,
    /// Of the server's buffer, or the index of a registered one.
    pub(crate) address: u64,
}

/// The properties of a device.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Info {
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) state: u16,
    /// Of a descriptor.
    pub(crate) descriptor_size: u16,
    /// The most bytes of a request.
    pub(crate) most_bytes: u32,
    pub(crate) id: u32,
    /// The process that serves it, or -1.
    pub(crate) server: i32,
    pad: u32,
    pub(crate) flags: u64,
    /// For servers alone.
    server_flags: u64,
    /// Of the process that has added it, in the initial namespace.
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    reserved: [u64; 2],
}

/// Which parts of [`Parameters`] there are.
pub(crate) mod part {
    pub(crate) const BASIC: u32 = 1 << 0;
    pub(crate) const DISCARD: u32 = 1 << 1;
    pub(crate) const NUMBERS: u32 = 1 << 2;
    pub(crate) const ZONED: u32 = 1 << 3;
    pub(crate) const DMA: u32 = 1 << 4;
    pub(crate) const SEGMENTS: u32 = 1 << 5;
    pub(crate) const INTEGRITY: u32 = 1 << 6;
    pub(crate) const ALL: u32 = BASIC | DISCARD | NUMBERS | ZONED | DMA | SEGMENTS | INTEGRITY;
}

/// Attributes of [`Basic`].
pub(crate) mod attribute {
    pub(crate) const READ_ONLY: u32 = 1 << 0;
    pub(crate) const ROTATIONAL: u32 = 1 << 1;
    pub(crate) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(crate) const FUA: u32 = 1 << 3;
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Basic {
    pub(crate) attributes: u32,
    /// Sizes as powers of two.
    pub(crate) logical_block: u8,
    pub(crate) physical_block: u8,
    pub(crate) best_io: u8,
    pub(crate) least_io: u8,
    pub(crate) most_sectors: u32,
    pub(crate) chunk_sectors: u32,
    /// The size of the disk.
    pub(crate) sectors: u64,
    pub(crate) virtual_boundary: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Discard {
    pub(crate) alignment: u32,
    pub(crate) granularity: u32,
    pub(crate) most_sectors: u32,
    pub(crate) most_zeroes_sectors: u32,
    pub(crate) most_segments: u16,
    reserved: u16,
}

/// The numbers of a device's files. The driver alone sets them.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Numbers {
    pub(crate) file_major: u32,
    pub(crate) file_minor: u32,
    pub(crate) disk_major: u32,
    pub(crate) disk_minor: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct DmaAlignment {
    pub(crate) mask: u32,
    pad: [u8; 4],
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct SegmentLimits {
    pub(crate) boundary_mask: u64,
    pub(crate) most_bytes: u32,
    pub(crate) most_segments: u16,
    pad: [u8; 2],
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Parameters {
    /// The size of the caller's struct in bytes.
    pub(crate) length: u32,
    pub(crate) parts: u32,
    pub(crate) basic: Basic,
    pub(crate) discard: Discard,
    pub(crate) numbers: Numbers,
    zoned: [u32; 8],
    pub(crate) dma: DmaAlignment,
    pad: u32,
    pub(crate) segments: SegmentLimits,
    integrity: [u64; 2],
}

// SAFETY: Each is made of integers, and has no bytes beside its fields.
unsafe impl FromBytes for Info {}
// SAFETY: As above.
unsafe impl AsBytes for Info {}
// SAFETY: As above.
unsafe impl FromBytes for Parameters {}
// SAFETY: As above.
unsafe impl AsBytes for Parameters {}

const _: () = {
    assert!(size_of::<Descriptor>() == 24);
    assert!(size_of::<ControlCommand>() == 32);
    assert!(size_of::<IoCommand>() == 16);
    assert!(size_of::<Info>() == 64);
    assert!(size_of::<Parameters>() == 152);
};
