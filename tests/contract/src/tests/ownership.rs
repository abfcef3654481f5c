// SPDX-License-Identifier: GPL-2.0
//! Rights to open, change, rename and remove the devices of a mount: the VFS derives them from the
//! owners and modes of the devices and of the directory, with every driver alike.

use super::binderfs::names;
use super::options::stat;
use super::*;
use crate::containers::{self, as_user, become_user};
use nix::fcntl::OFlag;
use std::fs::set_permissions;
use std::io::Result;

const USER: u32 = 1000;

#[track_caller]
fn fails(result: Result<()>, errno: Errno) {
    assert_eq!(result.map_err(|error| error.raw_os_error()), Err(Some(errno as i32)));
}

fn chmod(path: &Path, mode: u32) -> Result<()> {
    set_permissions(path, Permissions::from_mode(mode))
}

fn opened(path: &Path) -> nix::Result<i32> {
    Device::open(path)?.version()
}

case!(rights_are_checked_when_it_is_opened, ["BFS-8", "OPEN-1"], |t| {
    let path = t.device("binder");
    let by_user = |errno: Option<Errno>, flags| {
        as_user(USER, || {
            assert_eq!(Device::open_with(&path, flags).err(), errno);
        });
    };
    by_user(Some(Errno::EACCES), OFlag::O_RDONLY);
    chmod(&path, 0o604).expect("chmod");
    by_user(None, OFlag::O_RDONLY);
    by_user(Some(Errno::EACCES), OFlag::O_RDWR);
    chmod(&path, 0o660).expect("chmod");
    chown(&path, None, Some(USER)).expect("chown");
    by_user(None, OFlag::O_RDWR);
    chmod(&path, 0o600).expect("chmod");
    by_user(Some(Errno::EACCES), OFlag::O_RDWR);
    // An open device stays usable.
    chmod(&path, 0o666).expect("chmod");
    child::run(|| {
        let device = Device::open(&path).expect("open");
        chmod(&path, 0).expect("chmod");
        become_user(USER);
        assert_eq!(device.version(), Ok(8));
    });
});

case!(directory_can_be_given_away, ["BFS-9"], |t| {
    let (path, renamed) = (t.device("binder"), t.device("renamed"));
    chown(t.root(), Some(USER), None).expect("chown");
    as_user(USER, || {
        std::fs::rename(&path, &renamed).expect("rename");
        assert_eq!(opened(&renamed), Err(Errno::EACCES), "the device is still root's");
        std::fs::remove_file(&renamed).expect("unlink");
        fails(std::fs::remove_file(t.device("binder-control")), Errno::EPERM);
        fails(std::fs::rename(t.device("binder-control"), &renamed), Errno::EPERM);
        fails(std::fs::remove_file(t.device("features/extended_error")), Errno::EACCES);
    });
    // In a directory for everybody, a user cannot remove another user's devices.
    chown(t.root(), Some(0), None).expect("chown");
    chmod(t.root(), 0o1777).expect("chmod");
    as_user(USER, || {
        fails(std::fs::remove_file(t.device("hwbinder")), Errno::EPERM);
    });
    assert_eq!(names(t.root()).len(), 4);
});

case!(control_can_be_given_away, ["BFS-7"], |t| {
    chown(t.device("binder-control"), Some(USER), None).expect("chown");
    as_user(USER, || {
        add_device(t.root(), "own").expect("add, in a directory of root");
        assert_eq!(opened(&t.device("own")), Err(Errno::EACCES), "it is root's all the same");
        fails(std::fs::remove_file(t.device("own")), Errno::EACCES);
    });
    assert_eq!(stat(&t.device("own")), (0o600, 0, 0));
});

case!(attributes_outlive_a_rename, ["BFS-9", "BFS-10"], |t| {
    let (path, renamed) = (t.device("binder"), t.device("renamed"));
    chown(&path, Some(USER), Some(7)).expect("chown");
    chmod(&path, 0o640).expect("chmod");
    std::fs::rename(&path, &renamed).expect("rename");
    assert_eq!(stat(&renamed), (0o640, USER, 7));
    add_device(t.root(), "binder").expect("add");
    assert_eq!(stat(&path), (0o600, 0, 0));
});

case!(of_a_read_only_mount, ["BFS-7", "BFS-9"], |t| {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    mount(None::<&str>, t.root(), None::<&str>, flags, None::<&str>).expect("remount");
    assert_eq!(opened(&t.device("binder")), Ok(8), "a device is no file of the mount");
    fails(chmod(&t.device("binder"), 0o666), Errno::EROFS);
    fails(chown(t.device("binder"), Some(USER), None), Errno::EROFS);
    fails(std::fs::remove_file(t.device("binder")), Errno::EROFS);
    fails(std::fs::rename(t.device("binder"), t.device("renamed")), Errno::EROFS);
    add_device(t.root(), "added").expect("neither is binder-control");
});

case!(without_devices_by_the_mount, ["BFS-1", "OPEN-1"], |t| {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NODEV;
    mount(None::<&str>, t.root(), None::<&str>, flags, None::<&str>).expect("remount");
    assert_eq!(opened(&t.device("binder")), Err(Errno::EACCES));
    assert_eq!(add_device(t.root(), "added").err(), Some(Errno::EACCES));
});

case!(of_a_user_namespace, ["BFS-2", "BFS-9"], |t| {
    containers::run(&t.directory("container"), containers::ROOTLESS, |path| {
        mount_at(path, None).expect("mount");
        let (device, renamed) = (path.join("binder"), path.join("renamed"));
        assert_eq!(stat(&device), (0o600, 0, 0));
        chmod(&device, 0o660).expect("its root may");
        chown(&device, Some(9), Some(8)).expect("its root may");
        fails(chown(&device, Some(65536), None), Errno::EINVAL);
        assert_eq!(stat(&device), (0o660, 9, 8));
        assert_eq!(stat(path), (0o755, 0, 0), "the directory is its root's, too");
        as_user(9, || {
            assert_eq!(opened(&device), Ok(8));
            assert_eq!(opened(&path.join("hwbinder")), Err(Errno::EACCES));
        });
        std::fs::rename(&device, &renamed).expect("rename");
        std::fs::remove_file(&renamed).expect("unlink");
        fails(std::fs::remove_file(path.join("binder-control")), Errno::EPERM);
    });
});
