// SPDX-License-Identifier: GPL-2.0
//! Calls inside calls: while the client waits, the server calls it back, and so on, down to some depth.
//!
//! Each level goes to the thread that waits one level up, so two threads suffice for any depth.

use clap::Args;

use super::Workload;
use crate::prelude::*;
use crate::registry;

const NAME: &str = "nested";

/// The registered name of the client's own node.
const CLIENT: &str = "nested client";

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Calls inside each other.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub depth: Vec<u32>,
}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        let serve = |mut talker: Talker| {
            // The client has registered before its first call.
            let mut call = talker.next_call()?;
            let handle = registry::look_up(&mut talker, CLIENT)?;
            let mut side = NestedCaller { talker, handle, depth: 0 };
            loop {
                side.answer(&call)?;
                call = side.talker.next_call()?;
            }
        };
        let client = stage.pair(("nested {}", 0), NAME, serve, |mut talker, handle| {
            registry::register(&mut talker, CLIENT, 1)?;
            Ok(NestedCaller { talker, handle, depth: 0 })
        })?;
        for &depth in &self.depth {
            let label = Label::new(NAME, "").with("depth", depth);
            let size = size_of_val(&depth) as u32;
            stage.add(Label { size, batch: depth, ..label }, depth, &[client]);
        }
        Ok(())
    }
}

/// Either side: its target and, for the outermost call, the depth.
struct NestedCaller {
    talker: Talker,
    handle: u32,
    depth: u32,
}

impl NestedCaller {
    /// Calls the other side, which calls back until `depth` calls are inside each other, and so does this side.
    fn call_nested(&mut self, depth: u32) -> Result<()> {
        let mut parcel = Parcel::new();
        parcel.bytes(&(depth - 1).to_ne_bytes());
        self.talker.out.transaction(&parcel.to_handle(self.handle, 1, TransactionFlags::empty()));
        loop {
            match self.talker.next()? {
                Return::Transaction(call) => self.answer(&call)?,
                Return::Reply(reply) => {
                    self.talker.out.free_buffer(reply.buffer);
                    return Ok(());
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Answers a call, after further calls if it contains their number.
    fn answer(&mut self, call: &BinderTransactionData) -> Result<()> {
        let deeper = u32::from_ne_bytes(self.talker.port().part(call, 0)?);
        if deeper > 0 {
            self.call_nested(deeper)?;
        }
        self.talker.finish(call).exchange()
    }
}

impl Caller for NestedCaller {
    /// The variant is the depth.
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.depth = setting.variant;
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        self.call_nested(self.depth)
    }
}
