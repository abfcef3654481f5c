// SPDX-License-Identifier: GPL-2.0
//! AOSP's binderThroughputTest in pairs: each client calls a server of its own with a payload, as fast as it can.
//!
//! Half of the workers are servers, registered as `binderWorker0`, `binderWorker1` …, and half are clients; all start
//! together and are timed call by call. A reply is empty, as there, or as large as its request.

use clap::Args;
use clap::ValueEnum;

use super::Workload;
use crate::cli::Carriers;
use crate::crew::Member;
use crate::error::Result;
use crate::exchange;
use crate::exchange::BinderCaller;
use crate::result::Carrier;
use crate::result::Label;
use crate::stage::Point;
use crate::stage::Stage;
use crate::yardstick;
use crate::yardstick::Exchanged;

/// The subcommand.
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
    #[arg(long, value_delimiter = ',', default_values_t = [0, 4096, 65536], value_parser = clap::value_parser!(u32).range(0..=131_072))]
    pub sizes: Vec<u32>,
    /// Bytes of a reply.
    #[arg(long, value_enum, default_value_t = Reply::Empty)]
    pub reply: Reply,
    /// Numbers of client/server pairs that run at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub pairs: Vec<u32>,
}

impl Workload for Options {
    fn carriers(&self) -> Carriers {
        Carriers::all()
    }

    fn set_up(&self, carriers: &Carriers, stage: &mut Stage) -> Result<()> {
        let pairs = if stage.alone { 1 } else { self.pairs.iter().copied().max().unwrap_or(1) };
        let exchanged = Exchanged {
            largest: self.sizes.iter().copied().max().unwrap_or(0),
            echo: self.reply == Reply::Same,
        };
        for carrier in carriers.iter() {
            let (clients, servers) = match carrier {
                Carrier::Binder => start(pairs, exchanged, stage)?,
                yardstick => yardstick::start(yardstick, pairs, exchanged, stage)?,
            };
            for &size in &self.sizes {
                for &pairs in if stage.alone { &[1] } else { &self.pairs[..] } {
                    let mut label = Label::new(NAME, "");
                    label.carrier = carrier;
                    label.size = size;
                    label.reply = if exchanged.echo { size } else { 0 };
                    label.pairs = pairs;
                    let taking_part = ..pairs as usize;
                    stage
                        .add(Point::new(label).clients(&clients[taking_part]).servers(&servers[taking_part]));
                }
            }
        }
        Ok(())
    }
}

fn start(
    pairs: u32,
    Exchanged { largest, echo }: Exchanged,
    stage: &mut Stage,
) -> Result<(Vec<Member>, Vec<Member>)> {
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let name = |role: &str| format!("binder {role} of pair {}", pair + 1);
        let (seat, service) = (stage.seat(pair), format!("binderWorker{pair}"));
        servers.push(stage.server(name("server"), seat.server, service.clone(), move |talker| {
            exchange::serve(talker.port().clone(), largest, |size| if echo { size } else { 0 })
        })?);
        clients.push(stage.client(name("client"), seat.client, service, move |talker, handle| {
            Ok(BinderCaller::new(talker.port().clone(), handle, largest))
        })?);
    }
    Ok((clients, servers))
}
