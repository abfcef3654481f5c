// SPDX-License-Identifier: GPL-2.0
//! A thread that uses the driver: commands collected and written, returns read and handed out one by one.
//!
//! [`crate::exchange`] has only the few instructions that a plain round trip needs. This module is for all other calls,
//! and for calls that are not measured.

use std::path::Path;
use std::sync::Arc;

use binder_sys::codes::{return_name, BR_NOOP, BR_TRANSACTION_COMPLETE};
use binder_sys::{
    BinderPtrCookie, BinderTransactionData, Commands, Device, FlatBinderObject, Mapping, Parcel, Return,
    Returns, TransactionFlags,
};
use zerocopy::FromBytes;

use crate::error::{Context, Error, Kind, Result};

/// The size of libbinder's mapping: one megabyte less the two guard pages.
pub const SPACE: usize = (1 << 20) - 2 * 4096;

/// The most that a driver makes use of.
pub const LARGEST_SPACE: usize = 4 << 20;

/// Room for the returns of one read.
const ROOM: usize = 8192;

/// An opened device with its mapped space.
#[derive(Debug)]
pub struct Port {
    device: Device,
    space: Mapping,
}

impl Port {
    /// Opens a device and maps so much space for what arrives.
    pub fn open(path: &Path, space: usize) -> Result<Port> {
        let shown = path.display();
        let device = Device::open(path).map_err(|e| Error::from_path(format!("cannot open {shown}"), e))?;
        let space = device.map(space).context(format!("cannot map {shown}"))?;
        device.set_max_threads(0).context("BINDER_SET_MAX_THREADS")?;
        Ok(Port { device, space })
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of a message that has arrived, from an offset.
    pub fn part<const N: usize>(&self, data: &BinderTransactionData, at: u64) -> Result<[u8; N]> {
        if at + N as u64 > data.data_size || !self.space.contains(data.buffer, data.data_size as usize) {
            return Err(Error::failed("a message of the benchmark arrived cut short"));
        }
        let mut bytes = [0; N];
        self.space.read_into(data.buffer + at, &mut bytes);
        Ok(bytes)
    }

    /// An object in a message that has arrived.
    pub fn object(&self, data: &BinderTransactionData, at: u64) -> Result<FlatBinderObject> {
        let bytes: [u8; size_of::<FlatBinderObject>()] = self.part(data, at)?;
        FlatBinderObject::read_from_bytes(&bytes).map_err(|_| Error::failed("a bad object arrived"))
    }
}

/// Evaluates `$then` for the return `$wanted`, which must be the next one.
macro_rules! awaited {
    ($talker:expr, $wanted:pat => $then:expr) => {
        match $talker.next()? {
            $wanted => $then,
            other => return Err($crate::talk::unexpected(&other)),
        }
    };
}
pub(crate) use awaited;

/// A call without data.
pub fn plain(handle: u32, code: u32, flags: TransactionFlags) -> BinderTransactionData {
    Parcel::new().to_handle(handle, code, flags)
}

/// A thread's commands on their way to the driver, and returns on their way from it.
#[derive(Debug)]
pub struct Talker {
    port: Arc<Port>,
    /// Commands that the next exchange writes.
    pub out: Commands,
    room: Box<[u8; ROOM]>,
    /// The part of `room` that holds returns which have arrived and not been handed out.
    news: std::ops::Range<usize>,
}

impl Talker {
    /// Opens a device for this thread, and maps so much space.
    pub fn open(path: &Path, space: usize) -> Result<Talker> {
        Port::open(path, space).map(|port| Talker::on(Arc::new(port)))
    }

    /// For another thread of the same process.
    pub fn on(port: Arc<Port>) -> Talker {
        Talker { port, out: Commands::new(), room: Box::new([0; ROOM]), news: 0..0 }
    }

    pub fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// Joins the pool of threads that take calls.
    pub fn enter_looper(&mut self) -> Result<()> {
        self.write(Commands::enter_looper)
    }

    /// Writes the commands and reads what there is, waiting for something if there is nothing.
    pub fn exchange(&mut self) -> Result<()> {
        if !self.news.is_empty() {
            self.room.copy_within(self.news.clone(), 0);
        }
        self.news = 0..self.news.len();
        let done = self.port.device.write_read(self.out.as_bytes(), &mut self.room[self.news.end..]);
        let done = done.context("BINDER_WRITE_READ")?;
        self.news.end += done.read_consumed as usize;
        self.account(done.write_consumed)
    }

    pub fn flush(&mut self) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let written = self.port.device.write_all(self.out.as_bytes()).context("BINDER_WRITE_READ")?;
        self.account(written)
    }

    /// Adds commands, and writes all that there are.
    pub fn write(&mut self, add: impl FnOnce(&mut Commands) -> &mut Commands) -> Result<()> {
        add(&mut self.out);
        self.flush()
    }

    /// Takes hold of an object in a message: its handle.
    pub fn hold(&mut self, message: &BinderTransactionData, at: u64) -> Result<u32> {
        let handle = self.port.object(message, at)?.handle();
        self.out.acquire(handle);
        Ok(handle)
    }

    fn account(&mut self, written: u64) -> Result<()> {
        if written != self.out.len() as u64 {
            return Err(Error::failed("the driver stopped in the middle of the commands"));
        }
        self.out.clear();
        Ok(())
    }

    /// The next return that has arrived already, if any; requests for counts on nodes of ours are granted.
    pub fn arrived(&mut self) -> Result<Option<Return>> {
        loop {
            // Most of what comes are these two: they need no decoding.
            match self.room[self.news.clone()].first_chunk().map(|code| u32::from_ne_bytes(*code)) {
                Some(BR_NOOP) => {
                    self.news.start += 4;
                    continue;
                }
                Some(BR_TRANSACTION_COMPLETE) => {
                    self.news.start += 4;
                    return Ok(Some(Return::TransactionComplete));
                }
                _ => {}
            }
            let mut returns = Returns::new(&self.room[self.news.clone()]);
            let Some(item) = returns.next() else { return Ok(None) };
            self.news.start = self.news.end - returns.remaining();
            match item.map_err(|e| Error::failed(e.to_string()))? {
                Return::Increfs(BinderPtrCookie { ptr, cookie }) => {
                    self.out.increfs_done(ptr, cookie);
                }
                Return::Acquire(BinderPtrCookie { ptr, cookie }) => {
                    self.out.acquire_done(ptr, cookie);
                }
                Return::Release(_) | Return::Decrefs(_) => {}
                item => return Ok(Some(item)),
            }
        }
    }

    /// Waits for the next return that is neither an acknowledgement nor a failure.
    pub fn next(&mut self) -> Result<Return> {
        loop {
            match self.arrived()? {
                None => self.exchange()?,
                Some(Return::TransactionComplete) => {}
                Some(item) => return self.check(item),
            }
        }
    }

    /// Returns an error for a failure, and other returns unchanged.
    pub fn check(&self, item: Return) -> Result<Return> {
        match item {
            Return::DeadReply => Err(Kind::PeerDied.error("the other side died (BR_DEAD_REPLY)")),
            Return::FrozenReply => Err(Error::failed("the other side is frozen (BR_FROZEN_REPLY)")),
            Return::FailedReply | Return::Error => {
                let error = self.port.device.extended_error().unwrap_or_default();
                Err(Error::failed(format!(
                    "the driver could not carry out a call: {}, error {}",
                    return_name(error.command).unwrap_or("BR_FAILED_REPLY"),
                    error.param
                )))
            }
            item => Ok(item),
        }
    }

    /// Calls, and waits for the reply, whose buffer the caller frees.
    pub fn call(&mut self, data: &BinderTransactionData) -> Result<BinderTransactionData> {
        self.out.transaction(data);
        awaited!(self, Return::Reply(reply) => Ok(reply))
    }

    /// Calls, and gives the reply back.
    pub fn call_through(&mut self, data: &BinderTransactionData) -> Result<()> {
        let reply = self.call(data)?;
        self.write(|out| out.free_buffer(reply.buffer))
    }

    /// Frees the buffer of a call and, unless it is oneway, adds an empty reply.
    pub fn finish(&mut self, call: &BinderTransactionData) -> &mut Talker {
        self.finish_with(call, &Parcel::new())
    }

    /// The same with this reply.
    pub fn finish_with(&mut self, call: &BinderTransactionData, answer: &Parcel) -> &mut Talker {
        self.out.free_buffer(call.buffer);
        match call.flags & TransactionFlags::ONE_WAY.bits() {
            0 => self.reply(answer),
            _ => self,
        }
    }

    /// Adds a reply.
    pub fn reply(&mut self, answer: &Parcel) -> &mut Talker {
        self.out.reply(&answer.to_caller(TransactionFlags::empty()));
        self
    }

    /// Calls without waiting for anything.
    pub fn begin(&mut self, data: &BinderTransactionData) -> Result<()> {
        self.write(|out| out.transaction(data))
    }

    /// Calls without waiting for more than the driver's acknowledgement, which is returned.
    pub fn send(&mut self, data: &BinderTransactionData) -> Result<Return> {
        self.out.transaction(data);
        loop {
            self.exchange()?;
            if let Some(item) = self.arrived()? {
                return self.check(item);
            }
        }
    }

    pub fn next_call(&mut self) -> Result<BinderTransactionData> {
        awaited!(self, Return::Transaction(call) => Ok(call))
    }
}

/// Something came that this workload has no use for.
pub fn unexpected(item: &Return) -> Error {
    Error::failed(format!("the driver sent {item:?} in the middle of the measurement"))
}
