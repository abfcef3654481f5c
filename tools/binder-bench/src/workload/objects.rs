// SPDX-License-Identifier: GPL-2.0
//! Binder objects sent along: each call carries one of the client's nodes.
//!
//! `transient`: the server drops its handle with the buffer, so it is made anew each time. `held`: the server has taken
//! hold of it once, and each further call only finds it again.

use clap::Args;

use super::{Sender, Workload};
use crate::prelude::*;

const NAME: &str = "objects";

const TRANSIENT: u32 = 1;
const HELD: u32 = 2;

#[derive(Args, Clone, Debug)]
pub struct Options {}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        let client = stage.pair(("objects {}", 0), NAME, serve, |talker, handle| {
            let sender = Sender::new(talker, handle);
            Ok(ObjectSender { sender, code: TRANSIENT, parcel: Parcel::new() })
        })?;
        for (case, code) in [("transient", TRANSIENT), ("held", HELD)] {
            let size = size_of::<FlatBinderObject>() as u32;
            stage.add(Label { size, ..Label::new(NAME, case) }, code, &[client]);
        }
        Ok(())
    }
}

struct ObjectSender {
    sender: Sender,
    code: u32,
    parcel: Parcel,
}

impl Caller for ObjectSender {
    /// The variant is the code of the call.
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.code = setting.variant;
        // A node for each case, so that what the server holds for one does not change the other.
        let node = u64::from(self.code) * 16;
        self.parcel = Parcel::new();
        self.parcel.object(&FlatBinderObject::binder(node, node));
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        self.sender.send(&self.parcel, self.code, TransactionFlags::empty())
    }
}

fn serve(mut talker: Talker) -> Result<()> {
    let mut held = None;
    loop {
        let call = talker.next_call()?;
        if call.code == HELD && held.is_none() {
            held = Some(talker.hold(&call, 0)?);
        }
        talker.finish(&call);
    }
}
