// SPDX-License-Identifier: GPL-2.0
//! AOSP's binderThroughputTest in pairs: each client calls a server of its own with a payload, as fast as it can.
//!
//! Half of the workers are servers, registered as `binderWorker0`, `binderWorker1` …, and half are clients; all start
//! together and are timed call by call. A reply is empty, as there, or as large as its request.
//!
//! Payloads that are too large for the space that libbinder maps are sent by one pair with a larger one.

use clap::{Args, ValueEnum};

use super::Workload;
use crate::cli::Carriers;
use crate::exchange::{self, BinderCaller};
use crate::prelude::*;
use crate::yardstick::{self, Exchanged};

pub const NAME: &str = "throughput";

/// How large a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reply {
    /// No bytes, as in AOSP's test.
    Empty,
    /// As many bytes as the request.
    Same,
}

/// Which payloads, and how many pairs.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Bytes of a request.
    #[arg(long, value_delimiter = ',', default_values_t = USUAL, value_parser = clap::value_parser!(u32).range(0..=131_072))]
    pub sizes: Vec<u32>,
    /// Bytes of a reply.
    #[arg(long, value_enum, default_value_t = Reply::Empty)]
    pub reply: Reply,
    /// Numbers of client/server pairs that run at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub pairs: Vec<u32>,
}

/// The payloads of AOSP's table.
const USUAL: [u32; 3] = [0, 4096, 65536];

/// A request of one pair that maps four megabytes, for the usual space cannot hold it.
const LARGE: u32 = 1 << 20;

impl Workload for Options {
    fn carriers(&self) -> Carriers {
        Carriers::all()
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn add_yardsticks(&self, carriers: &Carriers, stage: &mut Stage) -> Result<()> {
        carriers.yardsticks().try_for_each(|carrier| self.add(carrier, stage))
    }

    fn add_binder(&self, stage: &mut Stage) -> Result<()> {
        self.add(Carrier::Binder, stage)
    }
}

impl Options {
    fn add(&self, carrier: Carrier, stage: &mut Stage) -> Result<()> {
        let pairs = if stage.alone { &[1] } else { &self.pairs[..] };
        self.add_pairs(carrier, "binderWorker", (&self.sizes, pairs), stage)?;
        // A SEQPACKET socket takes no message of such a size.
        if carrier == Carrier::Seqpacket {
            return Ok(());
        }
        // Who names sizes wants no others.
        let large: &[u32] = if self.sizes == USUAL { &[LARGE] } else { &[] };
        stage.space = LARGEST_SPACE;
        self.add_pairs(carrier, "binderLarge", (large, &[1]), stage)?;
        stage.space = SPACE;
        Ok(())
    }

    /// Starts as many pairs as any point needs, with services of this name, and adds the points.
    fn add_pairs(
        &self,
        carrier: Carrier,
        service: &str,
        (sizes, pairs): (&[u32], &[u32]),
        stage: &mut Stage,
    ) -> Result<()> {
        let Some(&largest) = sizes.iter().max() else { return Ok(()) };
        let most = pairs.iter().copied().max().unwrap_or(1);
        let exchanged = Exchanged { largest, echo: self.reply == Reply::Same };
        let (mut clients, mut servers) = (Vec::new(), Vec::new());
        for pair in 0..most {
            let (client, server) = match carrier {
                Carrier::Binder => start(&format!("{service}{pair}"), pair, exchanged, stage)?,
                yardstick => yardstick::start(yardstick, pair, exchanged, stage)?,
            };
            clients.push(client);
            servers.push(server);
        }
        for &size in sizes {
            for &pairs in pairs {
                let reply = if exchanged.echo { size } else { 0 };
                let taking_part = ..pairs as usize;
                let label = Label { carrier, size, reply, pairs, ..Label::new(NAME, "") };
                stage.add(label, 0, &clients[taking_part], &servers[taking_part]);
            }
        }
        Ok(())
    }
}

/// Starts the pair with this number.
fn start(
    service: &str,
    pair: u32,
    Exchanged { largest, echo }: Exchanged,
    stage: &mut Stage,
) -> Result<(Worker, Worker)> {
    let name = format!("binder {{}} of pair {}", pair + 1);
    let serve =
        |talker: Talker| exchange::serve(talker.port().clone(), largest, |size| if echo { size } else { 0 });
    stage.pair((&name, pair), service, serve, |talker, handle| {
        Ok(BinderCaller::new(talker.port().clone(), handle, largest))
    })
}
