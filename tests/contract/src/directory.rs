// SPDX-License-Identifier: GPL-2.0
//! A context manager that gives each caller the nodes of earlier callers. The programs of syzkaller are one process each, which the driver lets
//! not call a manager of its own, so they find each other's nodes here.

use anyhow::Context;
use binder_sys::{
    BinderTransactionData, Commands, Device, FlatBinderObject, Mapping, ObjectFlags, ObjectType, Parcel,
    Return, Returns, TransactionFlags,
};
use std::path::Path;
use zerocopy::FromBytes;

const SPACE: usize = 1 << 20;
/// Nodes that are kept at most; the oldest goes for the newest.
const KEPT: usize = 3;

/// Serves until the driver refuses something.
pub fn serve(path: &Path) -> anyhow::Result<()> {
    let device = Device::open(path).context("opening the device")?;
    let space = device.map(SPACE)?;
    device.set_context_manager_ext(&FlatBinderObject::binder(0, 0).with_flags(ObjectFlags::ACCEPTS_FDS))?;
    let mut directory = Directory { space, kept: Vec::new(), commands: Commands::new() };
    let mut returns = [0; 4096];
    directory.commands.enter_looper();
    loop {
        let read = device.write_read_whole(directory.commands.as_bytes(), &mut returns)?;
        directory.commands.clear();
        for item in Returns::new(&returns[..read]) {
            directory.handle(&device, item.context("a return")?)?;
        }
    }
}

struct Directory {
    space: Mapping,
    kept: Vec<u32>,
    commands: Commands,
}

impl Directory {
    fn handle(&mut self, device: &Device, item: Return) -> anyhow::Result<()> {
        match item {
            Return::Transaction(call) => self.answer(device, &call)?,
            Return::Reply(reply) => drop(self.commands.free_buffer(reply.buffer)),
            Return::Increfs(node) => drop(self.commands.increfs_done(node.ptr, node.cookie)),
            Return::Acquire(node) => drop(self.commands.acquire_done(node.ptr, node.cookie)),
            Return::DeadBinder(handle) => {
                self.commands.dead_binder_done(handle);
                self.drop_handle(handle as u32);
            }
            _ => {}
        }
        Ok(())
    }

    fn drop_handle(&mut self, handle: u32) {
        if let Some(at) = self.kept.iter().position(|&kept| kept == handle) {
            self.kept.remove(at);
            self.commands.release(handle);
        }
    }

    fn answer(&mut self, device: &Device, call: &BinderTransactionData) -> anyhow::Result<()> {
        if let Some(handle) = self.named(call).filter(|handle| !self.kept.contains(handle)) {
            if self.kept.len() == KEPT {
                self.drop_handle(self.kept[0]);
            }
            self.kept.push(handle);
            self.commands.acquire(handle).request_death(handle, handle.into());
        }
        self.commands.free_buffer(call.buffer);
        if call.flags & TransactionFlags::ONE_WAY.bits() == 0 {
            let mut parcel = Parcel::new();
            for &handle in &self.kept {
                parcel.object(&FlatBinderObject::strong_handle(handle));
            }
            self.commands.reply(&parcel.to_caller(TransactionFlags::empty()));
            // The driver has to read the parcel before it goes.
            device.write_all(self.commands.as_bytes())?;
            self.commands.clear();
        }
        Ok(())
    }

    /// The handle in the first object of a call, if it has one.
    fn named(&self, call: &BinderTransactionData) -> Option<u32> {
        let offset = match call.offsets_size {
            0..8 => return None,
            _ => u64::read_from_bytes(&self.read(call.offsets, 8)?).ok()?,
        };
        let bytes = self.read(call.buffer.checked_add(offset)?, size_of::<FlatBinderObject>())?;
        let object = FlatBinderObject::read_from_bytes(&bytes).ok()?;
        (object.kind == ObjectType::HANDLE).then(|| object.handle())
    }

    fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        self.space.contains(address, length).then(|| self.space.read(address, length))
    }
}
