// SPDX-License-Identifier: GPL-2.0
//! The processes that `BINDER_FREEZE` and `BINDER_GET_FROZEN_INFO` find, and their permissions. C
//! takes pids of the initial namespace, from any caller.

use super::*;
use crate::containers::{self, as_user, OF_ROOT};
use nix::sys::prctl;
use nix::unistd::{getuid, pause, setresuid, Uid};

pub(super) const WHY: &str = "a pid is one of the initial namespace, and anybody may freeze it";

fn is_ours(t: &Stage) -> bool {
    t.ours_alone(WHY, t.driver == Driver::Rust)
}

fn open(path: &Path) -> Device {
    Device::open(path).expect("open")
}

/// The result of both requests about a process, which must be equal.
#[track_caller]
fn ask(device: &Device, pid: Pid) -> nix::Result<()> {
    let info = device.frozen_info(pid.as_raw() as u32).map(drop);
    assert_eq!(device.freeze(pid.as_raw() as u32, true, 0), info, "freeze");
    assert_eq!(device.freeze(pid.as_raw() as u32, false, 0), info, "thaw");
    info
}

/// Real, effective and saved user.
type Users = [u32; 3];

/// Becomes these users, with no capability but `CAP_KILL`, or without that.
fn become_users([real, effective, saved]: Users, may_kill: bool) {
    prctl::set_keepcaps(true).expect("keep capabilities");
    setresuid(Uid::from_raw(real), Uid::from_raw(effective), Uid::from_raw(saved)).expect("become users");
    let (header, kill) = ([0x2008_0522u32, 0], u32::from(may_kill) << 5);
    let sets = [kill, kill, 0, 0, 0, 0];
    // SAFETY: the kernel reads a version, a thread, and two halves of three sets.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const sets) })
        .expect("capset");
}

/// A process that opens devices as one user and continues as another.
fn opener(paths: &[&Path], before: Users, after: Users) -> Killed {
    Killed(child::ready(|ready| {
        let [real, effective, saved] = before.map(Uid::from_raw);
        setresuid(real, effective, saved).expect("become users");
        let _open: Vec<_> = paths.iter().map(|path| open(path)).collect();
        become_users(after, false);
        ready();
        pause();
    }))
}

const ROOT: Users = [0; 3];
const USER: Users = [1000; 3];
const DENIED: nix::Result<()> = Err(Errno::EPERM);

/// The caller's users, and whether it has `CAP_KILL`; the target's users; the result.
const ASKED: [(Users, bool, Users, nix::Result<()>); 12] = [
    (USER, false, USER, Ok(())),
    ([1001; 3], false, USER, DENIED),
    ([1001; 3], true, USER, Ok(())),
    (USER, false, ROOT, DENIED),
    (ROOT, true, USER, Ok(())),
    (ROOT, false, ROOT, Ok(())),
    (ROOT, false, USER, DENIED),
    ([7, 1000, 7], false, [1000, 8, 9], Ok(())),
    ([7, 1000, 7], false, [8, 9, 1000], Ok(())),
    ([1000, 7, 7], false, [8, 9, 1000], Ok(())),
    ([1000, 1000, 7], false, [8, 1000, 9], DENIED),
    ([7, 8, 1000], false, USER, DENIED),
];

/// Calls both ioctls by a device of root's. Root opens two devices as each target.
fn ask_all(path: &Path, other: &Path) {
    for (caller, may_kill, users, wanted) in ASKED {
        let target = opener(&[path, other], ROOT, users);
        child::run(|| {
            let device = open(path);
            become_users(caller, may_kill);
            assert_eq!(ask(&device, target.0), wanted, "{caller:?} {may_kill} {users:?}");
        });
    }
}

case!(lesson_t01_as_kill_compares_users, ["IOCTL-FREEZE", "IOCTL-GET_FROZEN_INFO"], |t| {
    if is_ours(t) {
        ask_all(&t.device("binder"), &t.device("hwbinder"));
    }
});

case!(lesson_t01_as_kill_compares_users_in_a_container, ["IOCTL-FREEZE", "BFS-14"], |t| {
    if is_ours(t) {
        containers::run(&t.directory("container"), OF_ROOT, |path| {
            mount_at(path, None).expect("mount");
            ask_all(&path.join("binder"), &path.join("hwbinder"));
        });
    }
});

case!(by_the_users_at_present, ["IOCTL-FREEZE"], |t| {
    if !is_ours(t) {
        return;
    }
    let path = t.device("binder");
    chown(&path, Some(1000), None).expect("chown");
    let risen = opener(&[&path], [1000, 1000, 0], ROOT);
    // The first thread of this process has ended, and a second one has the device.
    let headless = child::ready(|ready| {
        let device = open(&path);
        setresuid(Uid::from_raw(1000), Uid::from_raw(1000), Uid::from_raw(1000)).expect("become a user");
        std::thread::spawn(move || {
            while device.version().is_ok() {
                pause()
            }
        });
        ready();
        // SAFETY: ends the calling thread alone.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    let stat = format!("/proc/{headless}/stat");
    until("its first thread exits", || std::fs::read_to_string(&stat).ok()?.contains(") Z").then_some(()));
    as_user(1000, || {
        assert_eq!(ask(&open(&path), risen.0), DENIED);
        assert_eq!(ask(&open(&path), headless), Ok(()));
    });
});

case!(lesson_t01_pids_are_those_of_the_caller, ["IOCTL-FREEZE", "IOCTL-GET_FROZEN_INFO"], |t| {
    kernel_namespaces::need(CloneFlags::CLONE_NEWPID);
    let server = t.manager();
    let (inner, global) = (server.actor.pid() as u32, t.global_pid(&server));
    assert_ne!(inner, global);
    let info = |pid| Freezer::by(t.opened(), pid).info();
    if !t.ours_alone(WHY, (info(inner), info(global)) == (Ok((0, 0)), Err(Errno::EINVAL))) {
        return;
    }
    // Another one has the same number in a namespace within, where there is nobody else.
    let first = super::namespaces::inner(t);
    let twin = std::iter::repeat_with(|| first.actor.fork()).find(|actor| actor.pid() as u32 == inner);
    let _device = t.open_by(Rc::new(twin.expect("numbers ascend")));
    let by_first = |pid| Freezer::by(t.open_by(first.actor.clone()), pid);
    assert_eq!(by_first(inner).freeze(0), Ok(()));
    t.client().round_trip(0, &server, &empty(), &empty());
    assert_eq!(by_first(t.opened().actor.pid() as u32).info(), Err(Errno::EINVAL));
    assert_eq!(by_first(1).info(), Ok((0, 0)), "itself");
    assert_eq!(Freezer::of(t, &first).info(), Ok((0, 0)), "it is seen from outside");
});

// The device of one who is gone is open, and another has its number.
case!(heir_of_a_number_is_not_found, ["IOCTL-FREEZE", "IOCTL-GET_FROZEN_INFO"], |t| {
    // One who has something to read.
    let (manager, client) = (t.manager(), t.client());
    client.tell(0, 0, &empty());
    let (heir, _keeper, _) = super::tasks::heir_of(t, manager);
    let freezer = Freezer::by(t.opened(), t.pid_to_freeze(&heir));
    let why = "whoever has the number of one who is gone is taken for that";
    if t.known_difference(Driver::C, why, freezer.info() == Err(Errno::EINVAL)) {
        let _device = t.open_by(heir);
        assert_eq!(freezer.info(), Ok((0, 0)), "that of its own");
    }
});

/// Becomes root of a new user namespace, with an instance of its own.
fn within(place: &Path, what: impl FnOnce(&Path)) {
    let map = format!("0 {} 1", getuid());
    prctl::set_dumpable(true).expect("be dumpable");
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).expect("unshare");
    for (file, value) in [("uid_map", &*map), ("setgroups", "deny"), ("gid_map", &*map)] {
        std::fs::write(Path::new("/proc/self").join(file), value).expect(file);
    }
    mount_at(place, None).expect("mount");
    what(&place.join("binder"));
}

/// A process in such a namespace.
fn opener_within(place: &Path) -> Killed {
    Killed(child::ready(|ready| {
        within(place, |path| {
            let _open = open(path);
            ready();
            pause();
        });
    }))
}

/// Returns whether a oneway call of the context manager has to wait until that is thawed.
fn is_manager_frozen(path: &Path) -> bool {
    let (device, mut buffer) = (open(path), [0; 256]);
    let _space = device.map(4096).expect("map");
    let call = stream(|c| c.transaction(&empty().to_handle(0, 1, TransactionFlags::ONE_WAY)));
    let length = device.write_read_whole(call.as_bytes(), &mut buffer).expect("call");
    Returns::new(&buffer[..length]).any(|item| item == Ok(Return::TransactionPendingFrozen))
}

case!(lesson_t01_devices_of_user_namespaces, ["IOCTL-FREEZE", "BFS-14"], |t| {
    kernel_namespaces::need(CloneFlags::CLONE_NEWUSER);
    if !is_ours(t) {
        return;
    }
    let [host, place, inmost] = [t.device("binder"), t.directory("own"), t.directory("inmost")];
    std::fs::set_permissions(&host, Permissions::from_mode(0o666)).expect("chmod");
    let roots = opener(&[&host], ROOT, ROOT);
    as_user(1000, || {
        let (outside, beside) = (opener(&[&host], USER, USER), opener_within(&place));
        within(&place, |own| {
            let [inside, below] = [opener(&[own], ROOT, ROOT), opener_within(&inmost)];
            let both = Killed(child::ready(|ready| {
                let devices = [open(own), open(&host)];
                let _spaces = devices.each_ref().map(|device| device.map(1 << 16).expect("map"));
                devices.iter().for_each(|device| device.set_context_manager().expect("manage"));
                ready();
                pause();
            }));
            for (target, here, there) in [
                (&inside, Ok(()), Ok(())),
                (&below, Ok(()), Ok(())),
                (&both, Ok(()), Ok(())),
                (&outside, Err(Errno::EINVAL), Ok(())),
                (&beside, Err(Errno::EINVAL), Ok(())),
                (&roots, Err(Errno::EINVAL), DENIED),
            ] {
                assert_eq!((ask(&open(own), target.0), ask(&open(&host), target.0)), (here, there));
            }
            open(own).freeze(both.0.as_raw() as u32, true, 0).expect("freeze");
            assert_eq!((is_manager_frozen(own), is_manager_frozen(&host)), (true, false));
            within(&inmost, |path| {
                for target in [&inside, &both, &outside, &beside, &below] {
                    assert_eq!(ask(&open(path), target.0), Err(Errno::EINVAL));
                }
                assert_eq!(ask(&open(path), Pid::this()), Ok(()));
            });
        });
    });
});
