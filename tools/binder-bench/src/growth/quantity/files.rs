// SPDX-License-Identifier: GPL-2.0
//! Files that a call carries.

use std::fs::File;
use std::os::fd::AsRawFd;

use binder_sys::BinderBufferObject;
use binder_sys::BinderFdArrayObject;
use binder_sys::BinderFdObject;
use binder_sys::ObjectType;
use binder_sys::Parcel;

use super::limits::allow_files;
use super::pointers::led;
use super::pointers::sent;
use crate::error::Context;
use crate::error::Result;
use crate::growth::scene::Scene;

/// One after the other.
pub fn of_one_call(scene: &mut Scene, count: u64) -> Result<()> {
    allow_files()?;
    sent(scene, move || {
        let file = file()?;
        let mut parcel = Parcel::new();
        for _ in 0..count {
            let fd = file.as_raw_fd() as u64;
            parcel.object(&BinderFdObject { kind: ObjectType::FD, fd, ..Default::default() });
        }
        Ok((parcel, 0, file))
    })
}

/// In one array.
pub fn of_an_array(scene: &mut Scene, count: u64) -> Result<()> {
    allow_files()?;
    sent(scene, move || {
        let file = file()?;
        // Two descriptors, of 32 bits each, in a word.
        let memory = vec![file.as_raw_fd() as u64 * (1 + (1 << 32)); count.div_ceil(2) as usize];
        let (kind, buffer, length) = (ObjectType::PTR, memory.as_ptr() as u64, count * 4);
        let mut parcel = led();
        parcel.object(&BinderBufferObject { kind, buffer, length, ..Default::default() });
        parcel.object(&BinderFdArrayObject { kind: ObjectType::FDA, num_fds: count, ..Default::default() });
        Ok((parcel, length.next_multiple_of(8), (memory, file)))
    })
}

fn file() -> Result<File> {
    File::open("/proc/self/exe").context("a file")
}
