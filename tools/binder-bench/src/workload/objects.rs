// SPDX-License-Identifier: GPL-2.0
//! Binder objects sent along: each call carries one of the client's nodes.
//!
//! `transient`: the server drops its handle with the buffer, so it is made anew each time. `held`: the server has taken
//! hold of it once, and each further call only finds it again.

use clap::Args;

use binder_sys::FlatBinderObject;
use binder_sys::Parcel;
use binder_sys::TransactionFlags;

use super::Workload;
use crate::caller::Caller;
use crate::error::Result;
use crate::order::Setting;
use crate::result::Label;
use crate::stage::Point;
use crate::stage::Stage;
use crate::talk::Talker;

/// The subcommand.
pub const NAME: &str = "objects";

const TRANSIENT: u32 = 1;
const HELD: u32 = 2;

/// It has no options of its own.
#[derive(Args, Clone, Debug)]
pub struct Options {}

impl Workload for Options {
    fn name(&self) -> &'static str {
        NAME
    }

    fn add_binder(&self, stage: &mut Stage) -> Result<()> {
        let seat = stage.seat(0);
        let server = stage.server("objects server".into(), seat.server, NAME.into(), serve)?;
        let client = stage.client("objects client".into(), seat.client, NAME.into(), |talker, handle| {
            Ok(Sender { talker, handle, code: TRANSIENT, parcel: Parcel::new(), previous: None })
        })?;
        for (case, code) in [("transient", TRANSIENT), ("held", HELD)] {
            let mut label = Label::new(NAME, case);
            label.size = size_of::<FlatBinderObject>() as u32;
            stage.add(Point::new(label).variant(code).clients(&[client]).servers(&[server]));
        }
        Ok(())
    }
}

struct Sender {
    talker: Talker,
    handle: u32,
    code: u32,
    parcel: Parcel,
    previous: Option<u64>,
}

impl Caller for Sender {
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
        if let Some(buffer) = self.previous.take() {
            self.talker.out.free_buffer(buffer);
        }
        let call = self.parcel.to_handle(self.handle, self.code, TransactionFlags::empty());
        self.previous = Some(self.talker.call(&call)?.buffer);
        Ok(())
    }
}

fn serve(mut talker: Talker) -> Result<()> {
    let nothing = Parcel::new();
    let mut held = None;
    loop {
        let call = talker.next_call()?;
        if call.code == HELD && held.is_none() {
            let handle = talker.port().object(&call, 0)?.handle();
            talker.out.acquire(handle);
            held = Some(handle);
        }
        talker.out.free_buffer(call.buffer).reply(&nothing.to_caller(TransactionFlags::empty()));
    }
}
