// SPDX-License-Identifier: GPL-2.0
//! A new handle in a process that has very many already: each reply brings a binder that goes with its buffer.
//!
//! To find the lowest free handle among 100 000 once took the C driver 47 ms a call.

use clap::Args;

use binder_sys::FlatBinderObject;
use binder_sys::Parcel;
use binder_sys::TransactionFlags;

use super::Workload;
use crate::caller::Caller;
use crate::error::Error;
use crate::error::Result;
use crate::order::Setting;
use crate::result::Label;
use crate::stage::Point;
use crate::stage::Stage;
use crate::talk::Talker;

/// The subcommand.
pub const NAME: &str = "handles";

/// The code that asks for one more binder, to be dropped.
const FRESH: u32 = 1;

/// The code that asks for [`PORTION`] binders to be kept.
const MANY: u32 = 2;

const PORTION: u32 = 1000;

const OBJECT: u64 = size_of::<FlatBinderObject>() as u64;

/// How many handles there are already.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Handles that the client holds; thousands.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1_000, 100_000], value_parser = thousands)]
    pub refs: Vec<u32>,
}

fn thousands(text: &str) -> std::result::Result<u32, String> {
    match text.parse::<u32>() {
        Ok(refs) if refs % PORTION == 0 && refs <= 1_000_000 => Ok(refs),
        Ok(_) => Err(format!("must be a multiple of {PORTION}, at most 1000000")),
        Err(error) => Err(error.to_string()),
    }
}

impl Workload for Options {
    fn name(&self) -> &'static str {
        NAME
    }

    fn add_binder(&self, stage: &mut Stage) -> Result<()> {
        for &refs in &self.refs {
            let (seat, service) = (stage.seat(0), format!("handles{refs}"));
            let name = |role: &str| format!("{role} of {refs} handles");
            let server = stage.server(name("server"), seat.server, service.clone(), serve)?;
            let client = stage.client(name("client"), seat.client, service, move |talker, handle| {
                let mut holder = HandleHolder { talker, handle, previous: None };
                holder.acquire_many(refs)?;
                Ok(holder)
            })?;
            let mut label = Label::new(NAME, "").with("refs", refs);
            label.reply = OBJECT as u32;
            stage.add(Point::new(label).clients(&[client]).servers(&[server]));
        }
        Ok(())
    }
}

struct HandleHolder {
    talker: Talker,
    handle: u32,
    previous: Option<u64>,
}

impl HandleHolder {
    /// Acquires so many handles.
    fn acquire_many(&mut self, refs: u32) -> Result<()> {
        let ask = Parcel::new();
        for _ in 0..refs / PORTION {
            let reply = self.talker.call(&ask.to_handle(self.handle, MANY, TransactionFlags::empty()))?;
            for index in 0..u64::from(PORTION) {
                let handle = self.talker.port().object(&reply, index * OBJECT)?.handle();
                self.talker.out.acquire(handle);
            }
            self.talker.out.free_buffer(reply.buffer);
        }
        self.talker.flush()
    }
}

impl Caller for HandleHolder {
    fn set(&mut self, _setting: Setting) -> Result<()> {
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        if let Some(buffer) = self.previous.take() {
            self.talker.out.free_buffer(buffer);
        }
        let ask = Parcel::new();
        let reply = self.talker.call(&ask.to_handle(self.handle, FRESH, TransactionFlags::empty()))?;
        self.previous = Some(reply.buffer);
        Ok(())
    }
}

fn serve(mut talker: Talker) -> Result<()> {
    let mut fresh = Parcel::new();
    fresh.object(&FlatBinderObject::binder(16, 16));
    let mut given: u64 = 16;
    loop {
        let call = talker.next_call()?;
        let mut many = Parcel::new();
        let answer = match call.code {
            FRESH => &fresh,
            MANY => {
                for _ in 0..PORTION {
                    given += 16;
                    many.object(&FlatBinderObject::binder(given, given));
                }
                &many
            }
            code => return Err(Error::Protocol(format!("a server was asked for {code}"))),
        };
        talker.out.free_buffer(call.buffer).reply(&answer.to_caller(TransactionFlags::empty()));
        talker.flush()?;
    }
}
