// SPDX-License-Identifier: GPL-2.0
//! Containers as podman and systemd-nspawn set them up: namespaces of their own, mapped ids, and a
//! root directory from which nothing else can be reached.

use crate::child;
use crate::kernel_namespaces;
use nix::errno::Errno;
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{unshare, CloneFlags};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::{chdir, chroot, getpid, pivot_root, setgroups, setresgid, setresuid, Gid, Uid};
use std::path::Path;

/// The machine's users in a container.
#[derive(Clone, Copy, Debug)]
pub struct Users {
    /// Its creator.
    pub maker: u32,
    /// The lines of its map: a number inside, one outside, how many.
    pub map: &'static str,
}

/// As podman maps it for an ordinary user, with the subordinate ids of that user.
pub const ROOTLESS: Users = Users { maker: 1000, map: "0 1000 1\n1 100000 65535\n" };

/// As podman maps it for another ordinary user.
pub const ROOTLESS_OTHER: Users = Users { maker: 1001, map: "0 1001 1\n1 200000 65535\n" };

/// As systemd-nspawn maps it: root makes it, and is not in it.
pub const OF_ROOT: Users = Users { maker: 0, map: "0 300000 65536\n" };

/// Another one of root.
pub const OF_ROOT_OTHER: Users = Users { maker: 0, map: "0 400000 65536\n" };

/// Becomes root of new user, mount, pid and IPC namespaces.
pub fn enter(users: Users) {
    let namespaces = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC;
    kernel_namespaces::need(namespaces);
    let container = getpid();
    let (from, to) = nix::unistd::pipe().expect("a pipe");
    let root_of_the_machine = child::spawn(|| {
        assert_eq!(nix::unistd::read(&from, &mut [0]), Ok(1));
        write_maps(container, users);
    });
    become_user(users.maker);
    unshare(namespaces).expect("unshare");
    nix::unistd::write(&to, b"u").expect("report that it is done");
    assert_eq!(waitpid(root_of_the_machine, None), Ok(WaitStatus::Exited(root_of_the_machine, 0)));
    setgroups(&[]).expect("drop other groups");
    become_user(0);
}

/// Starts a process that keeps a user namespace with this map as long as the returned descriptor.
pub fn namespace(users: Users) -> std::fs::File {
    kernel_namespaces::need(CloneFlags::CLONE_NEWUSER);
    let holder = child::ready(|ready| {
        unshare(CloneFlags::CLONE_NEWUSER).expect("unshare");
        ready();
        nix::unistd::pause();
    });
    write_maps(holder, users);
    let file = std::fs::File::open(format!("/proc/{holder}/ns/user")).expect("the namespace");
    child::end(holder).expect("it waited");
    file
}

fn write_maps(of: nix::unistd::Pid, users: Users) {
    std::fs::write(format!("/proc/{of}/uid_map"), users.map).expect("uid_map");
    std::fs::write(format!("/proc/{of}/gid_map"), users.map).expect("gid_map");
}

/// Becomes this user, and a group of the same number.
pub fn become_user(user: u32) {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setresgid(gid, gid, gid).expect("change the group");
    setresuid(uid, uid, uid).expect("change the user");
    // The change of user made the process undumpable, and its map files root's.
    nix::sys::prctl::set_dumpable(true).expect("be dumpable");
}

/// Runs a closure in a child as this user; its panic becomes the caller's.
pub fn as_user(user: u32, what: impl FnOnce()) {
    child::run(|| {
        become_user(user);
        what();
    });
}

/// Runs a closure as the first process of a container. Its root directory has `/proc` and an empty
/// `/binderfs` of its own.
pub fn run(place: &Path, users: Users, what: impl FnOnce(&Path)) {
    child::run(|| {
        enter(users);
        child::run(|| {
            change_root(place);
            what(Path::new("/binderfs"));
        });
    });
}

fn change_root(place: &Path) {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private mounts");
    mount(Some("root"), place, Some("tmpfs"), MsFlags::empty(), none).expect("a root directory");
    for name in ["proc", "binderfs", "tmp"] {
        std::fs::create_dir(place.join(name)).expect("make a directory");
    }
    mount(Some("proc"), &place.join("proc"), Some("proc"), MsFlags::empty(), none).expect("proc");
    chdir(place).expect("go there");
    match pivot_root(".", ".") {
        // The first filesystem of a machine is never left, only covered.
        Err(Errno::EINVAL) => {
            mount(Some("."), "/", none, MsFlags::MS_MOVE, none).expect("cover the old root");
            chroot(".").expect("chroot");
        }
        other => {
            other.expect("pivot_root");
            umount2(".", MntFlags::MNT_DETACH).expect("leave the old root");
        }
    }
    chdir("/").expect("go to the root");
}
