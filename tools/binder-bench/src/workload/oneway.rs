// SPDX-License-Identifier: GPL-2.0
//! Calls that nobody answers: batches of them, each call received and its buffer given back.
//!
//! The client sends a batch, one call an ioctl, and then waits for a byte on a socket, which the server writes when it has
//! received the whole batch. The share of that byte is divided by the batch. There may be several clients, all of which call one node of
//! one server; the code of a call says whose it is.

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
    /// Clients that call the server at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1], value_parser = clap::value_parser!(u32).range(1..=16))]
    pub senders: Vec<u32>,
}

impl Workload for Options {
    fn name(&self) -> &'static str {
        NAME
    }

    fn add_binder(&self, stage: &mut Stage) -> Result<()> {
        let batch = self.batch;
        let senders: &[u32] = if stage.alone { &[1] } else { &self.senders };
        let most = senders.iter().copied().max().unwrap_or(1);
        let pairs = (0..most).map(|_| UnixStream::pair()).collect::<std::io::Result<Vec<_>>>();
        let (mut ours, theirs): (Vec<_>, Vec<_>) = pairs.context("socket pair")?.into_iter().unzip();
        // Taken by the server's process, which must not have the other ends.
        let mut ends = Some(theirs);
        let server = stage.server("oneway server".into(), stage.seat(0).server, NAME.into(), |talker| {
            ours.clear();
            serve(talker, batch, ends.take().expect("taken once"))
        })?;
        drop(ends);
        let largest = self.sizes.iter().copied().max().unwrap_or(0) as usize;
        let mut clients = Vec::new();
        for (place, done) in (0..).zip(ours) {
            let name = format!("oneway client {}", place + 1);
            let seat = stage.seat_of_many(place);
            clients.push(stage.client(name, seat, NAME.into(), |talker, handle| {
                Ok(Sender::new(talker, handle, (place, largest), batch, done))
            })?);
        }
        for &size in &self.sizes {
            for &senders in senders {
                let mut label = Label::new(NAME, "");
                (label.size, label.batch, label.unit, label.pairs) = (size, batch, Unit::Operation, senders);
                stage.add(Point::new(label).clients(&clients[..senders as usize]).servers(&[server]));
            }
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

impl Sender {
    fn new(
        talker: Talker,
        handle: u32,
        (place, largest): (u32, usize),
        batch: u32,
        done: UnixStream,
    ) -> Sender {
        let payload = vec![0x5a; largest];
        let call = BinderTransactionData {
            target: handle.into(),
            code: place,
            flags: TransactionFlags::ONE_WAY.bits(),
            buffer: payload.as_ptr() as u64,
            ..Default::default()
        };
        Sender { talker, call, _payload: payload, batch, done }
    }
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

/// Receives for ever; `done` are the clients' sockets.
fn serve(mut talker: Talker, batch: u32, mut done: Vec<UnixStream>) -> Result<()> {
    let mut received = vec![0; done.len()];
    loop {
        let call = talker.next_call()?;
        talker.out.free_buffer(call.buffer);
        let sender = call.code as usize;
        received[sender] += 1;
        if received[sender] == batch {
            received[sender] = 0;
            // The last buffer, too, is given back before the batch has ended.
            talker.flush()?;
            done[sender].write_all(&[0]).context("the end of a batch")?;
        }
    }
}
