// SPDX-License-Identifier: GPL-2.0
//! The yardstick for Binder: the same ping-pong over a pair of SEQPACKET sockets, in the same boot.
//!
//! It shows how fast the machine is now, and what two context switches cost. A message without payload is one byte, and so is each
//! reply.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};
use nix::unistd::{read, write};

use crate::prelude::*;

/// The case under which workloads without payloads of their own show the yardstick.
pub const CASE: &str = "yardstick";

/// Adds one null round trip to a workload.
pub fn add_to(workload: &str, stage: &mut Stage) -> Result<()> {
    let client = start(0, 0, stage)?;
    let label = Label::new(workload, CASE);
    stage.add(Label { carrier: Carrier::Seqpacket, ..label }, 0, &[client]);
    Ok(())
}

/// Starts the pair with this number, whose requests are no larger than `largest`: its client.
pub fn start(pair: u32, largest: u32, stage: &mut Stage) -> Result<Worker> {
    let name = |role| format!("seqpacket {role} of pair {}", pair + 1);
    let (seat, (ours, theirs)) = (stage.seat(pair), sockets()?);
    // Each process keeps only its own end, so that either notices when the other is gone.
    let mut ends = (Some(ours), Some(theirs));
    stage.start(name("server"), seat.server, |control| {
        drop(ends.0.take());
        control.ready()?;
        serve(&ends.1.take().expect("taken once"), largest)
    })?;
    stage.caller(name("client"), seat.client, || {
        drop(ends.1.take());
        Ok(SocketCaller::new(ends.0.take().expect("taken once"), largest))
    })
}

fn sockets() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::empty())
        .context("SOCK_SEQPACKET sockets")
}

struct SocketCaller {
    socket: OwnedFd,
    request: Vec<u8>,
    length: usize,
}

impl SocketCaller {
    /// A client on one end; no request will be larger than `largest`.
    fn new(socket: OwnedFd, largest: u32) -> SocketCaller {
        SocketCaller { socket, request: vec![0x5a; largest.max(1) as usize], length: 1 }
    }
}

impl Caller for SocketCaller {
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.length = setting.size.max(1) as usize;
        assert!(self.length <= self.request.len(), "the request was made for the largest size");
        Ok(())
    }

    #[inline(always)]
    fn call(&mut self) -> Result<()> {
        send(&self.socket, &self.request[..self.length])?;
        receive(&self.socket, &mut [0])
    }
}

/// Answers each request with one byte, in a loop.
fn serve(socket: &OwnedFd, largest: u32) -> Result<()> {
    let mut room = vec![0; largest.max(1) as usize];
    loop {
        receive(socket, &mut room)?;
        send(socket, &[0])?;
    }
}

#[inline(always)]
fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<()> {
    match write(socket, bytes) {
        Err(Errno::EPIPE | Errno::ECONNRESET) => Err(gone()),
        result => result.context("write of a yardstick").map(drop),
    }
}

#[inline(always)]
fn receive(socket: &OwnedFd, room: &mut [u8]) -> Result<()> {
    match read(socket, room) {
        Ok(0) => Err(gone()),
        result => result.context("read of a yardstick").map(drop),
    }
}

/// The failure of a side whose other side has closed its end.
fn gone() -> Error {
    Kind::PeerDied.error("the other side of a yardstick died")
}
