// SPDX-License-Identifier: GPL-2.0
//! What to compare Binder with: the same ping-pong over two pipes, and over a pair of SEQPACKET sockets, in the same boot.
//!
//! They say how fast the machine is now, and what the kernel charges anyone for two context switches. A message starts with its own
//! length, so that a server knows when a pipe has brought all of it. A message without payload is one byte, the least that a pipe can
//! carry, and so is each reply.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};
use nix::unistd::{pipe, read, write};

use crate::cli::Carriers;
use crate::prelude::*;

/// The case under which workloads without payloads of their own show a yardstick.
pub const CASE: &str = "yardstick";

const HEADER: usize = 4;

/// Adds one null round trip of each yardstick to a workload.
pub fn add_to(workload: &str, carriers: &Carriers, stage: &mut Stage) -> Result<()> {
    for carrier in carriers.yardsticks() {
        let client = start(carrier, 0, 0, stage)?;
        stage.add(Label { carrier, ..Label::new(workload, CASE) }, 0, &[client]);
    }
    Ok(())
}

/// Starts the pair of a yardstick with this number, whose requests are no larger than `largest`: its client.
pub fn start(carrier: Carrier, pair: u32, largest: u32, stage: &mut Stage) -> Result<Worker> {
    let name = |role| format!("{} {role} of pair {}", carrier.name(), pair + 1);
    let seat = stage.seat(pair);
    let (ours, theirs) = if carrier == Carrier::Pipe { End::pipes()? } else { End::seqpacket()? };
    // Each process keeps only its own end, so that either notices when the other is gone.
    let mut ends = (Some(ours), Some(theirs));
    stage.start(name("server"), seat.server, |control| {
        drop(ends.0.take());
        control.ready()?;
        serve(&ends.1.take().expect("taken once"), largest)
    })?;
    stage.caller(name("client"), seat.client, || {
        drop(ends.1.take());
        Ok(StreamCaller::new(ends.0.take().expect("taken once"), largest))
    })
}

#[derive(Debug)]
enum End {
    /// One pipe to read from, one to write to.
    Pipes {
        /// What the other side writes.
        from: OwnedFd,
        /// What the other side reads.
        to: OwnedFd,
    },
    /// One socket for both.
    Socket(OwnedFd),
}

impl End {
    fn pipes() -> Result<(End, End)> {
        let (ours, to_us) = pipe().context("pipe")?;
        let (theirs, to_them) = pipe().context("pipe")?;
        Ok((End::Pipes { from: ours, to: to_them }, End::Pipes { from: theirs, to: to_us }))
    }

    fn seqpacket() -> Result<(End, End)> {
        let (one, two) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::empty())
            .context("SOCK_SEQPACKET sockets")?;
        Ok((End::Socket(one), End::Socket(two)))
    }

    #[inline(always)]
    fn read(&self, room: &mut [u8]) -> Result<usize> {
        let (End::Pipes { from: fd, .. } | End::Socket(fd)) = self;
        match read(fd, room) {
            Ok(0) => Err(gone()),
            result => result.context("read of a yardstick"),
        }
    }

    /// Reads a whole message and says how long it is.
    #[inline(always)]
    fn receive(&self, room: &mut [u8]) -> Result<usize> {
        let mut length = self.read(room)?;
        if length >= HEADER {
            let whole =
                u32::from_ne_bytes(room[..HEADER].try_into().expect("a range of four bytes")) as usize;
            while length < whole {
                length += self.read(&mut room[length..whole])?;
            }
        }
        Ok(length)
    }

    #[inline(always)]
    fn write(&self, bytes: &[u8]) -> Result<()> {
        let (End::Pipes { to: fd, .. } | End::Socket(fd)) = self;
        let mut done = 0;
        while done < bytes.len() {
            done += match write(fd, &bytes[done..]) {
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(gone()),
                result => result.context("write of a yardstick")?,
            };
        }
        Ok(())
    }
}

/// The failure of a side whose other side has closed its end.
fn gone() -> Error {
    Kind::PeerDied.error("the other side of a yardstick died")
}

struct StreamCaller {
    end: End,
    request: Vec<u8>,
    length: usize,
}

impl StreamCaller {
    /// A client on one end; no request will be larger than `largest`.
    fn new(end: End, largest: u32) -> StreamCaller {
        let room = (largest as usize).max(HEADER);
        StreamCaller { end, request: vec![0x5a; room], length: 1 }
    }
}

impl Caller for StreamCaller {
    fn set(&mut self, setting: Setting) -> Result<()> {
        // Lengths below that of the header all count as "no payload".
        self.length = if (setting.size as usize) < HEADER { 1 } else { setting.size as usize };
        assert!(self.length <= self.request.len(), "the request was made for the largest size");
        self.request[..HEADER].copy_from_slice(&(self.length as u32).to_ne_bytes());
        Ok(())
    }

    #[inline(always)]
    fn call(&mut self) -> Result<()> {
        self.end.write(&self.request[..self.length])?;
        self.end.read(&mut [0]).map(drop)
    }
}

/// Answers each request, for ever, with one byte.
fn serve(end: &End, largest: u32) -> Result<()> {
    let mut room = vec![0; (largest as usize).max(HEADER)];
    loop {
        end.receive(&mut room)?;
        end.write(&room[..1])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_carry_every_size_and_notice_the_end() {
        const LARGEST: u32 = 131_072;
        for make in [End::pipes as fn() -> _, End::seqpacket] {
            let (ours, theirs) = make().unwrap();
            let server = std::thread::spawn(move || serve(&theirs, LARGEST));
            let mut caller = StreamCaller::new(ours, LARGEST);
            for size in [0, 1, 4, 5, 4096, 65_536, LARGEST, 0] {
                caller.set(Setting { size, variant: 0 }).unwrap();
                for _ in 0..3 {
                    caller.call().unwrap();
                }
            }
            drop(caller);
            assert_eq!(server.join().unwrap().unwrap_err().kind, Kind::PeerDied);
        }
    }
}
