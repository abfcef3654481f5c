// SPDX-License-Identifier: GPL-2.0
//! What to compare Binder with: other ways for two processes to take turns, in the same boot.
//!
//! They say how fast the machine is now, and what the kernel charges anyone for two context switches.

pub mod files;
pub mod handoff;
pub mod stream;

use std::fs::File;

use crate::cli::Carriers;
use crate::prelude::*;
use files::FilesCaller;
use handoff::{HandoffCaller, Table};
use stream::{End, StreamCaller};

/// The case under which workloads without payloads of their own show a yardstick.
pub const CASE: &str = "yardstick";

/// Adds one null round trip of each yardstick to a workload.
pub fn add_to(workload: &str, carriers: &Carriers, stage: &mut Stage) -> Result<()> {
    for carrier in carriers.yardsticks() {
        let (client, server) = start(carrier, 0, Exchanged { largest: 0, echo: true }, stage)?;
        stage.add(Label { carrier, ..Label::new(workload, CASE) }, 0, &[client], &[server]);
    }
    Ok(())
}

/// What goes to and fro.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    pub largest: u32,
    /// Whether a reply is as large as its request; else it is empty.
    pub echo: bool,
}

/// Starts the pair of a yardstick with this number: its client and its server.
pub fn start(
    carrier: Carrier,
    pair: u32,
    Exchanged { largest, echo }: Exchanged,
    stage: &mut Stage,
) -> Result<(Worker, Worker)> {
    let name = format!("{} {{}} of pair {}", carrier.name(), pair + 1);
    let ends = match carrier {
        Carrier::Pipe => End::pipes()?,
        Carrier::Seqpacket => End::seqpacket()?,
        Carrier::Futex => {
            let table = Table::new(largest)?;
            let serve = |table| handoff::serve(table, echo);
            return connected(stage, (&name, pair), (&table, &table), serve, |table| {
                Ok(HandoffCaller::new(table))
            });
        }
        Carrier::Binder => unreachable!("Binder is no yardstick"),
    };
    let serve = |end| stream::serve(&end, largest, echo);
    connected(stage, (&name, pair), ends, serve, |end| Ok(StreamCaller::new(end, largest)))
}

/// Starts a pair that passes files over sockets: its client and its server.
pub fn start_files(stage: &mut Stage) -> Result<(Worker, Worker)> {
    let ends = stream::sockets()?;
    connected(stage, ("{} of files by SCM_RIGHTS", 0), ends, files::serve, |end| {
        Ok(FilesCaller::new(end, File::open("/dev/null").context("/dev/null")?))
    })
}

/// Starts the two sides of a connection: its client and its server. Each process keeps only its own end, so that either notices when
/// the other is gone.
fn connected<E, C: Caller>(
    stage: &mut Stage,
    (name, pair): (&str, u32),
    (ours, theirs): (E, E),
    serve: impl FnOnce(E) -> Result<()>,
    make: impl FnOnce(E) -> Result<C>,
) -> Result<(Worker, Worker)> {
    let seat = stage.seat(pair);
    let mut ends = (Some(ours), Some(theirs));
    let server = stage.start(name.replace("{}", "server"), seat.server, |control| {
        drop(ends.0.take());
        control.ready()?;
        serve(ends.1.take().expect("taken once"))
    })?;
    let client = stage.caller(name.replace("{}", "client"), seat.client, || {
        drop(ends.1.take());
        make(ends.0.take().expect("taken once"))
    })?;
    Ok((client, server))
}
