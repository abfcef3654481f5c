// SPDX-License-Identifier: GPL-2.0

//! The only code that is `unsafe`: what the driver needs of the kernel, in types that are safe to
//! use.

use kernel::{prelude::*, str::CStr};

mod badblocks;
mod disk;
mod inline;
mod pages;
mod request;
#[path = "../../segments.rs"]
mod segments;

pub(crate) use {
    badblocks::BadBlocks,
    disk::{Disk, Queues, Shape, Sharing},
    pages::{Context, Pages, PAGE},
    request::{Handled, Operation, Started, Status},
    segments::Segment,
};

/// Returns whether memory can be asked for by this number of a node; -1 is any.
pub(crate) fn is_node(node: i32) -> bool {
    inline::nullb_is_node(node)
}

/// Returns whether configfs has a folder of this name at its top. Sleeps.
pub(crate) fn has_subsystem(name: &CStr) -> bool {
    // SAFETY: The name ends with a NUL, and this is a process.
    unsafe { inline::nullb_has_subsystem(name.as_char_ptr()) }
}
