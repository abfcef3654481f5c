// SPDX-License-Identifier: GPL-2.0
//! The source of clients' handles: a context manager that keeps nodes by name.
//!
//! Nothing here is measured. Handle 0 is special to a driver, so servers are never called through it. Each registers
//! its node with a small manager process, where its client gets the handle, as with Android's service manager.

use std::collections::HashMap;

use binder_sys::{BinderTransactionData, Errno, FlatBinderObject, Parcel, TransactionFlags};

use crate::error::{Error, Kind, Result};
use crate::talk::Talker;

const REGISTER: u32 = 1;
const LOOK_UP: u32 = 2;

/// Names have this length, padded with zeros.
const NAME: usize = 32;

/// Becomes the context manager calls `ready`, and serves registrations and look-ups in a loop.
pub fn manage(mut talker: Talker, ready: impl FnOnce() -> Result<()>) -> Result<()> {
    become_manager(&talker)?;
    let mut handles = HashMap::new();
    talker.enter_looper()?;
    ready()?;
    loop {
        let call = talker.next_call()?;
        let answer = answer(&mut talker, &call, &mut handles)?;
        talker.finish_with(&call, &answer).flush()?;
    }
}

/// Takes the role, waiting out the release of a predecessor that has just died.
pub fn become_manager(talker: &Talker) -> Result<()> {
    for _ in 0..50 {
        match talker.port().device().set_context_manager() {
            Err(Errno::EBUSY) => std::thread::sleep(std::time::Duration::from_millis(10)),
            result => return result.map_err(|e| Error::from_path("cannot become context manager", e)),
        }
    }
    Err(Kind::NoBinder.error("the device has a context manager already: use --binderfs"))
}

fn answer(
    talker: &mut Talker,
    call: &BinderTransactionData,
    handles: &mut HashMap<[u8; NAME], u32>,
) -> Result<Parcel> {
    let mut answer = Parcel::new();
    match call.code {
        REGISTER => {
            let name = talker.port().part(call, 0)?;
            if let Some(old) = handles.insert(name, talker.hold(call, NAME as u64)?) {
                talker.out.release(old);
            }
        }
        LOOK_UP => {
            let known = handles.get(&talker.port().part::<NAME>(call, 0)?);
            let handle = known.ok_or_else(|| Error::failed("a service is not registered"))?;
            answer.object(&FlatBinderObject::strong_handle(*handle));
        }
        code => return Err(Error::failed(format!("the manager got the unknown code {code}"))),
    }
    Ok(answer)
}

pub fn register(talker: &mut Talker, name: &str, node: u64) -> Result<()> {
    let mut parcel = named(name)?;
    parcel.object(&FlatBinderObject::binder(node, node).with_flags(binder_sys::ObjectFlags::ACCEPTS_FDS));
    let reply = ask(talker, REGISTER, &parcel)?;
    talker.write(|out| out.free_buffer(reply.buffer))
}

/// Gets a handle, held strongly, on the node with a name.
pub fn look_up(talker: &mut Talker, name: &str) -> Result<u32> {
    let reply = ask(talker, LOOK_UP, &named(name)?)?;
    let handle = talker.hold(&reply, 0)?;
    talker.write(|out| out.free_buffer(reply.buffer))?;
    Ok(handle)
}

fn ask(talker: &mut Talker, code: u32, parcel: &Parcel) -> Result<BinderTransactionData> {
    let reply = talker.call(&parcel.to_handle(0, code, TransactionFlags::ACCEPT_FDS))?;
    // The last requested counts must be confirmed also when the answer came with them.
    talker.flush()?;
    Ok(reply)
}

fn named(name: &str) -> Result<Parcel> {
    let mut padded = [0; NAME];
    let place = padded.get_mut(..name.len());
    place
        .ok_or_else(|| Error::failed(format!("{name} is too long a name")))?
        .copy_from_slice(name.as_bytes());
    let mut parcel = Parcel::new();
    parcel.bytes(&padded);
    Ok(parcel)
}
