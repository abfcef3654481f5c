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

use config::{Item, Items};
use kernel::{
    configfs::Subsystem,
    prelude::*,
    sync::{rcu, Arc},
};

module! {
    type: Nullb,
    name: "nullb_rust",
    authors: ["Rust Binder maintainers"],
    description: "Null block device",
    license: "GPL",
    // Of null_blk. They are the values that a new disk begins with.
    params: {
        nr_devices: u32 {
            default: 1,
            description: "Disks that are there at once, beside those of configfs",
        },
        gb: u32 {
            default: 250,
            description: "Size, in GiB",
        },
        bs: u32 {
            default: 512,
            description: "Size of a block, in bytes",
        },
        blocking: bool {
            default: false,
            description: "Handle requests where they may sleep",
        },
        cache_size: u64 {
            default: 0,
            description: "Volatile cache of a disk with memory, in MiB; 0 for none",
        },
        completion_nsec: u64 {
            default: 10_000,
            description: "Time after which a request ends with irqmode 2, in ns",
        },
        discard: bool {
            default: false,
            description: "Discard data of a disk with memory",
        },
        fua: bool {
            default: true,
            description: "Let writes go through the cache",
        },
        home_node: i32 {
            default: -1,
            description: "Node of the memory; -1 for any",
        },
        hw_queue_depth: u32 {
            default: 64,
            description: "Requests of a queue at a time",
        },
        irqmode: u32 {
            default: 1,
            description: "How a request ends: 0 in the caller, 1 as by an interrupt, 2 by a timer",
        },
        max_sectors: u32 {
            default: 0,
            description: "Sectors of a request; 0 for the block layer's default",
        },
        memory_backed: bool {
            default: false,
            description: "Keep the data in memory",
        },
        no_sched: bool {
            default: false,
            description: "Have no I/O scheduler by default",
        },
        queue_mode: u32 {
            default: 2,
            description: "2: a request queue; there is nothing else",
        },
        rotational: bool {
            default: false,
            description: "Report a rotating disk",
        },
        shared_tag_bitmap: bool {
            default: false,
            description: "Share tags between the queues of a disk",
        },
        shared_tags: bool {
            default: false,
            description: "Share tags with other disks",
        },
        submit_queues: u32 {
            default: 1,
            description: "Queues of a disk",
        },
    },
}

/// The module while it is loaded.
struct Nullb {
    disks: KVec<Pin<KBox<Item>>>,
    folder: Option<Pin<KBox<Subsystem<Items>>>>,
}

impl kernel::Module for Nullb {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let sharing = Arc::pin_init(edge::Sharing::new(), GFP_KERNEL)?;
        let name = config::name();
        // If something fails, it is dropped.
        let mut module = Self {
            disks: KVec::new(),
            folder: None,
        };
        module.disks = config::disks_of_module(name, &sharing)?;
        module.folder = Some(config::register(name, sharing)?);
        Ok(module)
    }
}

impl Drop for Nullb {
    fn drop(&mut self) {
        self.disks = KVec::new();
        self.folder = None;
        // Pages that were discarded are freed by a function of this module.
        rcu::rcu_barrier();
    }
}
