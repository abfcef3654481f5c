// SPDX-License-Identifier: GPL-2.0

//! A null block device: a disk that does nothing, or keeps its data in memory, to test and measure
//! what is above it. It is configured like null_blk.
//!
//! [`config`] has the devices as folders. [`device`] handles requests, and [`cache`] adds a volatile
//! cache and losses of power, and [`log`] a way back. [`edge`] has the block layer's types.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

mod cache;
mod config;
mod device;
#[allow(unsafe_code)]
mod edge;
mod log;

use config::Items;
use kernel::{configfs::Subsystem, prelude::*, sync::rcu};

module! {
    type: Nullb,
    name: "nullb_rust",
    authors: ["Rust Binder maintainers"],
    description: "Null block device",
    license: "GPL",
}

/// The module while it is loaded.
struct Nullb {
    folder: Option<Pin<KBox<Subsystem<Items>>>>,
}

impl kernel::Module for Nullb {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let folder = config::register()?;
        Ok(Self {
            folder: Some(folder),
        })
    }
}

impl Drop for Nullb {
    fn drop(&mut self) {
        self.folder = None;
        // Pages that were discarded are freed by a function of this module.
        rcu::rcu_barrier();
    }
}
