// SPDX-License-Identifier: GPL-2.0
//! A new handle in a process that has very many already: each reply brings a binder that goes with its buffer.
//!
//! To find the lowest free handle among 100 000 once took the C driver 47 ms a call.

use clap::Args;

use super::{Sender, Workload};
use crate::prelude::*;

const NAME: &str = "handles";

/// The code of a call that gets one more binder, to be dropped.
const FRESH: u32 = 1;

/// The code of a call that gets [`PORTION`] binders, to be kept.
const MANY: u32 = 2;

const PORTION: u32 = 1000;

const OBJECT: u64 = size_of::<FlatBinderObject>() as u64;

/// Numbers of handles that exist already.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Handles that the client holds; whole thousands.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1_000, 100_000], value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub refs: Vec<u32>,
}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        for &refs in &self.refs {
            let (name, service) = (format!("{{}} of {refs} handles"), format!("handles{refs}"));
            let client = stage.pair((&name, 0), &service, serve, |mut talker, handle| {
                acquire_many(&mut talker, handle, refs)?;
                Ok(HandleHolder(Sender::new(talker, handle)))
            })?;
            let label = Label { reply: OBJECT as u32, ..Label::new(NAME, "").with("refs", refs) };
            stage.add(label, 0, &[client]);
        }
        Ok(())
    }
}

/// Acquires so many handles.
fn acquire_many(talker: &mut Talker, handle: u32, refs: u32) -> Result<()> {
    for _ in 0..refs / PORTION {
        let reply = talker.call(&plain(handle, MANY, TransactionFlags::empty()))?;
        for index in 0..u64::from(PORTION) {
            talker.hold(&reply, index * OBJECT)?;
        }
        talker.out.free_buffer(reply.buffer);
    }
    talker.flush()
}

struct HandleHolder(Sender);

impl Caller for HandleHolder {
    fn call(&mut self) -> Result<()> {
        self.0.send(&Parcel::new(), FRESH, TransactionFlags::empty())
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
            code => return Err(Error::failed(format!("a server got the unknown code {code}"))),
        };
        talker.finish_with(&call, answer).flush()?;
    }
}
