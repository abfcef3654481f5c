// SPDX-License-Identifier: GPL-2.0

//! What a server does: it fetches requests, commits their results, and moves their data.

use crate::{
    device::Device,
    edge::{
        abi::{self, io, IoCommand},
        Committing, Data, Issued, Kept, Request, ServerData, Share, Slot, Values,
    },
    queue::{AutoBuffer, Queue},
};
use kernel::{prelude::*, sync::ArcBorrow};

/// The largest errno of the kernel.
const MAX_ERRNO: i32 = 4095;

/// A slot that a command names.
struct Target<'a> {
    queue: &'a Queue,
    slot: &'a Slot,
    tag: u16,
}

/// Runs a command of a server.
#[inline(always)]
pub(crate) fn run(device: &ArcBorrow<'_, Device>, issued: Issued<'_>) -> Result<Option<Kept>> {
    let number = issued.number()?;
    let command = issued.io();
    if number == io::UNREGISTER_BUFFER {
        unregister(device, &issued, command)?;
        return Ok(None);
    }
    let queue = device.queue(command.queue).ok_or(EINVAL)?;
    let slot = queue.slot(command.tag).ok_or(EINVAL)?;
    let target = Target {
        queue,
        slot,
        tag: command.tag,
    };
    match number {
        io::COMMIT_AND_FETCH => target.commit(issued, command).map(Some),
        io::FETCH => target.fetch(device, issued, command).map(Some),
        io::GET_DATA => target.get_data(issued, command),
        io::REGISTER_BUFFER => target.register(&issued, command).map(|()| None),
        _ => Err(EINVAL),
    }
}

fn unregister(device: &Device, issued: &Issued<'_>, command: IoCommand) -> Result {
    if !device.ways().zero_copy {
        return Err(EINVAL);
    }
    // CAST: As C, which takes the low bits.
    issued.unregister(command.address as u32)
}

/// Removes the buffer that the driver has registered for a request, if it was in this ring. In another
/// one, the server has to.
#[inline(always)]
fn drop_buffer(values: &mut Values, issued: &Issued<'_>) {
    let ring = core::mem::replace(&mut values.ring, 0);
    if ring != 0 && ring == issued.ring() {
        // The server may have removed it before.
        let _ = issued.unregister(AutoBuffer::of(values.address).index());
    }
}

impl Target<'_> {
    /// Takes the first command for the slot. May sleep.
    fn fetch(self, device: &Device, issued: Issued<'_>, command: IoCommand) -> Result<Kept> {
        let address = self.next_buffer(false, &issued, command)?;
        let context = issued.context();
        let (command, kept) = issued.keep(self.queue, self.tag);
        if let Err((errno, command)) = device.fetch(self.slot, command, address) {
            command.done(errno, context);
        }
        Ok(kept)
    }

    /// Returns the address for the next request. `EINVAL` if there is none, but the server had to pass
    /// one, as for the data of a read that it gives back, or the other way round.
    #[inline(always)]
    fn next_buffer(
        &self,
        ends_a_read: bool,
        issued: &Issued<'_>,
        command: IoCommand,
    ) -> Result<u64> {
        let ways = &self.queue.ways;
        let is_wrong = match command.address {
            0 => ways.copies && (!ways.needs_get_data || ends_a_read),
            _ => !ways.copies,
        };
        match ways.auto_buffers {
            _ if is_wrong => Err(EINVAL),
            true => AutoBuffer::checked(issued.address()),
            false => Ok(command.address),
        }
    }

    /// Takes the result of a request, and the command that waits for the next one.
    #[inline(always)]
    fn commit(self, issued: Issued<'_>, command: IoCommand) -> Result<Kept> {
        let mut committing = self.slot.commit(false)?;
        let data = committing.request().data();
        let address = match self.next_buffer(data == Data::FromServer, &issued, command) {
            Ok(address) => address,
            Err(error) => {
                committing.keep();
                return Err(error);
            }
        };
        // `LOST` is the driver's own.
        let mut result = command.result.max(-MAX_ERRNO);
        if self.queue.ways.copies && data == Data::FromServer && result > 0 {
            let size = committing.request().bytes().min(result as u32);
            // CAST: A request has at most 32 MiB.
            result = committing.request().copy_in(address, size) as i32;
        }
        if self.queue.ways.auto_buffers {
            drop_buffer(committing.values(), &issued);
        }
        committing.values().result = result;
        committing.values().address = address;
        let (share, kept) = self.wait_for_next(committing, issued);
        self.queue.end_share(self.tag, share);
        Ok(kept)
    }

    /// Lets the command wait for the next request. Returns the server's share of this one.
    #[inline(always)]
    fn wait_for_next<'a>(
        &self,
        committing: Committing<'a>,
        issued: Issued<'_>,
    ) -> (Share<'a>, Kept) {
        let context = issued.context();
        let (command, kept) = issued.keep(self.queue, self.tag);
        let share = committing.fetched(command);
        self.queue.end_if_leaving(self.tag, context);
        (share, kept)
    }

    /// Takes a buffer for the data of a write.
    fn get_data(self, issued: Issued<'_>, command: IoCommand) -> Result<Option<Kept>> {
        let mut committing = self.slot.commit(true)?;
        committing.values().address = command.address;
        let copied = committing.request().copy_out(command.address);
        if copied == 0 {
            let (share, kept) = self.wait_for_next(committing, issued);
            if let Some(ended) = share.end() {
                self.queue.policy.try_again(ended.request);
            }
            return Ok(Some(kept));
        }
        self.queue
            .descriptors
            .set_buffer(self.tag, command.address, copied >> abi::SECTOR_SHIFT);
        committing.keep();
        Ok(None)
    }

    /// Registers the request's memory as a buffer of a ring.
    #[inline(always)]
    fn register(self, issued: &Issued<'_>, command: IoCommand) -> Result {
        if !self.queue.ways.zero_copy {
            return Err(EINVAL);
        }
        let share = match self.slot.held() {
            Some(held) => held.share().ok_or(EINVAL)?,
            None if self.slot.is_of_task() => return Err(EBUSY),
            None => self.slot.borrow().ok_or(EINVAL)?,
        };
        let registered = match share.request().data() {
            Data::None => Err(EINVAL),
            // CAST: As C, which takes the low bits.
            _ => issued.register(share.request(), command.address as u32),
        };
        match registered {
            Ok(()) => share.give_to_buffer(),
            Err(_) => self.queue.end_share(self.tag, share),
        }
        registered
    }
}

/// Copies data of a request, which the position names, to or from its server. Returns how many
/// bytes were copied.
///
/// `EACCES` if the device does not do that, or for the wrong direction, and `EINVAL` if there is no
/// such request or byte.
pub(crate) fn transfer(device: &Device, position: i64, mut data: ServerData) -> Result<usize> {
    if !device.ways().user_copy {
        return Err(EACCES);
    }
    let position = u64::try_from(position)?
        .checked_sub(abi::DATA_POSITION)
        .ok_or(EINVAL)?;
    if position >> (abi::DATA_BITS + abi::TAG_BITS + abi::QUEUE_BITS) != 0 {
        return Err(EINVAL);
    }
    let bits = |shift: u32, count: u32| (position >> shift & ((1 << count) - 1)) as usize;
    let offset = bits(0, abi::DATA_BITS);
    // CAST: Of 16 and 12 bits.
    let tag = bits(abi::DATA_BITS, abi::TAG_BITS) as u16;
    let queue = bits(abi::DATA_BITS + abi::TAG_BITS, abi::QUEUE_BITS) as u16;
    let queue = device.queue(queue).ok_or(EINVAL)?;
    let slot = queue.slot(tag).ok_or(EINVAL)?;
    let check = |request: &Request| {
        if request.data() == Data::None || offset > request.bytes() as usize {
            Err(EINVAL)
        } else if request.data() != data.direction {
            Err(EACCES)
        } else {
            Ok(())
        }
    };
    if let Some(held) = slot.held() {
        check(held.request())?;
        return held.copy(&mut data, offset);
    }
    let share = slot.borrow().ok_or(EINVAL)?;
    let copied = match check(share.request()) {
        Ok(()) => share.copy(&mut data, offset),
        Err(error) => Err(error),
    };
    queue.end_share(tag, share);
    copied
}
