// SPDX-License-Identifier: GPL-2.0
//! How clients come to their handles: a context manager that keeps one node per server.
//!
//! Nothing here is measured. Handle 0 is special to a driver, so servers are never called through it: each
//! registers its node with a small manager process, and its client asks there, as with a service manager.

use binder_sys::BinderPtrCookie;
use binder_sys::BinderTransactionData;
use binder_sys::Commands;
use binder_sys::Device;
use binder_sys::Errno;
use binder_sys::FlatBinderObject;
use binder_sys::Mapping;
use binder_sys::Parcel;
use binder_sys::Return;
use binder_sys::Returns;
use binder_sys::TransactionFlags;
use zerocopy::FromBytes;

use crate::error::Context;
use crate::error::Error;
use crate::error::Result;

const REGISTER: u32 = 1;
const LOOK_UP: u32 = 2;

/// An opened device with its mapped space.
#[derive(Debug)]
pub struct Port {
    device: Device,
    space: Mapping,
}

impl Port {
    /// Puts the two together.
    pub fn new(device: Device, space: Mapping) -> Port {
        Port { device, space }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Becomes the context manager and serves registrations and look-ups, for ever. Calls `ready` in between.
    pub fn manage(self, ready: impl FnOnce() -> Result<()>) -> Result<()> {
        self.become_manager()?;
        let mut handles = Vec::new();
        let mut out = Commands::new();
        out.enter_looper();
        self.device.write_all(out.as_bytes()).context("BC_ENTER_LOOPER")?;
        ready()?;
        loop {
            let (mut out, mut answer) = (Commands::new(), Parcel::new());
            for item in self.read(&mut out)? {
                if let Return::Transaction(call) = item {
                    self.answer(&call, &mut handles, &mut out, &mut answer)?;
                }
            }
            self.device.write_all(out.as_bytes()).context("answering as context manager")?;
        }
    }

    /// Takes the role, waiting out the release of a predecessor that has just died.
    fn become_manager(&self) -> Result<()> {
        for _ in 0..50 {
            match self.device.set_context_manager() {
                Err(Errno::EBUSY) => std::thread::sleep(std::time::Duration::from_millis(10)),
                result => return result.map_err(|e| Error::from_path("cannot become context manager", e)),
            }
        }
        Err(Error::NoBinder("the device has a context manager already: use --binderfs or --mount".into()))
    }

    fn answer(
        &self,
        call: &BinderTransactionData,
        handles: &mut Vec<u32>,
        out: &mut Commands,
        answer: &mut Parcel,
    ) -> Result<()> {
        let pair = u64::from_ne_bytes(self.part(call, 0)?) as usize;
        match call.code {
            REGISTER => {
                let object = self.object(call, 8)?;
                handles.resize(handles.len().max(pair + 1), 0);
                handles[pair] = object.handle();
                out.acquire(object.handle());
            }
            LOOK_UP => {
                let known = handles.get(pair).copied().filter(|&h| h != 0);
                let handle =
                    known.ok_or_else(|| Error::Protocol(format!("no server {pair} is registered")))?;
                answer.object(&FlatBinderObject::strong_handle(handle));
            }
            code => return Err(Error::Protocol(format!("the manager was asked for {code}"))),
        }
        out.free_buffer(call.buffer);
        out.reply(&answer.to_caller(TransactionFlags::empty()));
        Ok(())
    }

    /// Offers a node as the server of a pair.
    pub fn register(&self, pair: u64) -> Result<()> {
        let mut parcel = Parcel::new();
        parcel.bytes(&pair.to_ne_bytes());
        parcel.object(&FlatBinderObject::binder(pair + 1, pair + 1));
        let reply = self.call_manager(REGISTER, &parcel)?;
        let mut out = Commands::new();
        out.free_buffer(reply.buffer).enter_looper();
        self.device.write_all(out.as_bytes()).context("BC_ENTER_LOOPER").map(drop)
    }

    /// Gets a handle, held strongly, on the server of a pair.
    pub fn look_up(&self, pair: u64) -> Result<u32> {
        let mut parcel = Parcel::new();
        parcel.bytes(&pair.to_ne_bytes());
        let reply = self.call_manager(LOOK_UP, &parcel)?;
        let handle = self.object(&reply, 0)?.handle();
        let mut out = Commands::new();
        out.acquire(handle).free_buffer(reply.buffer);
        self.device.write_all(out.as_bytes()).context("BC_ACQUIRE")?;
        Ok(handle)
    }

    fn call_manager(&self, code: u32, parcel: &Parcel) -> Result<BinderTransactionData> {
        let mut out = Commands::new();
        out.transaction(&parcel.to_handle(0, code, TransactionFlags::ACCEPT_FDS));
        loop {
            for item in self.read(&mut out)? {
                match item {
                    Return::Reply(reply) => {
                        // The last counts asked for must be confirmed also when the answer came with them.
                        self.device.write_all(out.as_bytes()).context("BC_ACQUIRE_DONE")?;
                        return Ok(reply);
                    }
                    Return::DeadReply => return Err(Error::PeerDied("the context manager died".into())),
                    Return::FailedReply => {
                        return Err(Error::Protocol("BR_FAILED_REPLY from the manager".into()))
                    }
                    _ => {}
                }
            }
        }
    }

    /// Writes what is in `out`, reads once, and puts the answers to count requests into `out`.
    fn read(&self, out: &mut Commands) -> Result<Vec<Return>> {
        let mut room = [0; 512];
        let done = self.device.write_read(out.as_bytes(), &mut room).context("BINDER_WRITE_READ")?;
        out.clear();
        let mut items = Vec::new();
        for item in Returns::new(&room[..done.read_consumed as usize]) {
            let item = item.map_err(|e| Error::Protocol(e.to_string()))?;
            match item {
                Return::Increfs(BinderPtrCookie { ptr, cookie }) => {
                    out.increfs_done(ptr, cookie);
                }
                Return::Acquire(BinderPtrCookie { ptr, cookie }) => {
                    out.acquire_done(ptr, cookie);
                }
                _ => items.push(item),
            }
        }
        Ok(items)
    }

    fn part<const N: usize>(&self, data: &BinderTransactionData, at: u64) -> Result<[u8; N]> {
        if at + N as u64 > data.data_size || !self.space.contains(data.buffer, data.data_size as usize) {
            return Err(Error::Protocol("a message of the benchmark arrived cut short".into()));
        }
        let mut bytes = [0; N];
        self.space.read_into(data.buffer + at, &mut bytes);
        Ok(bytes)
    }

    fn object(&self, data: &BinderTransactionData, at: u64) -> Result<FlatBinderObject> {
        let bytes: [u8; size_of::<FlatBinderObject>()] = self.part(data, at)?;
        FlatBinderObject::read_from_bytes(&bytes).map_err(|_| Error::Protocol("a bad object arrived".into()))
    }
}
