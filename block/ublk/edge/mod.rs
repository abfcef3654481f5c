// SPDX-License-Identifier: GPL-2.0

//! The only code that is `unsafe`: what the driver needs of the kernel, in types that are safe to
//! use.

pub(crate) mod abi;
mod control_file;
mod descriptors;
mod disk;
mod inline;
mod node;
mod process;
mod request;
#[path = "../../segments.rs"]
mod segments;
mod slot;
mod uring;

pub(crate) use {
    control_file::{check_path, file_major, most_unprivileged, works, ControlFile, Number, Shared},
    descriptors::Descriptors,
    disk::{Closed, Disk, Queues, Shape},
    node::{DeviceFile, ServerData},
    process::{ids, is_admin, memory, Process, TaskCell},
    request::{Data, Incoming, Request, Status, Taken},
    slot::{Committing, Left, Sending, Share, SlotState},
    uring::{Command, Context, Issued, Kept},
};
