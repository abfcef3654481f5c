// SPDX-License-Identifier: GPL-2.0
//! Mount options that only our driver has: the owners and modes of a mount's entries, and the
//! devices of a new mount. The options of C, `max` and `stats`, are in the group `binderfs`.

use super::binderfs::{names, options_of, remount, set};
use super::*;
use crate::actor::CloneArguments;
use crate::containers::{self, as_user};
use binder_sys::mounting::{Mounting, Refusal};
use nix::unistd::ForkResult;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

/// Options by name.
pub(super) type Named<'a> = &'a [(&'a str, &'a str)];

fn make(path: &Path, options: Named) -> Result<(), Refusal> {
    let mounting = Mounting::new().expect("fsopen");
    options.iter().try_for_each(|(name, value)| mounting.set(name, Some(value)))?;
    mounting.create()?.move_to(path).expect("move the mount");
    Ok(())
}

fn change(path: &Path, options: Named) -> Result<(), Refusal> {
    let mounting = Mounting::again(path).expect("fspick");
    options.iter().try_for_each(|(name, value)| mounting.set(name, Some(value)))?;
    mounting.reconfigure()
}

/// A mount with options, if the driver has them.
pub(super) fn mounted(t: &Stage, name: &str, options: Named) -> Option<PathBuf> {
    let path = t.directory(name);
    let result = make(&path, options);
    if t.driver == Driver::Rust {
        result.as_ref().expect("mount");
    }
    t.ours_alone("there are no such mount options", result.is_ok()).then_some(path)
}

/// Mode, owner and group.
pub(super) fn stat(path: &Path) -> (u32, u32, u32) {
    let stat = path.symlink_metadata().expect("stat");
    (stat.permissions().mode() & 0o7777, stat.uid(), stat.gid())
}

case!(others_do_not_know_them, ["BFS-4"], |t| {
    let all = [
        ("uid", "1"),
        ("gid", "1"),
        ("mode", "666"),
        ("control_mode", "600"),
        ("devices", "binder"),
        ("nobody_knows", "1"),
    ];
    for option in all {
        let result = make(&t.directory("another"), &[option]);
        if t.driver == Driver::Rust && option.0 != "nobody_knows" {
            result.expect("mount");
            continue;
        }
        let refusal = result.expect_err("an option that there is not");
        assert_eq!((refusal.errno, refusal.option.as_deref()), (Errno::EINVAL, Some(option.0)));
        // The message names the option that the driver does not have.
        assert_eq!(refusal.messages, [format!("binder: Unknown parameter '{}'", option.0)]);
    }
});

case!(owners_and_modes, ["BFS-16", "BFS-9"], |t| {
    let options = [("mode", "0664"), ("control_mode", "640"), ("uid", "1000"), ("gid", "1001")];
    let Some(path) = mounted(t, "owned", &options) else { return };
    assert_eq!(stat(&path.join("binder")), (0o664, 1000, 1001));
    assert_eq!(stat(&path.join("vndbinder")), (0o664, 1000, 1001));
    assert_eq!(stat(&path.join("binder-control")), (0o640, 1000, 1001));
    assert_eq!(stat(&path), (0o755, 1000, 1001));
    // The list of features belongs to the driver.
    assert_eq!(stat(&path.join("features")), (0o755, 0, 0));
    assert_eq!(stat(&path.join("features/extended_error")), (0o444, 0, 0));
    add_device(&path, "later").expect("add");
    assert_eq!(stat(&path.join("later")), (0o664, 1000, 1001), "with any creator");
    as_user(1000, || {
        add_device(&path, "own").expect("the owner has binder-control");
        assert_eq!(Device::open(&path.join("own")).expect("open").version(), Ok(8));
        std::fs::rename(path.join("own"), path.join("renamed")).expect("rename");
        std::fs::remove_file(path.join("renamed")).expect("unlink");
    });
});

/// An instance that a process in a user namespace of its own, which maps nobody, has begun.
fn begun_in_another_user_namespace() -> Mounting {
    let namespaces = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS;
    crate::kernel_namespaces::need(namespaces);
    let arguments = CloneArguments::in_namespaces(namespaces | CloneFlags::CLONE_FILES);
    // SAFETY: A test's process has one thread, and the child only makes a descriptor.
    match unsafe { arguments.fork() }.expect("clone3") {
        ForkResult::Child => {
            let instance = OwnedFd::from(Mounting::new().expect("fsopen"));
            std::process::exit(instance.into_raw_fd());
        }
        ForkResult::Parent { child } => {
            let ended = waitpid(child, None).expect("wait for it");
            let WaitStatus::Exited(_, instance) = ended else { panic!("{ended:?}") };
            // SAFETY: The child made this descriptor in the table of both, and left it there.
            unsafe { OwnedFd::from_raw_fd(instance) }.into()
        }
    }
}

case!(owners_have_to_be_in_the_mounts_user_namespace, ["BFS-16"], |t| {
    if mounted(t, "owned", &[("uid", "1000"), ("gid", "1000")]).is_none() {
        return;
    }
    for (option, what) in [("uid", "user"), ("gid", "group")] {
        let mounting = begun_in_another_user_namespace();
        let refusal = mounting.set(option, Some("1000")).expect_err("the caller has it, the mount does not");
        assert_eq!(refusal.errno, Errno::EINVAL);
        assert_eq!(refusal.messages, [format!("binder: {option}=1000 is no {what} of this user namespace")]);
    }
});

case!(modes_alone, ["BFS-16"], |t| {
    let Some(path) = mounted(t, "for-all", &[("mode", "666")]) else { return };
    assert_eq!(stat(&path.join("binder")), (0o666, 0, 0));
    assert_eq!(stat(&path.join("binder-control")), (0o600, 0, 0), "to use devices is not to add any");
    as_user(1000, || {
        assert_eq!(Device::open(&path.join("binder")).expect("open").version(), Ok(8));
        assert_eq!(add_device(&path, "own").err(), Some(Errno::EACCES));
        assert!(std::fs::remove_file(path.join("binder")).is_err(), "the directory is root's");
    });
    let Some(path) = mounted(t, "addable", &[("control_mode", "666")]) else { return };
    assert_eq!((stat(&path.join("binder")).0, stat(&path.join("binder-control")).0), (0o600, 0o666));
    as_user(1000, || {
        add_device(&path, "anybodys").expect("binder-control is open to all");
        assert_eq!(Device::open(&path.join("anybodys")).err(), Some(Errno::EACCES));
    });
});

fn devices_of(path: &Path) -> std::collections::BTreeSet<String> {
    let mut found = names(path);
    assert!(found.remove("binder-control") && found.remove("features"), "{found:?}");
    found
}

case!(devices_of_a_mount, ["BFS-13", "BFS-16"], |t| {
    // The way of mount(2) and mount(8), where a comma would begin another option.
    let path = t.directory("named");
    let mounted = super::binderfs::another(t, "named", Some("max=5,devices=one:two:x y,mode=600"));
    if !t.ours_alone("there are no such mount options", mounted.is_ok()) {
        return;
    }
    assert_eq!(devices_of(&path), set(["one", "two", "x y"]), "and not those of the parameter");
    assert_eq!(Device::open(&path.join("x y")).expect("open").version(), Ok(8));
    add_device(&path, "fourth").expect("add");
    let again = t.directory("again");
    make(&again, &[("devices", "a:b"), ("devices", "c")]).expect("mount");
    assert_eq!(devices_of(&again), set(["c"]), "of an option that is given twice the last one counts");
    let none = t.directory("none");
    make(&none, &[("devices", "")]).expect("mount without devices");
    assert_eq!(devices_of(&none), set([]));
    add_device(&none, "binder").expect("add the first");
    assert_eq!(Device::open(&none.join("binder")).expect("open").version(), Ok(8));
    assert_eq!(devices_of(t.root()).len(), 3, "other mounts start with the parameter's devices");
});

case!(devices_between_commas, ["BFS-13"], |t| {
    let longest = "x".repeat(200);
    let list = format!("binder,{longest}:hwbinder");
    let Some(path) = mounted(t, "commas", &[("devices", &list)]) else { return };
    assert_eq!(devices_of(&path), set(["binder", &longest, "hwbinder"]));
    assert!(options_of(&path).ends_with(&format!(",devices=binder:{longest}:hwbinder")));
    let longest = "y".repeat(255);
    let path = t.directory("longest");
    let options = format!("devices={longest}:z");
    mount(Some("binder"), &path, Some("binder"), MsFlags::empty(), Some(options.as_str())).expect("mount");
    assert_eq!(devices_of(&path), set([&longest, "z"]));
});

// Waydroid takes the last available of `anbox-binder`, `puddlejumper`, `bonder` and `binder`;
// redroid takes Android's names. A host with own Binder services gives a container devices of other
// names.
case!(devices_that_android_in_containers_looks_for, ["BFS-13"], |t| {
    let names = ["anbox-binder", "anbox-hwbinder", "anbox-vndbinder"];
    let options = [("devices", &*names.join(":")), ("mode", "666")];
    let Some(path) = mounted(t, "android", &options) else { return };
    assert_eq!(devices_of(&path), set(names));
    for name in names {
        assert_eq!(stat(&path.join(name)).0, 0o666);
        let device = Device::open(&path.join(name)).expect("open");
        device.set_context_manager().expect("each has a manager of its own");
    }
});

const ALL: &str = "max=9,uid=7,gid=8,mode=640,control_mode=660,devices=a:b";

case!(are_shown_and_can_be_given_back, ["BFS-4", "BFS-5"], |t| {
    let mounted = super::binderfs::another(t, "shown", Some(ALL));
    if !t.ours_alone("there are no such mount options", mounted.is_ok()) {
        return;
    }
    let path = mounted.expect("mount");
    assert!(options_of(&path).ends_with(ALL), "{}", options_of(&path));
    // mount(8) gives all that is shown to a remount which changes one of them.
    assert_eq!(remount(&path, ALL), Ok(()));
    assert_eq!(remount(&path, &ALL.replace("640", "666")), Ok(()));
    assert!(options_of(&path).ends_with(&ALL.replace("640", "666")), "{}", options_of(&path));
    let escaped = t.directory("escaped");
    make(&escaped, &[("devices", "x y")]).expect("mount");
    assert!(options_of(&escaped).ends_with("devices=x\\040y"), "{}", options_of(&escaped));
});

case!(remount_is_for_what_comes_later, ["BFS-5", "BFS-16"], |t| {
    let Some(path) = mounted(t, "plain", &[]) else { return };
    if !t.ours_alone("there are no such mount options", remount(&path, "mode=666,uid=3,gid=4").is_ok()) {
        return;
    }
    assert_eq!(stat(&path.join("binder")), (0o600, 0, 0), "what is there is for chmod and chown");
    assert_eq!(stat(&path.join("binder-control")), (0o600, 0, 0));
    assert_eq!(stat(&path), (0o755, 0, 0));
    add_device(&path, "later").expect("add");
    assert_eq!(stat(&path.join("later")), (0o666, 3, 4));
    assert!(options_of(&path).ends_with(",max=1048576,uid=3,gid=4,mode=666"), "{}", options_of(&path));
});

case!(remount_keeps_what_it_does_not_name, ["BFS-5"], |t| {
    let Some(path) = mounted(t, "kept", &[("mode", "660"), ("gid", "5"), ("devices", "one")]) else { return };
    assert_eq!(remount(&path, "max=3"), Ok(()));
    assert!(options_of(&path).ends_with(",max=3,gid=5,mode=660,devices=one"), "{}", options_of(&path));
    add_device(&path, "two").expect("add");
    assert_eq!(stat(&path.join("two")), (0o660, 0, 5));
    assert_eq!(remount(&path, "gid=6"), Ok(()));
    add_device(&path, "three").expect("max is its default again");
    assert_eq!(stat(&path.join("three")), (0o660, 0, 6));
});

case!(lasting_ones_are_not_changed, ["BFS-5", "BFS-16"], |t| {
    let Some(path) = mounted(t, "lasting", &[("devices", "one:two")]) else { return };
    let refused = |option: (&str, &str), words: &str| {
        let refusal = change(&path, &[option, ("mode", "666"), ("max", "7")]).expect_err("remount");
        assert_eq!(refusal.errno, Errno::EINVAL);
        assert_eq!(refusal.messages, [format!("binder: {words}")]);
        assert_eq!(stat(&path.join("one")).0, 0o600);
        assert!(options_of(&path).ends_with(",max=1048576,devices=one:two"), "{}", options_of(&path));
    };
    refused(("devices", "one"), "devices is for a new mount: binder-control adds devices");
    refused(("control_mode", "666"), "control_mode is for a new mount: chmod binder-control");
    refused(("stats", "global"), "stats is for the lifetime of a mount");
    change(&path, &[("devices", "one,two"), ("control_mode", "600")]).expect("nothing is changed");
    let plain = mounted(t, "plain", &[]).expect("mount");
    let refusal = change(&plain, &[("devices", "binder:hwbinder:vndbinder")]).expect_err("remount");
    assert_eq!(refusal.errno, Errno::EINVAL);
});

case!(refusals_say_why, ["BFS-4"], |t| {
    if t.driver != Driver::Rust {
        t.known_difference(t.driver, "there are no such mount options", false);
        return;
    }
    let long = format!("a:{}", "x".repeat(256));
    let refused = |option: (&str, &str), words: &str| {
        let refusal = make(&t.directory("refused"), &[option]).expect_err(option.1);
        assert_eq!((refusal.errno, refusal.option.as_deref()), (Errno::EINVAL, Some(option.0)), "{option:?}");
        assert_eq!(refusal.messages, [format!("binder: {words}")], "{option:?}");
    };
    refused(("mode", "1777"), "mode=1777 has more than permissions, which are up to 777");
    refused(("control_mode", "4600"), "control_mode=4600 has more than permissions, which are up to 777");
    refused(("mode", "rw"), "Bad value for 'mode'");
    refused(("mode", "688"), "Bad value for 'mode'");
    refused(("mode", ""), "Bad value for 'mode'");
    refused(("uid", "-1"), "Bad value for 'uid'");
    refused(("uid", "root"), "Bad value for 'uid'");
    refused(("uid", "4294967295"), "uid=4294967295 is no user of this user namespace");
    refused(("gid", "4294967295"), "gid=4294967295 is no group of this user namespace");
    refused(("max", "1048577"), "max is over 1048576");
    for (list, name) in [("a::b", ""), (":", ""), ("a:", ""), (",a", ""), (".", "."), ("a,..", "..")] {
        refused(("devices", list), &format!("devices has '{name}', which cannot be a name"));
    }
    for name in ["a/b", "/", "binder-control", "features", "binder_logs"] {
        refused(("devices", name), &format!("devices has '{name}', which cannot be a name"));
    }
    refused(("devices", "x\ny/"), "devices has 'x\\ny/', which cannot be a name");
    // fsconfig takes values of 255 bytes at most, mount(2) longer ones.
    let options = format!("devices={long}");
    let path = t.directory("refused");
    let result = mount(Some("binder"), &path, Some("binder"), MsFlags::empty(), Some(options.as_str()));
    assert_eq!(result, Err(Errno::EINVAL));
});

case!(refused_mounts_say_why_and_leave_nothing, ["BFS-4", "BFS-6"], |t| {
    let Some(_there) = mounted(t, "there", &[("devices", "a:b")]) else { return };
    let path = t.directory("refused");
    let refused = |options: Named, errno, words: &str| {
        let refusal = make(&path, options).expect_err(words);
        assert_eq!((refusal.errno, refusal.option), (errno, None));
        assert_eq!(refusal.messages, [format!("binder: {words}")]);
    };
    for _ in 0..3 {
        refused(&[("devices", "a:b:a")], Errno::EEXIST, "device 'a' is named twice");
        let words = "max=1 is less than the devices of a new mount";
        refused(&[("devices", "a:b"), ("max", "1")], Errno::ENOSPC, words);
    }
    make(&path, &[("devices", "a:b"), ("max", "2")]).expect("mount");
    umount(&path).expect("umount");
});

case!(users_who_do_not_exist_in_the_namespace, ["BFS-2", "BFS-4"], |t| {
    if mounted(t, "there", &[("uid", "5")]).is_none() {
        return;
    }
    containers::run(&t.directory("container"), containers::ROOTLESS, |path| {
        for (option, what) in [("uid", "user"), ("gid", "group")] {
            for number in ["65536", "100000", "4294967295"] {
                let refusal = make(path, &[(option, number)]).expect_err(number);
                let words = format!("binder: {option}={number} is no {what} of this user namespace");
                assert_eq!((refusal.errno, refusal.messages), (Errno::EINVAL, vec![words]));
            }
        }
        make(path, &[("uid", "65535"), ("gid", "1")]).expect("the last one that is mapped");
        assert_eq!(stat(&path.join("binder")), (0o600, 65535, 1));
        assert!(options_of(path).ends_with(",uid=65535,gid=1"), "as it is called here: {}", options_of(path));
        assert_eq!(change(path, &[("uid", "65536")]).expect_err("remount").errno, Errno::EINVAL);
        change(path, &[("uid", "65534")]).expect("remount");
        add_device(path, "later").expect("root may");
        assert_eq!(stat(&path.join("later")), (0o600, 65534, 1));
    });
});
