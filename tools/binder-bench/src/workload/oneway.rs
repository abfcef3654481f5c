// SPDX-License-Identifier: GPL-2.0
//! Calls that nobody answers: batches of them, each call received and its buffer given back.
//!
//! The client sends a batch, one call an ioctl, and then waits for a byte on a socket, which the server writes when it has
//! received the whole batch. The share of that byte is divided by the batch.

use std::io::Read;
use std::io::Write;
use std::os::unix::net::UnixStream;

use clap::Args;

use binder_sys::BinderTransactionData;
use binder_sys::Return;
use binder_sys::TransactionFlags;

use super::Workload;
use crate::caller::Caller;
use crate::error::Context;
use crate::error::Result;
use crate::order::Setting;
use crate::result::Label;
use crate::result::Unit;
use crate::stage::Point;
use crate::stage::Stage;
use crate::talk::unexpected;
use crate::talk::Talker;

/// The subcommand.
pub const NAME: &str = "oneway";

/// Which payloads, and how many calls in a batch.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Bytes of a call.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 4096], value_parser = clap::value_parser!(u32).range(0..=8192))]
    pub sizes: Vec<u32>,
    /// Calls in a batch.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=40))]
    pub batch: u32,
}

impl Workload for Options {
    fn name(&self) -> &'static str {
        NAME
    }

    fn add_binder(&self, stage: &mut Stage) -> Result<()> {
        let (seat, batch) = (stage.seat(0), self.batch);
        let (ours, theirs) = UnixStream::pair().context("socket pair")?;
        let mut ends = (Some(ours), Some(theirs));
        let server = stage.server("oneway server".into(), seat.server, NAME.into(), |talker| {
            drop(ends.0.take());
            serve(talker, batch, ends.1.take().expect("taken once"))
        })?;
        let largest = self.sizes.iter().copied().max().unwrap_or(0) as usize;
        let client = stage.client("oneway client".into(), seat.client, NAME.into(), |talker, handle| {
            drop(ends.1.take());
            let payload = vec![0x5a; largest];
            let call = BinderTransactionData {
                target: handle.into(),
                code: 1,
                flags: TransactionFlags::ONE_WAY.bits(),
                buffer: payload.as_ptr() as u64,
                ..Default::default()
            };
            let done = ends.0.take().expect("taken once");
            Ok(Sender { talker, call, _payload: payload, batch, done })
        })?;
        for &size in &self.sizes {
            let mut label = Label::new(NAME, "");
            (label.size, label.batch, label.unit) = (size, batch, Unit::Operation);
            stage.add(Point::new(label).clients(&[client]).servers(&[server]));
        }
        Ok(())
    }
}

struct Sender {
    talker: Talker,
    call: BinderTransactionData,
    /// What `call` points into.
    _payload: Vec<u8>,
    batch: u32,
    done: UnixStream,
}

impl Caller for Sender {
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.call.data_size = setting.size.into();
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        for _ in 0..self.batch {
            match self.talker.send(&self.call)? {
                Return::TransactionComplete => {}
                other => return Err(unexpected(&other)),
            }
        }
        self.done.read_exact(&mut [0]).context("the end of a batch")
    }
}

fn serve(mut talker: Talker, batch: u32, mut done: UnixStream) -> Result<()> {
    loop {
        for _ in 0..batch {
            let call = talker.next_call()?;
            talker.out.free_buffer(call.buffer);
        }
        // The last buffer, too, is given back before the batch has ended.
        talker.flush()?;
        done.write_all(&[0]).context("the end of a batch")?;
    }
}
