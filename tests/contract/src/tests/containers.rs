// SPDX-License-Identifier: GPL-2.0
//! binderfs in containers, as podman sets them up for an ordinary user and systemd-nspawn for root:
//! its functions in one, and the effects of one on others.

use super::binderfs::names;
use super::options::stat;
use super::*;
use crate::containers::{
    self, as_user, become_user, Users, OF_ROOT, OF_ROOT_OTHER, ROOTLESS, ROOTLESS_OTHER,
};
use binder_sys::mounting::Mount;
use std::os::fd::AsFd;

case!(rootless, ["BFS-1", "BFS-2", "BFS-7"], |t| works(t, ROOTLESS));
case!(of_root, ["BFS-1", "BFS-2", "BFS-7"], |t| works(t, OF_ROOT));

/// A call between two processes on the device of this path, the one as the given user.
fn call(device: &Path, user: u32) {
    let manager = Device::open(device).expect("open");
    let space = manager.map(1 << 16).expect("map");
    manager.set_context_manager().expect("become context manager");
    let caller = child::spawn(|| {
        become_user(user);
        let device = Device::open(device).expect("open as a client");
        device.map(1 << 16).map(std::mem::forget).expect("map");
        let parcel = bytes(b"hello");
        let call = parcel.to_handle(0, 1, TransactionFlags::ONE_WAY);
        device.write_all(stream(|c| c.transaction(&call)).as_bytes()).expect("call");
        nix::unistd::pause();
    });
    manager.write_all(stream(|c| c.enter_looper()).as_bytes()).expect("enter");
    let mut buffer = [0u8; 256];
    let call = loop {
        let io = manager.write_read(&[], &mut buffer).expect("read");
        let mut told = Returns::new(&buffer[..io.read_consumed as usize]).map_while(Result::ok);
        if let Some(call) = told.find_map(|item| call_of(&item)) {
            break call;
        }
    };
    assert_eq!(call.sender_euid, user, "as it is called here");
    assert_eq!(space.read(call.buffer, call.data_size as usize)[..5], *b"hello");
    end(caller);
}

fn works(t: &Stage, users: Users) {
    containers::run(&t.directory("container"), users, |path| {
        mount_at(path, None).expect("mount");
        assert_eq!(names(path).len(), 5);
        let device = path.join("binder");
        assert_eq!(stat(&device), (0o600, 0, 0));
        call(&device, 0);
        add_device(path, "extra").expect("add");
        chown(path.join("extra"), None, Some(33)).expect("chown");
        std::fs::set_permissions(path.join("extra"), Permissions::from_mode(0o660)).expect("chmod");
        call(&path.join("extra"), 33);
        umount(path).expect("umount");
    });
}

case!(options_in_a_container, ["BFS-2", "BFS-4", "BFS-13"], |t| {
    if super::options::mounted(t, "there", &[("mode", "660")]).is_none() {
        return;
    }
    containers::run(&t.directory("container"), ROOTLESS, |path| {
        let options = "mode=660,uid=0,gid=33,devices=binder:hwbinder:vndbinder:anbox-binder";
        mount_at(path, Some(options)).expect("mount");
        assert_eq!(stat(&path.join("anbox-binder")), (0o660, 0, 33));
        call(&path.join("anbox-binder"), 0);
        as_user(33, || {
            assert_eq!(Device::open(&path.join("binder")).expect("open").version(), Ok(8));
            assert_eq!(add_device(path, "extra").err(), Some(Errno::EACCES));
        });
        std::fs::remove_file(path.join("vndbinder")).expect("its owner may");
    });
});

case!(do_not_see_each_others_devices, ["BFS-1", "BFS-14"], |t| {
    kernel_namespaces::need(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID);
    let place = t.directory("container");
    child::ready(|ready| {
        containers::run(&place, ROOTLESS, |path| {
            mount_at(path, None).expect("mount");
            add_device(path, "secret").expect("add");
            let manager = Device::open(&path.join("binder")).expect("open");
            manager.set_context_manager().expect("manage");
            ready();
            nix::unistd::pause();
        });
    });
    for users in [ROOTLESS, ROOTLESS_OTHER, OF_ROOT] {
        containers::run(&place, users, |path| {
            mount_at(path, None).expect("mount");
            assert!(!path.join("secret").exists());
            assert_eq!(names(path).len(), 5);
            call(&path.join("binder"), 0);
        });
    }
    assert!(!t.device("secret").exists());
});

fn add(path: &Path, count: usize) {
    for number in 0..count {
        add_device(path, &format!("extra{number}")).expect("add");
    }
}

/// Mounts, and adds devices until that fails; returns the number of devices.
fn fill(path: &Path) -> usize {
    match mount_at(path, None) {
        Err(Errno::ENOSPC) => return 0,
        other => other.expect("mount"),
    }
    let refusal = (0..).find_map(|number| add_device(path, &format!("extra{number}")).err());
    assert_eq!(refusal, Some(Errno::ENOSPC));
    names(path).iter().filter(|name| path.join(name).metadata().expect("stat").rdev() != 0).count() - 1
}

const MOST: u32 = 10;

/// Limits the devices of a user, if the driver can.
fn limited(t: &Stage) -> Option<Limit> {
    kernel_namespaces::need(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID);
    let before = std::fs::read_to_string(t.driver.parameter("max_user_devices")).unwrap_or_default();
    let limit = Limit::set(t, "max_user_devices", MOST)?;
    assert_eq!(before, "4096\n", "the default");
    Some(limit)
}

/// Starts a container that has as many devices as it can get until the end of the test.
fn full(t: &Stage, place: &str, users: Users, wanted: usize) {
    let place = t.directory(place);
    child::ready(|ready| {
        containers::run(&place, users, |path| {
            assert_eq!(fill(path), wanted, "{users:?}");
            ready();
            nix::unistd::pause();
        });
    });
}

case!(one_user_has_so_many_devices, ["BFS-3", "BFS-6"], |t| {
    let Some(limit) = limited(t) else { return };
    full(t, "first", ROOTLESS, 10);
    // Another container of the same user gets nothing, not even the devices that a mount starts with.
    containers::run(&t.directory("second"), ROOTLESS, |path| {
        assert_eq!(fill(path), 0);
        let refusal = binder_sys::mounting::Mounting::new().expect("fsopen").create().expect_err("mount");
        assert_eq!(refusal.errno, Errno::ENOSPC);
        assert_eq!(refusal.messages, ["binder: no device number is left for 'binder': see max_user_devices"]);
        mount_at(path, Some("devices=")).expect("a mount without devices needs none");
    });
    // Others do not notice.
    containers::run(&t.directory("second"), ROOTLESS_OTHER, |path| assert_eq!(fill(path), 10));
    containers::run(&t.directory("second"), OF_ROOT, |path| assert_eq!(fill(path), 10));
    limit.change(14);
    containers::run(&t.directory("second"), ROOTLESS, |path| assert_eq!(fill(path), 4));
    limit.change(0);
    containers::run(&t.directory("second"), ROOTLESS, |path| {
        mount_at(path, Some("max=20")).expect("mount");
        add(path, 17);
    });
});

case!(namespaces_within_count_for_their_user, ["BFS-3", "BFS-6"], |t| {
    let Some(_limit) = limited(t) else { return };
    containers::run(&t.directory("container"), ROOTLESS, |path| {
        mount_at(path, None).expect("mount");
        // As another user of the container, in namespaces below it: all of it is the same user outside.
        as_user(33, || {
            unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).expect("unshare");
            std::fs::write("/proc/self/uid_map", "0 33 1").expect("uid_map");
            assert_eq!(fill(Path::new("/tmp")), 7);
        });
        assert_eq!(fill(Path::new("/tmp")), 7, "what was within is gone");
        assert_eq!(add_device(path, "extra").err(), Some(Errno::ENOSPC));
    });
});

case!(each_container_of_root_has_as_many, ["BFS-3", "BFS-6"], |t| {
    let Some(_limit) = limited(t) else { return };
    full(t, "first", OF_ROOT, 10);
    full(t, "second", OF_ROOT_OTHER, 10);
    full(t, "third", ROOTLESS, 10);
});

case!(devices_come_back, ["BFS-3", "BFS-6", "BFS-10"], |t| {
    let Some(_limit) = limited(t) else { return };
    containers::run(&t.directory("container"), ROOTLESS, |path| {
        for _ in 0..5 {
            assert_eq!(fill(path), 10);
            umount(path).expect("umount");
            // A device that is open keeps its number, and its mount.
            mount_at(path, None).expect("mount");
            let open = Device::open(&path.join("binder")).expect("open");
            std::fs::remove_file(path.join("binder")).expect("unlink");
            add(path, 7);
            assert_eq!(add_device(path, "more").err(), Some(Errno::ENOSPC));
            drop(open);
            add_device(path, "more").expect("the number is back");
            umount(path).expect("umount");
        }
    });
});

case!(root_of_the_machine_has_any_number, ["BFS-3", "BFS-6"], |t| {
    let Some(_limit) = limited(t) else { return };
    add(t.root(), 20);
});

case!(mapped_mount, ["BFS-1", "BFS-2", "BFS-8"], |t| {
    let namespace = containers::namespace(Users { maker: 0, map: "0 1000 10\n" });
    let place = t.directory("mapped");
    let mount = Mount::of(t.root()).expect("clone the mount");
    let mapped = mount.map_owners(namespace.as_fd());
    if t.driver != Driver::Rust {
        assert_eq!(mapped, Err(Errno::EINVAL));
        t.known_difference(t.driver, "mounts cannot be mapped", false);
        return;
    }
    mapped.expect("map the owners");
    mount.move_to(&place).expect("mount it");
    assert_eq!(stat(&place.join("binder")), (0o600, 1000, 1000), "root of the instance is user 1000 here");
    assert_eq!(stat(&place), (0o755, 1000, 1000));
    assert_eq!(stat(&t.device("binder")), (0o600, 0, 0), "and root where it is not mapped");
    as_user(1000, || {
        assert_eq!(Device::open(&place.join("binder")).expect("open").version(), Ok(8));
        assert_eq!(Device::open(&t.device("binder")).err(), Some(Errno::EACCES));
        add_device(&place, "added").expect("it may open binder-control");
        assert_eq!(stat(&place.join("added")), (0o600, 1000, 1000));
        std::fs::rename(place.join("added"), place.join("renamed")).expect("the directory is its own");
        std::fs::remove_file(place.join("vndbinder")).expect("unlink");
    });
    assert_eq!(stat(&t.device("renamed")), (0o600, 0, 0), "root of the instance owns what is added");
    chown(place.join("renamed"), Some(1009), None).expect("the last one that is mapped");
    assert_eq!(stat(&t.device("renamed")).1, 9);
    let beyond = chown(place.join("renamed"), Some(1010), None);
    assert_eq!(beyond.map_err(|error| error.raw_os_error()), Err(Some(Errno::EOVERFLOW as i32)));
    // A device whose owner is not mapped in the mount is for root alone: its mode is 0600.
    chown(t.device("renamed"), Some(5000), None).expect("chown");
    assert_eq!(stat(&place.join("renamed")).1, 65534);
    as_user(1000, || {
        assert_eq!(Device::open(&place.join("renamed")).err(), Some(Errno::EACCES));
    });
});

case!(mapped_mount_in_a_container, ["BFS-1", "BFS-2"], |t| {
    let is_ours = t.driver == Driver::Rust;
    if !t.ours_alone("mounts cannot be mapped", is_ours) {
        return;
    }
    containers::run(&t.directory("container"), ROOTLESS, |path| {
        mount_at(path, None).expect("mount");
        let namespace = containers::namespace(Users { maker: 0, map: "0 33 1\n" });
        let mount = Mount::of(path).expect("clone the mount");
        mount.map_owners(namespace.as_fd()).expect("its root rules the instance");
        mount.move_to("/tmp").expect("mount it");
        let device = Path::new("/tmp/binder");
        assert_eq!(stat(device), (0o600, 33, 33));
        as_user(33, || {
            call(device, 33);
            assert_eq!(Device::open(&path.join("binder")).err(), Some(Errno::EACCES));
        });
    });
});

// Each place fails once. All devices made until then are given back, or the limit is soon reached.
case!(mounted_without_memory, ["BFS-1", "BFS-6"], |t| {
    super::faults::can_fail(t);
    let is_ours = t.driver == Driver::Rust;
    let _limit = if is_ours { limited(t) } else { None };
    let options = is_ours.then_some("max=20,uid=0,gid=0,mode=666,control_mode=640,devices=a:b:c");
    containers::run(&t.directory("container"), ROOTLESS, |path| {
        super::faults::each_place(|nth| {
            let (result, is_hit) = with_a_failure(nth, || mount_at(path, options)).expect("fail-nth");
            match result {
                Ok(()) => umount(path).expect("umount"),
                Err(errno) => {
                    assert!([Errno::ENOMEM, Errno::EFAULT].contains(&errno), "{errno} at place {nth}")
                }
            }
            is_hit
        });
        mount_at(path, options).expect("mount");
        add(path, if is_ours { MOST as usize - 3 } else { 1 });
        assert_eq!(
            add_device(path, "more").err(),
            is_ours.then_some(Errno::ENOSPC),
            "nothing counts but what there is"
        );
    });
});
