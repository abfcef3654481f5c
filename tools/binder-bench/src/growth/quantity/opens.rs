// SPDX-License-Identifier: GPL-2.0
//! Devices, binder processes, processes that wait with poll, and those that listen to reports.

use std::path::PathBuf;

use binder_sys::netlink::Listener;
use nix::mount::umount;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::growth::scene::Scene;
use crate::growth::service::{self, allow_files, OPERATIONS};
use crate::prelude::*;

/// The device opened again and again.
pub fn processes(scene: &mut Scene, count: u64) -> Result<()> {
    allow_files()?;
    let service = service::start(scene)?;
    let pid = scene.pid(service).as_raw() as u32;
    let opener = scene.actor("opener", move |turns, device| {
        turns.pause()?;
        let mut open = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let file = Device::open(device).context("opening the device once more")?;
            file.version().context("BINDER_VERSION")?;
            open.push(file);
        }
        turns.pause()?;
        drop(open);
        Ok(())
    })?;
    let client = scene.actor("client", move |turns, device| {
        let mut talker = service::open(device)?;
        turns.pause()?;
        service::call(&mut talker, OPERATIONS)?;
        turns.pause()?;
        for _ in 0..OPERATIONS {
            for enable in [true, false] {
                talker.port().device().freeze(pid, enable, 0).context("BINDER_FREEZE")?;
            }
        }
        turns.pause()?;
        for _ in 0..OPERATIONS {
            service::open(device)?;
        }
        Ok(talker)
    })?;
    scene.turn("open", opener)?;
    scene.turn_of("call", OPERATIONS, client)?;
    scene.turn_of("freeze and thaw", OPERATIONS, client)?;
    scene.turn_of("open and close one", OPERATIONS, client)?;
    scene.turn("close", opener)
}

/// Devices of one binderfs.
pub fn devices(scene: &mut Scene, count: u64) -> Result<()> {
    let actor = scene.actor("maker of devices", move |turns, _| {
        let directory = PathBuf::from("/tmp/growing-binderfs");
        std::fs::create_dir_all(&directory).context("a directory")?;
        binder_sys::fs::mount_at(&directory, None).context("mounting binderfs")?;
        let names: Vec<String> = (0..count).map(|number| format!("device-{number}")).collect();
        turns.pause()?;
        for name in &names {
            binder_sys::fs::add_device(&directory, name).context("BINDER_CTL_ADD")?;
        }
        turns.pause()?;
        for round in 0..OPERATIONS {
            Device::open(&directory.join(&names[(round * 31 % count) as usize]))
                .context("opening a device")?;
        }
        turns.pause()?;
        for name in &names[..names.len() / 2] {
            std::fs::remove_file(directory.join(name)).context("removing a device")?;
        }
        turns.pause()?;
        umount(&directory).context("umount")
    })?;
    scene.turn("add", actor)?;
    scene.turn_of("open and close", OPERATIONS, actor)?;
    scene.turn("remove half of them", actor)?;
    scene.turn("unmount", actor)
}

/// Sets of epoll that all watch one device.
pub fn pollers(scene: &mut Scene, count: u64) -> Result<()> {
    allow_files()?;
    let server = scene.actor("polling server", move |turns, device| {
        let mut talker = service::manage(device)?;
        turns.pause()?;
        let mut sets = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll_create")?;
            set.add(talker.port().device(), EpollEvent::new(EpollFlags::EPOLLIN, 0)).context("epoll_ctl")?;
            sets.push(set);
        }
        turns.ready()?;
        for _ in 0..OPERATIONS {
            sets[0].wait(&mut [EpollEvent::empty()], EpollTimeout::NONE).context("epoll_wait")?;
            let call = talker.next_call()?;
            talker.out.free_buffer(call.buffer);
            talker.out.reply(&Parcel::new().to_caller(Default::default()));
            talker.exchange()?;
            while talker.arrived()?.is_some() {}
        }
        Ok((talker, sets))
    })?;
    let client = service::client(scene, OPERATIONS)?;
    scene.turn("watch", server)?;
    scene.turn_of("call", OPERATIONS, client)?;
    scene.kill("kill the server", server)
}

/// Sockets that get a report of each failing call.
pub fn listeners(scene: &mut Scene, count: u64) -> Result<()> {
    allow_files()?;
    let listener = scene.actor("listener", move |turns, _| {
        turns.pause()?;
        let join = |_| Listener::join("binder", "report").context("joining the group of reports");
        let joined = (0..count).map(join).collect::<Result<Option<Vec<_>>>>()?;
        let joined = joined.ok_or_else(|| Error::failed("this driver reports nothing"))?;
        turns.pause()?;
        drop(joined);
        Ok(())
    })?;
    let client = scene.actor("client", move |turns, device| {
        let mut talker = service::manage(device)?;
        turns.pause()?;
        for _ in 0..OPERATIONS {
            let to_nobody = Parcel::new().to_handle(NO_HANDLE, 0, Default::default());
            talker.call(&to_nobody).expect_err("nobody has that handle");
        }
        Ok(talker)
    })?;
    scene.turn("listen", listener)?;
    scene.turn_of("fail to call", OPERATIONS, client)?;
    scene.turn("leave", listener)
}

/// One that nobody has.
const NO_HANDLE: u32 = 1 << 20;
