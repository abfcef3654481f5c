// SPDX-License-Identifier: GPL-2.0
//! The plain round trip: a synchronous transaction of bytes through an ordinary handle, and its reply.
//!
//! The command buffers are built once. A round trip only changes the address of the buffer to free, and in the server
//! the size of the reply. So the benchmark's own share is small, and equal for all drivers:
//!
//! ```text
//! client   one ioctl    BC_FREE_BUFFER (previous reply) BC_TRANSACTION  ->  BR_TRANSACTION_COMPLETE BR_REPLY
//! server   first ioctl  BC_FREE_BUFFER (the request)    BC_REPLY        ->  BR_TRANSACTION_COMPLETE
//!          second ioctl                                                 ->  BR_TRANSACTION
//! ```
//!
//! libbinder makes a call in this way unless other work interrupts it. If the driver defers the completion of the
//! reply, the server's first ioctl also waits for the next call, and there is no second one.

use std::mem::offset_of;
use std::sync::Arc;

use binder_sys::codes::*;
use binder_sys::{BinderTransactionData, BinderWriteRead, TransactionFlags};
use zerocopy::IntoBytes;

use crate::caller::Caller;
use crate::error::{Context, Error, Kind, Result};
use crate::talk::Port;
use crate::workers::Setting;

/// The code of the measured call; without meaning to anyone.
const CALL: u32 = 1;

const FREE_SIZE: usize = 4 + 8;
const WRITE_SIZE: usize = FREE_SIZE + 4 + size_of::<BinderTransactionData>();
const ROOM: usize = 256;

/// The result of a read besides acknowledgements: a transaction or a reply, by its buffer's address and its data's size.
type Arrival = Option<(u64, u64)>;

/// A prebuilt `BC_FREE_BUFFER` plus `BC_TRANSACTION` or `BC_REPLY`, and the room for what comes back.
struct Exchange {
    port: Arc<Port>,
    io: BinderWriteRead,
    write: [u8; WRITE_SIZE],
    read: [u8; ROOM],
    awaited: u32,
    first: bool,
}

impl Exchange {
    fn new(port: Arc<Port>, send: u32, data: &BinderTransactionData, awaited: u32) -> Exchange {
        let mut write = [0; WRITE_SIZE];
        write[..4].copy_from_slice(BC_FREE_BUFFER.as_bytes());
        write[FREE_SIZE..FREE_SIZE + 4].copy_from_slice(send.as_bytes());
        write[FREE_SIZE + 4..].copy_from_slice(data.as_bytes());
        let io = BinderWriteRead { read_size: ROOM as u64, ..Default::default() };
        Exchange { port, io, write, read: [0; ROOM], awaited, first: true }
    }

    #[inline(always)]
    fn set_size(&mut self, size: u64) {
        let at = FREE_SIZE + 4 + offset_of!(BinderTransactionData, data_size);
        self.write[at..at + 8].copy_from_slice(&size.to_ne_bytes());
    }

    /// Has the next `send` give this buffer back first.
    #[inline(always)]
    fn give_back(&mut self, buffer: u64) {
        self.write[4..FREE_SIZE].copy_from_slice(&buffer.to_ne_bytes());
        self.first = false;
    }

    #[inline(always)]
    fn send(&mut self) -> Result<Arrival> {
        self.io.write_size = WRITE_SIZE as u64;
        self.io.write_consumed = if self.first { FREE_SIZE as u64 } else { 0 };
        self.exchange()
    }

    #[inline(always)]
    fn wait(&mut self) -> Result<Arrival> {
        self.io.write_size = 0;
        self.io.write_consumed = 0;
        self.exchange()
    }

    #[inline(always)]
    fn exchange(&mut self) -> Result<Arrival> {
        self.io.read_consumed = 0;
        self.io.write_buffer = self.write.as_ptr() as u64;
        self.io.read_buffer = self.read.as_mut_ptr() as u64;
        // SAFETY: `io` names `write` and `read` where they are now, with their true sizes. The driver reads the
        // commands, and in them the payload, which `BinderCaller` and `serve` keep as long as the exchange; it
        // writes only `read`, whose bytes are not borrowed now.
        unsafe { self.port.device().write_read_raw(&mut self.io) }.context("BINDER_WRITE_READ")?;
        let mut arrival = None;
        let (mut at, end) = (0, (self.io.read_consumed as usize).min(ROOM));
        while let Some(code) = self.word(at, end) {
            let payload = at + 4;
            at = payload + binder_sys::ioctl::size_of_number(code);
            if code == BR_NOOP || code == BR_TRANSACTION_COMPLETE {
                continue;
            }
            if code != self.awaited || at > end {
                return Err(self.unexpected(code));
            }
            let buffer = self.long(payload + offset_of!(BinderTransactionData, buffer));
            arrival = Some((buffer, self.long(payload + offset_of!(BinderTransactionData, data_size))));
        }
        if self.io.write_consumed != self.io.write_size {
            return Err(Error::failed("the driver stopped in the middle of the commands"));
        }
        Ok(arrival)
    }

    #[inline(always)]
    fn word(&self, at: usize, end: usize) -> Option<u32> {
        let bytes = self.read[..end].get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().expect("a range of four bytes")))
    }

    #[inline(always)]
    fn long(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.read[at..at + 8].try_into().expect("a range of eight bytes"))
    }

    #[cold]
    fn unexpected(&self, code: u32) -> Error {
        match (code, return_name(code)) {
            (BR_DEAD_REPLY, _) => Kind::PeerDied.error("the server died (BR_DEAD_REPLY)"),
            (_, Some(name)) => {
                Error::failed(format!("the driver sent {name} in the middle of the measurement"))
            }
            (_, None) => Error::failed(format!("the driver sent {code:#x}, which is no return code")),
        }
    }
}

pub struct BinderCaller {
    exchange: Exchange,
    payload: Vec<u8>,
}

impl BinderCaller {
    /// A client that calls the node behind `handle`; no request will be larger than `largest`.
    pub fn new(port: Arc<Port>, handle: u32, largest: u32) -> BinderCaller {
        let payload = vec![0x5a; largest as usize];
        let data = BinderTransactionData {
            target: handle.into(),
            code: CALL,
            flags: TransactionFlags::ACCEPT_FDS.bits(),
            buffer: payload.as_ptr() as u64,
            ..Default::default()
        };
        BinderCaller { exchange: Exchange::new(port, BC_TRANSACTION, &data, BR_REPLY), payload }
    }
}

impl Caller for BinderCaller {
    fn set(&mut self, setting: Setting) -> Result<()> {
        assert!(setting.size as usize <= self.payload.len(), "the payload was made for the largest size");
        self.exchange.set_size(setting.size.into());
        Ok(())
    }

    #[inline(always)]
    fn call(&mut self) -> Result<()> {
        let mut arrival = self.exchange.send()?;
        loop {
            if let Some((buffer, _)) = arrival {
                self.exchange.give_back(buffer);
                return Ok(());
            }
            arrival = self.exchange.wait()?;
        }
    }
}

/// Answers calls in a loop, with `reply(size of the request)` bytes, at most `largest`, and these flags.
pub fn serve(
    port: Arc<Port>,
    largest: u32,
    flags: TransactionFlags,
    reply: impl Fn(u64) -> u64,
) -> Result<()> {
    let payload = vec![0xa5; largest as usize];
    let data =
        BinderTransactionData { buffer: payload.as_ptr() as u64, flags: flags.bits(), ..Default::default() };
    let mut exchange = Exchange::new(port, BC_REPLY, &data, BR_TRANSACTION);
    let mut arrival = exchange.wait()?;
    loop {
        arrival = match arrival {
            Some((buffer, size)) => {
                exchange.give_back(buffer);
                exchange.set_size(reply(size).min(largest.into()));
                exchange.send()?
            }
            None => exchange.wait()?,
        };
    }
}
