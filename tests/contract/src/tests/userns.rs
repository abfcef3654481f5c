// SPDX-License-Identifier: GPL-2.0
//! binderfs mounted by those who are root only in a user namespace of their own.

use super::*;
use crate::kernel_namespaces;
use binder_sys::fs::{add_device, mount_at};
use nix::sched::unshare;
use nix::unistd::{setresgid, setresuid, Gid, Uid};
use std::os::unix::fs::MetadataExt;

/// Becomes root in new user, mount and IPC namespaces, as an ordinary user of the machine.
fn enter(t: &Stage) -> std::path::PathBuf {
    kernel_namespaces::need(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWIPC);
    let path = t.directory("userns");
    std::os::unix::fs::chown(&path, Some(1000), Some(1000)).expect("chown");
    setresgid(Gid::from_raw(1000), Gid::from_raw(1000), Gid::from_raw(1000)).expect("drop the group");
    setresuid(Uid::from_raw(1000), Uid::from_raw(1000), Uid::from_raw(1000)).expect("drop the user");
    // The change of user made the process undumpable, and its map files root's.
    nix::sys::prctl::set_dumpable(true).expect("be dumpable");
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC).expect("unshare");
    std::fs::write("/proc/self/setgroups", "deny").expect("setgroups");
    std::fs::write("/proc/self/uid_map", "0 1000 1").expect("uid_map");
    std::fs::write("/proc/self/gid_map", "0 1000 1").expect("gid_map");
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private mounts");
    path
}

case!(mount_and_use, ["BFS-1", "BFS-2", "BFS-3"], |t| {
    child::run(|| {
        let path = enter(t);
        mount_at(&path, None).expect("mount in a user namespace");
        let stat = path.join("binder").metadata().expect("the device");
        assert_eq!((stat.uid(), stat.gid()), (0, 0), "root of this namespace owns the devices");
        let device = Device::open(&path.join("binder")).expect("the device is usable");
        assert_eq!(device.version(), Ok(8));
        add_device(&path, "extra").expect("add a device");
        assert_eq!(Device::open(&path.join("extra")).expect("open").version(), Ok(8));
    });
});

case!(statistics_need_the_real_root, ["BFS-4", "LSM-2"], |t| {
    child::run(|| {
        let path = enter(t);
        assert_eq!(mount_at(&path, Some("stats=global")), Err(Errno::EPERM));
        mount_at(&path, Some("max=10")).expect("other options need nothing");
    });
});

case!(another_user_cannot_reach_the_devices, ["BFS-7", "BFS-8"], Stage::needs_new_devices, |t, ()| {
    child::run(|| {
        setresuid(Uid::from_raw(1000), Uid::from_raw(1000), Uid::from_raw(1000)).expect("drop the user");
        assert_eq!(Device::open(&t.device("binder")).err(), Some(Errno::EACCES));
        assert_eq!(Device::open(&t.device("binder-control")).err(), Some(Errno::EACCES));
    });
});
