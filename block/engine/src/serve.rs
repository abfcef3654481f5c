// SPDX-License-Identifier: GPL-2.0
//! Serves the requests of a ublk device from a storage.

use crate::storage::{Durability, Features, Storage};
use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::io::{BufDescList, UblkDev, UblkQueue};
use libublk::{sys, BufDesc, UblkError, UblkFlags, UblkIORes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Why a disk cannot be made, or was not served to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the block size is a power of two from 512 to 4096, not {0}")]
    BlockSize(u32),
    #[error("the storage has {0} bytes, less than a block")]
    TooSmall(u64),
    #[error("ublk: {0}; is the module ublk_drv loaded, and may this user use /dev/ublk-control?")]
    Ublk(#[from] UblkError),
}

/// The properties of a disk that do not depend on its storage.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    block: u32,
}

impl Default for Disk {
    /// Blocks of 512 bytes.
    fn default() -> Self {
        Self { block: 512 }
    }
}

/// Sectors, as the kernel counts.
const SECTOR: u64 = 512;
/// The largest request, in bytes.
pub(crate) const LARGEST: u32 = 512 << 10;

impl Disk {
    /// The size of a block in bytes: a power of two from 512 to 4096.
    pub fn block(self, bytes: u32) -> Self {
        Self { block: bytes }
    }

    /// Makes the device, calls `ready` with its path, and serves it until it is [deleted](delete). It goes with the
    /// process, too. Needs the right to add devices.
    pub fn serve<S: Storage>(
        self,
        storage: S,
        ready: impl FnOnce(&Path) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.run(storage.size(), storage.features(), storage, serve_queue, ready)
    }

    /// Makes a device, and serves its queue from a storage.
    pub(crate) fn run<S: Send + 'static>(
        self,
        size: u64,
        features: Features,
        storage: S,
        serve_queue: fn(u16, &UblkDev, &mut S),
        ready: impl FnOnce(&Path) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        if !self.block.is_power_of_two() || !(512..=4096).contains(&self.block) {
            return Err(Error::BlockSize(self.block));
        }
        let blocks = size / u64::from(self.block);
        if blocks == 0 {
            return Err(Error::TooSmall(size));
        }
        let control = UblkCtrlBuilder::default()
            .name("block-engine")
            .nr_queues(1)
            .io_buf_bytes(LARGEST)
            .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
            .build()?;
        let parameters = move |device: &mut UblkDev| {
            device.set_default_params(blocks * u64::from(self.block));
            let given = &mut device.tgt.params;
            given.basic.logical_bs_shift = self.block.trailing_zeros() as u8;
            given.basic.attrs = match features.cache {
                true => sys::UBLK_ATTR_VOLATILE_CACHE | sys::UBLK_ATTR_FUA,
                false => 0,
            };
            if features.discard {
                given.types |= sys::UBLK_PARAM_TYPE_DISCARD;
                given.discard.discard_granularity = self.block;
                given.discard.max_discard_sectors = u32::MAX >> 9;
                given.discard.max_discard_segments = 1;
            }
            Ok(())
        };
        // There is one queue, and so one thread that takes it.
        let storage = Arc::new(Mutex::new(storage));
        let queue = move |number, device: &UblkDev| {
            let _guard = AbortOnPanic;
            serve_queue(number, device, &mut storage.lock().expect("nobody else has the storage"));
        };
        let started = move |control: &UblkCtrl| ready(&PathBuf::from(control.get_bdev_path()));
        control.run_target(parameters, queue, started)?;
        Ok(())
    }
}

/// Deletes the device of this number: it fails all requests, and whoever serves it returns.
pub fn delete(number: u32) -> Result<(), Error> {
    UblkCtrl::new_simple(number as i32)?.kill_dev()?;
    Ok(())
}

/// Ends the process with its thread, when a storage panics for one. Requests would wait for ever without the thread.
/// Without the process, the kernel fails them.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

fn serve_queue<S: Storage>(number: u16, device: &UblkDev, storage: &mut S) {
    let mut buffers = device.alloc_queue_io_bufs();
    let fetched = UblkQueue::new(number, device)
        .and_then(|queue| queue.submit_fetch_commands_unified(BufDescList::Slices(Some(&buffers))));
    let queue = fetched.expect("the queue can be served");
    queue.wait_and_handle_io(|queue, tag, _| {
        let buffer = &mut buffers[usize::from(tag)];
        let done = Request::of(queue, tag).carry_out(storage, buffer.as_mut_slice());
        let result = result_of(done);
        let buffer = BufDesc::Slice(buffer.as_slice());
        if let Err(error) = queue.complete_io_cmd_unified(tag, buffer, Ok(UblkIORes::Result(result))) {
            eprintln!("block-engine: request {tag} cannot be ended: {error}");
        }
    });
}

const EIO: i32 = 5;
const EOPNOTSUPP: i32 = 95;

/// Returns a request's result for the kernel: the bytes that were transferred, or a negative errno.
pub(crate) fn result_of(done: io::Result<i32>) -> i32 {
    done.unwrap_or_else(|error| -error.raw_os_error().unwrap_or(EIO))
}

/// The error of an operation that the kernel sends to other disks alone.
pub(crate) fn unknown() -> io::Error {
    io::Error::from_raw_os_error(EOPNOTSUPP)
}

/// A request of the kernel.
pub(crate) struct Request {
    pub(crate) operation: u32,
    pub(crate) at: u64,
    pub(crate) length: u64,
    pub(crate) durability: Durability,
}

impl Request {
    pub(crate) fn of(queue: &UblkQueue<'_>, tag: u16) -> Self {
        let given = queue.get_iod(tag);
        let is_at_once = given.op_flags & sys::UBLK_IO_F_FUA != 0;
        Self {
            operation: given.op_flags & 0xff,
            // A flush has no position: all bits are set.
            at: given.start_sector.wrapping_mul(SECTOR),
            length: u64::from(given.nr_sectors) * SECTOR,
            durability: if is_at_once { Durability::AtOnce } else { Durability::WhenFlushed },
        }
    }

    /// Returns the part of a buffer that the request's data take.
    pub(crate) fn part<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a mut [u8], io::ErrorKind> {
        buffer.get_mut(..self.length as usize).ok_or(io::ErrorKind::InvalidInput)
    }

    /// Returns what the kernel expects: the bytes that were transferred, or 0.
    fn carry_out(&self, storage: &mut impl Storage, buffer: &mut [u8]) -> io::Result<i32> {
        let data = self.part(buffer);
        match self.operation {
            sys::UBLK_IO_OP_READ => storage.read(self.at, data?).map(|()| self.length as i32),
            sys::UBLK_IO_OP_WRITE => {
                storage.write(self.at, data?, self.durability).map(|()| self.length as i32)
            }
            sys::UBLK_IO_OP_FLUSH => storage.flush().map(|()| 0),
            sys::UBLK_IO_OP_DISCARD => storage.discard(self.at, self.length).map(|()| 0),
            _ => Err(unknown()),
        }
    }
}
