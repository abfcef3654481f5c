// SPDX-License-Identifier: GPL-2.0

//! Binder, Android's inter-process communication: the kernel module and its initialisation.
//!
//! # Where to start
//!
//! [`transaction`] describes the path of a call. [`process`], [`thread`], [`node`] and [`handles`]
//! are the objects that a call uses. `entry::commands` and `entry::returns` are the two halves of
//! `BINDER_WRITE_READ`, the ioctl through which all calls go. The files beside this one are the
//! objects of the driver; the folders are layers above or below them. `docs/architecture.md`
//! describes the layers and their uses of each other, and `docs/locking.md` the order of locks.
//!
//! # Principles
//!
//! - An object is ended by its owner, and by nothing else. A transaction, a buffer and a place in a
//!   queue have one owner each, and are moved, not shared.
//! - A value owns what it holds, so that dropping the value undoes exactly that.
//! - What user space sees depends only on data that the kernel keeps to itself.
//! - Code under a spinlock does not sleep, allocate, wake, or end an object of another owner.
//! - `unsafe` code is in [`entry::ffi`], which C calls, in [`mod@ffi`], which calls C, and in
//!   `rust/kernel/`, which does not depend on Binder.

#![recursion_limit = "256"]
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

#[allow(unsafe_code)]
#[path = "../../rust/kernel/mod.rs"]
mod kernel_ext;

mod allocation;
mod calls;
/// Modules that the whole driver uses: failures of transactions, limits, counters of objects and
/// codes, debug messages, reports over netlink.
mod common {
    pub(crate) mod debug;
    pub(crate) mod failure;
    pub(crate) mod limits;
    pub(crate) mod netlink;
    pub(crate) mod stats;
    pub(crate) mod transaction_log;
}
mod context;
mod death_notification;
mod defs;
/// The entry points of the driver: file operations, ioctls, and the two halves of
/// `BINDER_WRITE_READ`.
mod entry {
    mod commands;
    mod delivery;
    #[allow(unsafe_code)]
    pub(crate) mod ffi;
    pub(crate) mod ioctls;
    mod read_buffer;
    mod returns;
}
#[allow(unsafe_code)]
mod ffi;
mod freeze_notification;
mod handles;
/// The start and end of processes and threads, and the lookup and freezing of processes.
mod lifecycle {
    pub(crate) mod freeze;
    pub(crate) mod processes;
    pub(crate) mod threads;
}
mod logs;
mod names;
mod node;
mod nodes;
mod priority;
mod process;
mod pure;
mod range_alloc;
mod thread;
mod transaction;
mod work;

use entry::{ffi::Devices, ioctls::set_handoff};
use kernel::prelude::*;
use kernel_ext::{link, pid};

module! {
    type: BinderModule,
    name: "binder_rust",
    authors: ["Rust Binder maintainers"],
    description: "Android Binder",
    license: "GPL",
    params: {
        handoff: u8 {
            default: 1,
            description: "Wake-up of the thread that serves a call: 0 plain, 1 with the hint that the caller is about to sleep, as in the C driver (default)",
        },
        charge_buffers: u8 {
            default: 0,
            description: "Charge the pages of buffers to the memory cgroup of the process that receives them",
        },
    },
}

/// The module while it is loaded.
struct BinderModule {
    _devices: Devices,
}

impl kernel::Module for BinderModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        kernel_ext::layouts::check()?;
        pid::init();
        link::set_secret(ffi::random());
        set_handoff(module_parameters::handoff.value())?;
        Ok(Self {
            _devices: Devices::make(module_parameters::charge_buffers.value() != 0)?,
        })
    }
}
