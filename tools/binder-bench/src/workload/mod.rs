// SPDX-License-Identifier: GPL-2.0
//! What can be measured: one file for each workload.
//!
//! A workload starts its processes on a [`Stage`] and adds the points that can be measured with them. Its client is a
//! [`crate::caller::Caller`]; the loops that time and count it are the same for all.

pub mod catalogue;
pub mod death;
pub mod fanin;
pub mod fds;
pub mod freeze;
pub mod handles;
pub mod nested;
pub mod objects;
pub mod oneway;
pub mod rpc;
pub mod sharing;
pub mod spam;
pub mod throughput;

use crate::prelude::*;
use crate::yardstick;

pub trait Workload {
    /// Starts the processes that use Binder, and adds the points.
    fn add_binder(&self, stage: &mut Stage) -> Result<()>;

    /// The same of the yardstick: usually one null round trip, which shows how fast the machine was.
    fn add_yardstick(&self, name: &str, stage: &mut Stage) -> Result<()> {
        yardstick::add_to(name, stage)
    }
}

/// A client that sends parcels, and gives each reply back with the next call.
pub struct Sender {
    pub talker: Talker,
    handle: u32,
    previous: Option<u64>,
}

impl Sender {
    /// A client that calls the node behind `handle`.
    pub fn new(talker: Talker, handle: u32) -> Sender {
        Sender { talker, handle, previous: None }
    }

    /// Calls with a parcel and waits for the reply.
    #[inline]
    pub fn send(&mut self, parcel: &Parcel, code: u32, flags: TransactionFlags) -> Result<()> {
        if let Some(buffer) = self.previous.take() {
            self.talker.out.free_buffer(buffer);
        }
        let call = parcel.to_handle(self.handle, code, flags);
        self.previous = Some(self.talker.call(&call)?.buffer);
        Ok(())
    }
}
