// SPDX-License-Identifier: GPL-2.0
//! Ioctl numbers: two bits of direction, fourteen of size, eight of type, eight of number. The effect of each
//! ioctl is in `include/uapi/linux/android/binder.h`.

use crate::structs::*;
use std::mem::size_of;

/// User space neither writes nor reads an argument.
pub const NONE: u32 = 0;
/// User space writes the argument, the kernel reads it.
pub const WRITE: u32 = 1;
/// The kernel writes the argument, user space reads it.
pub const READ: u32 = 2;

/// Puts a number together from direction, type letter, number and size of the argument.
pub const fn number(direction: u32, letter: u8, nr: u32, size: usize) -> u32 {
    assert!(size < 1 << 14, "the size field has fourteen bits");
    (direction << 30) | ((size as u32) << 16) | ((letter as u32) << 8) | nr
}

/// A number without an argument.
pub const fn plain(letter: u8, nr: u32) -> u32 {
    number(NONE, letter, nr, 0)
}

/// A number whose argument goes to the kernel.
pub const fn write<T>(letter: u8, nr: u32) -> u32 {
    number(WRITE, letter, nr, size_of::<T>())
}

/// A number whose argument comes from the kernel.
pub const fn read<T>(letter: u8, nr: u32) -> u32 {
    number(READ, letter, nr, size_of::<T>())
}

/// A number whose argument goes both ways.
pub const fn read_write<T>(letter: u8, nr: u32) -> u32 {
    number(READ | WRITE, letter, nr, size_of::<T>())
}

/// The size of the argument that a number (or a `BC_*`/`BR_*` code) announces.
pub const fn size_of_number(number: u32) -> usize {
    ((number >> 16) & 0x3fff) as usize
}

pub const BINDER_WRITE_READ: u32 = read_write::<BinderWriteRead>(b'b', 1);
pub const BINDER_SET_IDLE_TIMEOUT: u32 = write::<i64>(b'b', 3);
pub const BINDER_SET_MAX_THREADS: u32 = write::<u32>(b'b', 5);
pub const BINDER_SET_IDLE_PRIORITY: u32 = write::<i32>(b'b', 6);
pub const BINDER_SET_CONTEXT_MGR: u32 = write::<i32>(b'b', 7);
pub const BINDER_THREAD_EXIT: u32 = write::<i32>(b'b', 8);
pub const BINDER_VERSION: u32 = read_write::<BinderVersion>(b'b', 9);
pub const BINDER_GET_NODE_DEBUG_INFO: u32 = read_write::<BinderNodeDebugInfo>(b'b', 11);
pub const BINDER_GET_NODE_INFO_FOR_REF: u32 = read_write::<BinderNodeInfoForRef>(b'b', 12);
pub const BINDER_SET_CONTEXT_MGR_EXT: u32 = write::<FlatBinderObject>(b'b', 13);
pub const BINDER_FREEZE: u32 = write::<BinderFreezeInfo>(b'b', 14);
pub const BINDER_GET_FROZEN_INFO: u32 = read_write::<BinderFrozenStatusInfo>(b'b', 15);
pub const BINDER_ENABLE_ONEWAY_SPAM_DETECTION: u32 = write::<u32>(b'b', 16);
pub const BINDER_GET_EXTENDED_ERROR: u32 = read_write::<BinderExtendedError>(b'b', 17);
pub const BINDER_CTL_ADD: u32 = read_write::<BinderfsDevice>(b'b', 1);
