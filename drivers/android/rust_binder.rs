// SPDX-License-Identifier: GPL-2.0

//! Binder, Android's inter-process communication: the module, and what the kernel calls.
//!
//! # Where to start
//!
//! [`transaction`] tells the way of a call; [`process`], [`thread`], [`node`] and [`handles`] are
//! what it meets on that way; `entry::commands` and `entry::returns` are the two halves of the one
//! ioctl that matters. The files beside this one are the objects of the driver. What stands in folders is
//! above or below them: `docs/architecture.md` says where and why, and `docs/locking.md` in which order
//! locks are taken.
//!
//! # Principles
//!
//! - Who owns a thing can end it, and nobody else can. A transaction, a buffer, a place in a queue
//!   have one owner and are moved, not shared.
//! - What something holds on to is part of what it is, so that dropping it undoes exactly that.
//! - What user space sees is decided by what the kernel keeps to itself.
//! - Under a spinlock nothing sleeps, allocates, wakes, or ends anything of somebody else's.
//! - `unsafe` stands in [`entry::ffi`], where C calls us, and in `rust/kernel/`, which knows nothing of
//!   Binder.

#![recursion_limit = "256"]
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

#[allow(unsafe_code)]
#[path = "../../rust/kernel/mod.rs"]
mod kernel_ext;

mod allocation;
mod buffers;
mod calls;
mod common;
mod context;
mod defs;
mod entry;
mod handles;
mod lifecycle;
mod node;
mod notification;
mod notifications;
mod process;
mod pure;
#[allow(dead_code)] // What prints the ranges is to come with the logs.
mod range_alloc;
mod scheduling;
mod thread;
mod transaction;
mod work;

use entry::ffi::Devices;
use kernel::prelude::*;

module! {
    type: BinderModule,
    name: "binder_rust",
    authors: ["Rust Binder maintainers"],
    description: "Android Binder",
    license: "GPL",
    alias: ["fs-binder"],
    params: {
        handoff: u8 {
            default: 1,
            description: "Wake whoever serves a call on the CPU of the caller that waits for it",
        },
        charge_buffers: bool {
            default: false,
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
        Ok(Self {
            _devices: Devices::make(module_parameters::charge_buffers.value())?,
        })
    }
}
