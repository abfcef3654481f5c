// SPDX-License-Identifier: GPL-2.0
//! Files that a call carries.

use std::fs::File;
use std::os::fd::AsRawFd;

use binder_sys::BinderBufferObject;
use binder_sys::BinderFdArrayObject;
use binder_sys::BinderFdObject;
use binder_sys::BinderTransactionDataSg;
use binder_sys::ObjectType;
use binder_sys::Parcel;
use binder_sys::TransactionFlags;
use nix::sys::resource::setrlimit;
use nix::sys::resource::Resource;

use super::pointers::call_with_blocks;
use super::pointers::led;
use crate::error::Context;
use crate::error::Result;
use crate::growth::scene::Scene;
use crate::growth::service;
use crate::growth::service::Ask;

/// Enough for the largest number, twice.
const LIMIT: u64 = 4096;

/// One after the other.
pub fn of_one_call(scene: &mut Scene, count: u64) -> Result<()> {
    sent(scene, move |file, _| {
        let mut parcel = Parcel::new();
        for _ in 0..count {
            let fd = file.as_raw_fd() as u64;
            parcel.object(&BinderFdObject { kind: ObjectType::FD, fd, ..Default::default() });
        }
        (parcel, 0)
    })
}

/// In one array.
pub fn of_an_array(scene: &mut Scene, count: u64) -> Result<()> {
    sent(scene, move |file, memory| {
        memory.extend((0..count).map(|_| file.as_raw_fd() as u32));
        let (kind, length) = (ObjectType::PTR, count * 4);
        let mut parcel = led();
        parcel.object(&BinderBufferObject {
            kind,
            buffer: memory.as_ptr() as u64,
            length,
            ..Default::default()
        });
        parcel.object(&BinderFdArrayObject { kind: ObjectType::FDA, num_fds: count, ..Default::default() });
        (parcel, length.next_multiple_of(8))
    })
}

fn sent(scene: &mut Scene, make: impl FnOnce(&File, &mut Vec<u32>) -> (Parcel, u64) + 'static) -> Result<()> {
    setrlimit(Resource::RLIMIT_NOFILE, LIMIT, LIMIT).context("RLIMIT_NOFILE")?;
    let service = service::start(scene)?;
    let sender = scene.actor("sender of files", move |turns, device| {
        let mut talker = service::open(device)?;
        let file = File::open("/proc/self/exe").context("a file")?;
        let mut memory = Vec::with_capacity(LIMIT as usize);
        let (parcel, area) = make(&file, &mut memory);
        turns.pause()?;
        let data = parcel.to_handle(0, Ask::Keep as u32, TransactionFlags::ACCEPT_FDS);
        call_with_blocks(&mut talker, &BinderTransactionDataSg { data, buffers_size: area })?;
        turns.pause()?;
        service::ask(&mut talker, Ask::Free, &Parcel::new())?;
        turns.stop()
    })?;
    scene.turn("send", sender)?;
    scene.turn("free", sender)?;
    scene.kill("kill the receiver", service)
}
