// SPDX-License-Identifier: GPL-2.0
//! binderfs: what a mount contains, its options, and adding, removing and renaming devices.

use super::*;
use binder_sys::fs::add_device_raw;
use nix::fcntl::{renameat2, OFlag, RenameFlags, AT_FDCWD};
use nix::sys::stat::{mknod, Mode, SFlag};
use std::io::ErrorKind::PermissionDenied;
use std::os::unix::fs::{FileExt, FileTypeExt};

case!(add_fault, ["BFS-7"], |t| assert_eq!(control(t).ioctl_fault(BINDER_CTL_ADD), Err(Errno::EFAULT)));

/// A second mount beside the stage's.
pub(super) fn another(t: &Stage, name: &str, options: Option<&str>) -> nix::Result<PathBuf> {
    let path = t.directory(name);
    mount_at(&path, options).map(|()| path)
}

pub(super) fn names(path: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(path).expect("list a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
}

pub(super) fn set<const N: usize>(items: [&str; N]) -> BTreeSet<String> {
    items.map(String::from).into()
}

case!(devices_are_a_parameter, ["PARAM-1"], |t| {
    let file = t.driver.parameter(if t.upstream() { "rust_devices" } else { "devices" });
    assert_eq!(file.metadata().expect("the parameter").permissions().mode() & 0o777, 0o444);
    let list = std::fs::read_to_string(file).expect("read the parameter");
    let mut wanted: BTreeSet<_> =
        list.trim_end().split(',').take_while(|name| !name.is_empty()).map(String::from).collect();
    wanted.insert("binder-control".to_string());
    let mut there = names(t.root());
    there.retain(|name| t.device(name).metadata().expect("a file").file_type().is_char_device());
    assert_eq!(there, wanted);
});

case!(fresh_mount_has_the_documented_files, ["BFS-13", "BFS-11", "PARAM-2"], |t| {
    let found = names(t.root());
    assert!(found.is_superset(&set(["binder-control", "features"])), "{found:?}");
    assert_eq!(found, set(["binder", "binder-control", "features", "hwbinder", "vndbinder"]));
    let features = names(&t.device("features"));
    let documented =
        set(["extended_error", "freeze_notification", "oneway_spam_detection", "transaction_report"]);
    let all =
        t.known_difference(Driver::Upstream, "features/ lacks some files", features.is_superset(&documented));
    assert!(all || t.upstream());
});

case!(owners_modes_and_inodes, ["BFS-2", "BFS-8"], |t| {
    let stat = |name: &str| t.device(name).metadata().expect(name);
    let root = t.root().metadata().expect("the root");
    assert_eq!((root.mode() & 0o7777, root.ino()), (0o755, 1));
    let control = stat("binder-control");
    assert!(control.file_type().is_char_device());
    assert_eq!((control.mode() & 0o7777, control.ino()), (0o600, 2));
    let device = stat("binder");
    assert!(device.file_type().is_char_device());
    assert_eq!((device.mode() & 0o7777, device.uid(), device.gid()), (0o600, 0, 0));
    assert_eq!(device.ino(), u64::from(libc::minor(device.rdev())) + 3);
    assert_eq!(stat("features").mode() & 0o7777, 0o755);
    let feature = stat("features/extended_error");
    assert!(feature.is_file());
    assert_eq!(feature.mode() & 0o7777, 0o444);
    assert!(feature.ino() > (1 << 20) + 3);
});

// Some programs read with pread and lseek.
case!(features_are_read_at_any_offset, ["BFS-11"], |t| {
    let file = File::open(t.device("features/extended_error")).expect("open a feature");
    let at = |offset| {
        let mut room = [0; 8];
        let size = file.read_at(&mut room, offset).map_err(|error| error.raw_os_error());
        size.map(|size| room[..size].to_vec())
    };
    let found = [0, 1, 2, 3, 0].map(at);
    assert_eq!(found, [&b"1\n"[..], b"\n", b"", b"", b"1\n"].map(|text| Ok(text.to_vec())));
});

case!(lesson_s23_features_say_what_there_is, ["BFS-11"], |t| {
    for name in names(&t.device("features")) {
        let text = std::fs::read_to_string(t.device("features").join(&name)).expect("read a feature");
        // Reports travel by netlink.
        let is_there = name != "transaction_report" || binder_family().expect("look it up").is_some();
        assert_eq!(text, if is_there { "1\n" } else { "0\n" }, "{name}");
    }
});

case!(mounts_are_independent, ["BFS-1", "BFS-14"], |t| {
    let second = another(t, "second", None).expect("mount");
    add_device(t.root(), "extra").expect("add");
    assert!(!names(&second).contains("extra"));
    add_device(&second, "extra").expect("the same name elsewhere is another device");
    let number = |path: &Path| path.join("extra").metadata().expect("a device").rdev();
    assert_ne!(number(t.root()), number(&second));
    // The same name in two mounts is two contexts: each has a manager of its own.
    let first = Device::open(&t.device("binder")).expect("open");
    let other = Device::open(&second.join("binder")).expect("open");
    first.set_context_manager().expect("manage");
    other.set_context_manager().expect("manage the other");
    assert_eq!(first.set_context_manager(), Err(Errno::EBUSY));
});

case!(all_mounts_share_a_major, ["BFS-3"], |t| {
    let second = another(t, "second", None).expect("mount");
    let major = |path: PathBuf| libc::major(path.metadata().expect("a device").rdev());
    let (a, b) = (major(t.device("binder")), major(second.join("hwbinder")));
    assert_eq!(a, b);
    assert_eq!(a, libc::major(t.device("binder-control").metadata().expect("control").rdev()));
    let devices = std::fs::read_to_string("/proc/devices").expect("/proc/devices");
    let line = devices.lines().find(|line| line.trim().starts_with(&format!("{a} "))).expect("the major");
    let named = line.ends_with("binder");
    assert!(named, "{line}");
});

case!(add_makes_a_device, ["BFS-7", "BFS-8"], |t| {
    let added = add_device(t.root(), "extra").expect("add");
    let stat = t.device("extra").metadata().expect("the device");
    assert!(stat.file_type().is_char_device());
    assert_eq!((libc::major(stat.rdev()), libc::minor(stat.rdev())), (added.major, added.minor));
    assert_eq!(stat.mode() & 0o7777, 0o600);
    assert_eq!(Device::open(&t.device("extra")).expect("open").version(), Ok(8));
});

fn control(t: &Stage) -> Device {
    Device::open(&t.device("binder-control")).expect("open binder-control")
}

case!(add_refuses_bad_names, ["BFS-7"], control, |t, control| {
    for name in ["", ".", "..", "a/b", "/"] {
        let mut request = BinderfsDevice::named(name.as_bytes());
        assert_eq!(add_device_raw(&control, &mut request), Err(Errno::EACCES), "{name:?}");
    }
    assert_eq!(names(t.root()), set(["binder", "binder-control", "features", "hwbinder", "vndbinder"]));
});

case!(add_refuses_a_name_twice, ["BFS-7"], |t| {
    for name in ["binder", "binder-control", "features"] {
        assert_eq!(add_device(t.root(), name).err(), Some(Errno::EEXIST), "{name}");
    }
});

case!(refused_add_has_filled_the_numbers, ["BFS-7"], control, |t, control| {
    let mut request = BinderfsDevice::named(b"binder");
    request.minor = u32::MAX;
    assert_eq!(add_device_raw(&control, &mut request), Err(Errno::EEXIST));
    // The numbers are handed out before the name is looked at, and taken back.
    assert_ne!((request.major, request.minor), (0, u32::MAX));
    assert_eq!(request.name[..7], *b"binder\0");
});

// Each place fails once. An attempt that fails leaves no device, and the next one works.
case!(add_without_memory, ["BFS-7"], control, |t, control| {
    let device = t.device("extra");
    super::faults::sweep(t, |nth| {
        let mut request = BinderfsDevice::named(b"extra");
        let (result, is_hit) =
            with_a_failure(nth, || add_device_raw(&control, &mut request)).expect("fail-nth");
        match result {
            Ok(()) => std::fs::remove_file(&device).expect("remove it"),
            Err(errno) => assert!([Errno::ENOMEM, Errno::EFAULT].contains(&errno), "{errno} at place {nth}"),
        }
        assert!(!device.exists(), "left at place {nth}");
        is_hit
    });
});

case!(add_cuts_a_long_name, ["BFS-7"], control, |t, control| {
    let mut request = BinderfsDevice::named(&[b'x'; 256]);
    add_device_raw(&control, &mut request).expect("the last byte is taken for a NUL");
    assert!(names(t.root()).contains(&"x".repeat(255)));
});

case!(control_knows_one_command, ["BFS-7"], control, |t, control| {
    assert_eq!(control.ioctl(BINDER_VERSION, &mut 0u32), Err(Errno::EINVAL));
    assert_eq!(control.ioctl(BINDER_CTL_ADD ^ 0xff, &mut [0u8; 512]), Err(Errno::EINVAL));
    assert!(control.map(4096).is_err());
    assert_eq!(nix::unistd::read(&control, &mut [0]), Err(Errno::EINVAL));
});

case!(max_limits_devices, ["BFS-4", "BFS-6", "BFS-7"], |t| {
    let path = another(t, "limited", Some("max=4")).expect("mount");
    add_device(&path, "one").expect("the fourth");
    assert_eq!(add_device(&path, "two").err(), Some(Errno::ENOSPC));
    // A refused one does not use up the limit.
    std::fs::remove_file(path.join("one")).expect("unlink");
    assert_eq!(add_device(&path, "binder").err(), Some(Errno::EEXIST));
    assert_eq!(add_device(&path, "").err(), Some(Errno::EACCES));
    add_device(&path, "two").expect("room again");
});

case!(max_below_the_defaults_fails_the_mount, ["BFS-6"], |t| {
    assert_eq!(another(t, "tiny", Some("max=2")).err(), Some(Errno::ENOSPC));
    // Nothing of it is left: the same name and the same numbers can be had.
    umount(&another(t, "tiny", Some("max=3")).expect("room for the defaults")).expect("umount");
});

case!(bad_mount_options, ["BFS-4"], |t| {
    for options in ["max=1048577", "max=-1", "max=x", "max", "stats=local", "stats", "nonsense=1"] {
        assert!(another(t, "bad", Some(options)).is_err(), "{options} was taken");
    }
    assert_eq!(another(t, "bad", Some("max=1048577")).err(), Some(Errno::EINVAL));
    assert_eq!(another(t, "bad", Some("stats=local")).err(), Some(Errno::EINVAL));
    umount(&another(t, "good", Some("max=1048576")).expect("the largest limit")).expect("umount");
});

pub(super) fn options_of(path: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("/proc/self/mounts");
    let path = path.to_str().expect("text");
    let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(path)).expect("the mount");
    assert_eq!(line.split(' ').nth(2), Some("binder"), "the type");
    line.split(' ').nth(3).expect("options").to_string()
}

case!(options_are_shown, ["BFS-4"], |t| {
    assert!(options_of(t.root()).ends_with(",max=1048576"), "{}", options_of(t.root()));
    let path = another(t, "limited", Some("max=17,stats=global")).expect("mount");
    assert!(options_of(&path).contains(",max=17,stats=global"), "{}", options_of(&path));
});

pub(super) fn remount(path: &Path, options: &str) -> nix::Result<()> {
    mount(None::<&str>, path, None::<&str>, MsFlags::MS_REMOUNT, Some(options))
}

case!(remount_rules, ["BFS-5"], |t| {
    let plain = another(t, "plain", Some("max=10")).expect("mount");
    assert_eq!(remount(&plain, "stats=global"), Err(Errno::EINVAL), "the logs cannot be added later");
    assert_eq!(remount(&plain, "max=5"), Ok(()));
    assert!(options_of(&plain).contains(",max=5"));
    assert_eq!(remount(&plain, "max=1"), Ok(()), "a limit below the count only bars new ones");
    assert_eq!(add_device(&plain, "more").err(), Some(Errno::ENOSPC));
    assert_eq!(remount(&plain, "max=99999999"), Err(Errno::EINVAL));
    let stats = another(t, "stats", Some("stats=global")).expect("mount");
    assert_eq!(remount(&stats, "stats=global,max=7"), Ok(()));
    assert!(options_of(&stats).contains(",max=7"));
});

case!(stats_makes_the_logs_directory, ["BFS-12"], |t| {
    assert!(!t.device("binder_logs").exists());
    let path = another(t, "stats", Some("stats=global")).expect("mount");
    let logs = path.join("binder_logs").metadata().expect("binder_logs");
    assert!(logs.is_dir());
    assert_eq!(logs.permissions().mode() & 0o7777, 0o755);
});

case!(unlink_and_control, ["BFS-9"], |t| {
    assert_eq!(std::fs::remove_file(t.device("binder-control")).map_err(|e| e.kind()), Err(PermissionDenied));
    std::fs::remove_file(t.device("vndbinder")).expect("unlink a device");
    assert!(!t.device("vndbinder").exists());
    add_device(t.root(), "vndbinder").expect("add it anew");
    assert!(std::fs::remove_file(t.device("features/extended_error")).is_err());
    assert!(std::fs::remove_dir(t.device("features")).is_err());
});

case!(unlink_of_an_open_device, ["BFS-10"], pair, |t, (manager, client)| {
    std::fs::remove_file(t.device("binder")).expect("unlink");
    client.round_trip(0, &manager, &bytes(b"still"), &bytes(b"here"));
    add_device(t.root(), "binder").expect("a new device of that name");
    let stranger = t.client();
    let answer = stranger.refused(&stranger.place(0, 0, &empty()));
    assert_eq!(answer, Return::DeadReply, "the new device has no manager");
});

case!(unlink_gives_the_number_back, ["BFS-10", "BFS-6"], |t| {
    let path = another(t, "limited", Some("max=4")).expect("mount");
    for round in 0..20 {
        add_device(&path, "extra").unwrap_or_else(|errno| panic!("round {round}: {errno}"));
        std::fs::remove_file(path.join("extra")).expect("unlink");
    }
});

case!(rename_rules, ["BFS-9"], |t| {
    let rename =
        |from: &str, to: &str, flags| renameat2(AT_FDCWD, &t.device(from), AT_FDCWD, &t.device(to), flags);
    let plain = RenameFlags::empty();
    assert_eq!(rename("binder-control", "other", plain), Err(Errno::EPERM));
    assert_eq!(rename("binder", "binder-control", plain), Err(Errno::EPERM));
    assert_eq!(rename("binder", "moved", plain), Ok(()));
    assert_eq!(names(t.root()), set(["moved", "binder-control", "features", "hwbinder", "vndbinder"]));
    assert_eq!(Device::open(&t.device("moved")).expect("open").version(), Ok(8));
    assert_eq!(rename("moved", "hwbinder", RenameFlags::RENAME_NOREPLACE), Err(Errno::EEXIST));
    assert_eq!(rename("moved", "hwbinder", plain), Ok(()), "one device replaces another");
    assert_eq!(names(t.root()), set(["binder-control", "features", "hwbinder", "vndbinder"]));
    assert_eq!(rename("hwbinder", "x", RenameFlags::RENAME_WHITEOUT), Err(Errno::EINVAL));
});

case!(folders_stay, ["BFS-9"], |t| {
    let path = another(t, "second", None).expect("mount");
    let rename =
        |from: &str, to: &str, flags| renameat2(AT_FDCWD, &path.join(from), AT_FDCWD, &path.join(to), flags);
    let (plain, exchange) = (RenameFlags::empty(), RenameFlags::RENAME_EXCHANGE);
    for (from, to, flags) in
        [("features", "moved", plain), ("binder", "features", exchange), ("binder", "features/binder", plain)]
    {
        let renamed = rename(from, to, flags);
        if !t.ours_alone("features/ can be renamed, and devices moved there", renamed == Err(Errno::EPERM)) {
            return;
        }
    }
    assert_eq!(names(&path), set(["binder", "binder-control", "features", "hwbinder", "vndbinder"]));
});

case!(nothing_else_can_be_made, ["BFS-9"], |t| {
    assert!(std::fs::create_dir(t.device("dir")).is_err());
    assert!(std::fs::write(t.device("file"), b"").is_err());
    assert!(std::os::unix::fs::symlink("binder", t.device("link")).is_err());
    assert!(std::fs::hard_link(t.device("binder"), t.device("hard")).is_err());
    let device = nix::sys::stat::makedev(1, 3);
    assert!(mknod(&t.device("node"), SFlag::S_IFCHR, Mode::S_IRUSR, device).is_err());
    assert!(std::fs::write(t.device("features/new"), b"").is_err());
    assert!(std::fs::write(t.device("features/extended_error"), b"0").is_err());
    assert_eq!(names(t.root()).len(), 5);
});

case!(umount_with_open_files, ["BFS-15"], |t| {
    let path = another(t, "second", None).expect("mount");
    let open = Device::open(&path.join("binder")).expect("open");
    assert_eq!(umount(&path), Err(Errno::EBUSY));
    nix::mount::umount2(&path, nix::mount::MntFlags::MNT_DETACH).expect("lazy umount");
    assert_eq!(open.version(), Ok(8), "an open device outlives its place in the tree");
    drop(open);
    let control = Device::open_with(&t.device("binder-control"), OFlag::O_RDONLY).expect("open");
    drop(control);
});
