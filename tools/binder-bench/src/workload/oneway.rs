// SPDX-License-Identifier: GPL-2.0
//! Batches of oneway calls, each of which is received and its buffer freed.
//!
//! The client sends a batch, one call an ioctl, and then waits for a byte on a socket. The server writes it after the
//! whole batch. The share of that byte is divided by the batch. There may be several clients, all of which call one
//! node of one server; the code of a call is its client's number.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use clap::Args;

use super::Workload;
use crate::prelude::*;

const NAME: &str = "oneway";

/// Calls in a batch.
const BATCH: u32 = 32;

/// Payloads, and numbers of clients.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Bytes of a call.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 4096], value_parser = clap::value_parser!(u32).range(0..=8192))]
    pub sizes: Vec<u32>,
    /// Clients that call the server at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1], value_parser = clap::value_parser!(u32).range(1..=16))]
    pub senders: Vec<u32>,
}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        let senders: &[u32] = if stage.alone { &[1] } else { &self.senders };
        let most = senders.iter().copied().max().unwrap_or(1);
        let pairs = (0..most).map(|_| UnixStream::pair()).collect::<std::io::Result<Vec<_>>>();
        let (mut ours, theirs): (Vec<_>, Vec<_>) = pairs.context("socket pair")?.into_iter().unzip();
        // Taken by the server's process, which must not have the other ends.
        let mut ends = Some(theirs);
        stage.server("oneway server", stage.seat(0).server, NAME, |talker| {
            ours.clear();
            serve(talker, ends.take().expect("taken once"))
        })?;
        drop(ends);
        let largest = self.sizes.iter().copied().max().unwrap_or(0) as usize;
        let mut clients = Vec::new();
        for (place, done) in (0..).zip(ours) {
            let (name, seat) = (format!("oneway client {}", place + 1), stage.seat_of_many(place));
            clients.push(stage.client(name, seat, NAME, |talker, handle| {
                let payload = vec![0x5a; largest];
                let call = BinderTransactionData {
                    target: handle.into(),
                    code: place,
                    flags: TransactionFlags::ONE_WAY.bits(),
                    buffer: payload.as_ptr() as u64,
                    ..Default::default()
                };
                Ok(Sender { talker, call, _payload: payload, done })
            })?);
        }
        for &size in &self.sizes {
            for &pairs in senders {
                let label = Label { size, batch: BATCH, pairs, ..Label::new(NAME, "") };
                stage.add(label, 0, &clients[..pairs as usize]);
            }
        }
        Ok(())
    }
}

struct Sender {
    talker: Talker,
    call: BinderTransactionData,
    /// The data of `call`.
    _payload: Vec<u8>,
    done: UnixStream,
}

impl Caller for Sender {
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.call.data_size = setting.size.into();
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        for _ in 0..BATCH {
            match self.talker.send(&self.call)? {
                Return::TransactionComplete => {}
                other => return Err(unexpected(&other)),
            }
        }
        self.done.read_exact(&mut [0]).context("the end of a batch")
    }
}

/// Receives in a loop; `done` are the clients' sockets.
fn serve(mut talker: Talker, mut done: Vec<UnixStream>) -> Result<()> {
    let mut received = vec![0; done.len()];
    loop {
        let call = talker.next_call()?;
        talker.out.free_buffer(call.buffer);
        let sender = call.code as usize;
        received[sender] += 1;
        if received[sender] == BATCH {
            received[sender] = 0;
            // The last buffer, too, is given back before the batch has ended.
            talker.flush()?;
            done[sender].write_all(&[0]).context("the end of a batch")?;
        }
    }
}
