// SPDX-License-Identifier: GPL-2.0
//! What to compare Binder with: other ways for two processes to take turns, in the same boot.
//!
//! They say how fast the machine is now, and what the kernel charges anyone for two context switches.

pub mod files;
pub mod handoff;
pub mod stream;

use nix::sys::socket::socketpair;
use nix::sys::socket::AddressFamily;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockType;

use crate::caller::run_client;
use crate::cli::Carriers;
use crate::error::Context;
use crate::error::Result;
use crate::order::Answer;
use crate::result::Carrier;
use crate::result::Label;
use crate::stage::Point;
use crate::stage::Stage;
use crate::workers::Worker;
use files::FilesCaller;
use handoff::Bells;
use handoff::HandoffCaller;
use handoff::Table;
use stream::End;
use stream::StreamCaller;

/// The case under which workloads without payloads of their own show a yardstick.
pub const CASE: &str = "yardstick";

/// Adds one null round trip of each yardstick to a workload.
pub fn add_to(workload: &str, carriers: &Carriers, stage: &mut Stage) -> Result<()> {
    for carrier in carriers.yardsticks() {
        let pair = start(carrier, 1, Exchanged { largest: 0, echo: true }, stage)?;
        let mut label = Label::new(workload, CASE);
        label.carrier = carrier;
        stage.add(Point::new(label).clients(&pair.0).servers(&pair.1));
    }
    Ok(())
}

/// Starts a pair that passes files over sockets: its client and its server.
pub fn start_files(stage: &mut Stage) -> Result<(Worker, Worker)> {
    let (seat, clock) = (stage.seat(0), stage.clock);
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .context("SOCK_SEQPACKET socket pair")?;
    let mut ends = (Some(ours), Some(theirs));
    let server = stage.start("server of files by SCM_RIGHTS".into(), seat.server, |control| {
        drop(ends.0.take());
        control.answer(&Answer::Ready)?;
        files::serve(ends.1.take().expect("taken once"))
    })?;
    let client = stage.start("client of files by SCM_RIGHTS".into(), seat.client, |control| {
        drop(ends.1.take());
        let file = std::fs::File::open("/dev/null").context("/dev/null")?;
        run_client(control, FilesCaller::new(ends.0.take().expect("taken once"), file), &clock)
    })?;
    Ok((client, server))
}

/// What goes to and fro.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    /// The largest request.
    pub largest: u32,
    /// Whether a reply is as large as its request; else it is empty.
    pub echo: bool,
}

/// Starts pairs of a yardstick: its clients and its servers.
pub fn start(
    carrier: Carrier,
    pairs: u32,
    exchanged: Exchanged,
    stage: &mut Stage,
) -> Result<(Vec<Worker>, Vec<Worker>)> {
    let mut started = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let (client, server) = match carrier {
            Carrier::Pipe => start_stream(carrier, pair, End::pipes()?, exchanged, stage)?,
            Carrier::Seqpacket => start_stream(carrier, pair, End::seqpacket()?, exchanged, stage)?,
            Carrier::Futex => start_handoff(carrier, pair, Bells::futex(), exchanged, stage)?,
            Carrier::Eventfd => start_handoff(carrier, pair, Bells::eventfd()?, exchanged, stage)?,
            Carrier::Binder => unreachable!("Binder is no yardstick"),
        };
        started.0.push(client);
        started.1.push(server);
    }
    Ok(started)
}

fn names(carrier: Carrier, pair: u32) -> [String; 2] {
    ["client", "server"].map(|role| format!("{} {role} of pair {}", carrier.name(), pair + 1))
}

fn start_stream(
    carrier: Carrier,
    pair: u32,
    (ours, theirs): (End, End),
    Exchanged { largest, echo }: Exchanged,
    stage: &mut Stage,
) -> Result<(Worker, Worker)> {
    let ([client, server], seat, clock) = (names(carrier, pair), stage.seat(pair), stage.clock);
    // Each process keeps only its own end, so that either notices when the other is gone.
    let mut ends = (Some(ours), Some(theirs));
    let server = stage.start(server, seat.server, |control| {
        drop(ends.0.take());
        control.answer(&Answer::Ready)?;
        stream::serve(ends.1.take().expect("taken once"), largest, echo)
    })?;
    let client = stage.start(client, seat.client, |control| {
        drop(ends.1.take());
        run_client(control, StreamCaller::new(ends.0.take().expect("taken once"), largest), &clock)
    })?;
    Ok((client, server))
}

fn start_handoff(
    carrier: Carrier,
    pair: u32,
    bells: Bells,
    Exchanged { largest, echo }: Exchanged,
    stage: &mut Stage,
) -> Result<(Worker, Worker)> {
    let ([client, server], seat, clock) = (names(carrier, pair), stage.seat(pair), stage.clock);
    let table = Table::new(largest, bells)?;
    let server = stage.start(server, seat.server, |control| {
        control.answer(&Answer::Ready)?;
        handoff::serve(&table, echo)
    })?;
    let client = stage
        .start(client, seat.client, |control| run_client(control, HandoffCaller::new(&table), &clock))?;
    Ok((client, server))
}
