// SPDX-License-Identifier: GPL-2.0
//! The same ping-pong over two pipes, and over a pair of SEQPACKET sockets.
//!
//! A message starts with its own length, so that a server knows when a pipe has brought all of it. A message
//! without payload is one byte, the least that a pipe can carry.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};
use nix::unistd::{pipe, read, write};

use crate::prelude::*;

const HEADER: usize = 4;

#[derive(Debug)]
pub enum End {
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
    pub fn pipes() -> Result<(End, End)> {
        let (ours, to_us) = pipe().context("pipe")?;
        let (theirs, to_them) = pipe().context("pipe")?;
        Ok((End::Pipes { from: ours, to: to_them }, End::Pipes { from: theirs, to: to_us }))
    }

    pub fn seqpacket() -> Result<(End, End)> {
        let (one, two) = sockets()?;
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

/// Two connected sockets that keep messages apart.
pub fn sockets() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::empty())
        .context("SOCK_SEQPACKET sockets")
}

/// The failure of a side whose other side has closed its end.
pub fn gone() -> Error {
    Kind::PeerDied.error("the other side of a yardstick died")
}

pub struct StreamCaller {
    end: End,
    request: Vec<u8>,
    length: usize,
    reply: Vec<u8>,
}

impl StreamCaller {
    /// A client on one end; no request will be larger than `largest`.
    pub fn new(end: End, largest: u32) -> StreamCaller {
        let room = (largest as usize).max(HEADER);
        StreamCaller { end, request: vec![0x5a; room], length: 1, reply: vec![0; room] }
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
        self.end.receive(&mut self.reply).map(drop)
    }
}

/// Answers each request, for ever: with itself, or with one byte.
pub fn serve(end: &End, largest: u32, echo: bool) -> Result<()> {
    let mut room = vec![0; (largest as usize).max(HEADER)];
    loop {
        let length = end.receive(&mut room)?;
        end.write(&room[..if echo { length } else { 1 }])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_carry_every_size_and_notice_the_end() {
        const LARGEST: u32 = 131_072;
        for (make, echo) in [(End::pipes as fn() -> _, true), (End::pipes, false), (End::seqpacket, true)] {
            let (ours, theirs) = make().unwrap();
            let server = std::thread::spawn(move || serve(&theirs, LARGEST, echo));
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
