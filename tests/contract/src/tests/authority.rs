// SPDX-License-Identifier: GPL-2.0
//! The table of `docs/security.md`: rights of a process over another. A column is a process.

use super::binderfs::{names, remount};
use super::*;
use crate::containers::{self, become_user, OF_ROOT};
use binder_sys::codes::COMMANDS;
use std::fs::{read_dir, read_to_string, set_permissions};

/// The ioctls of a device, without `BINDER_`.
const IOCTLS: [&str; 12] = [
    "WRITE_READ",
    "SET_MAX_THREADS",
    "SET_CONTEXT_MGR",
    "SET_CONTEXT_MGR_EXT",
    "THREAD_EXIT",
    "VERSION",
    "GET_NODE_DEBUG_INFO",
    "GET_NODE_INFO_FOR_REF",
    "FREEZE",
    "GET_FROZEN_INFO",
    "ENABLE_ONEWAY_SPAM_DETECTION",
    "GET_EXTENDED_ERROR",
];

/// The lines of the table, each in its cells.
fn table() -> impl Iterator<Item = Vec<&'static str>> {
    let document = include_str!("../../../../docs/security.md");
    let (_, rest) = document.split_once("<!-- authority -->\n").expect("a table");
    let lines = rest.lines().take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// Each operation of a line: its last word before the names, and its name.
fn operations(line: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let what = line.split('`').next().and_then(|words| words.split_whitespace().next()).unwrap_or("");
    line.split('`').skip(1).step_by(2).map(move |name| (what, name))
}

fn word<T>(result: nix::Result<T>) -> String {
    result.map_or_else(|errno| format!("{errno:?}"), |_| "allowed".to_string())
}

fn of_io<T>(result: std::io::Result<T>) -> nix::Result<T> {
    result.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}

fn found(is_found: bool) -> String {
    if is_found { "allowed" } else { "invisible" }.to_string()
}

fn unless_invisible<T>(result: nix::Result<T>) -> String {
    match result {
        Err(Errno::EINVAL) => found(false),
        other => word(other),
    }
}

/// The objects on which a process of a column acts.
struct Scene<'a> {
    t: &'a Stage,
    debugfs: PathBuf,
    /// The owner's pid for `BINDER_FREEZE`, and its log.
    pid: u32,
    log: PathBuf,
    /// An empty directory.
    place: PathBuf,
}

impl Scene<'_> {
    /// Tries an operation with a device of its own.
    fn attempt(&self, what: &str, name: &str, own: &Path) -> String {
        let t = self.t;
        let path = t.device(if what == "of" { "binder" } else { "vndbinder" });
        match what {
            "open" => word(Device::open(&t.device(name))),
            "read" if t.device(name).exists() => word(read_all(&t.device(name))),
            "read" if name == "debugfs" => word(read_all(&self.debugfs)),
            "read" => word(of_io(read_to_string(t.driver.parameter(name)))),
            "write" => {
                let file = t.driver.parameter(name);
                let value = read_to_string(&file).expect("a parameter");
                word(of_io(std::fs::write(file, value)))
            }
            "listen" => word(of_io(Listener::join())),
            "mount" => word(mount_at(&self.place, Some(name)).map(|()| umount(&self.place))),
            _ => match name {
                "BINDER_CTL_ADD" => word(add_device(t.root(), "added")),
                "rename" => {
                    let renamed = path.with_file_name("renamed");
                    word(of_io(
                        std::fs::rename(&path, &renamed).and_then(|()| std::fs::rename(&renamed, &path)),
                    ))
                }
                "unlink" => word(of_io(std::fs::remove_file(path))),
                "chmod" => word(of_io(set_permissions(path, Permissions::from_mode(0o666)))),
                "chown" => word(of_io(chown(path, Some(0), None))),
                "mount" => word(mount_at(&self.place, None).map(|()| umount(&self.place))),
                "remount" => word(remount(t.root(), "stats=global,max=1000000")),
                _ => self.ask(name, own),
            },
        }
    }

    /// The log once it stays the same: the device of the last attempt ends a little later.
    fn settled_log(&self) -> Vec<String> {
        loop {
            let log = self.log_at_any_time();
            std::thread::sleep(Duration::from_millis(20));
            if log == self.log_at_any_time() {
                return log;
            }
        }
    }

    /// The words of the owner's log, without those that change with time.
    fn log_at_any_time(&self) -> Vec<String> {
        let text = read_to_string(&self.log).expect("a log");
        text.split_whitespace().filter(|word| !word.ends_with("ms")).map(String::from).collect()
    }

    /// Tries an ioctl or a command on a device of its own, which it opens for that.
    fn ask(&self, name: &str, own: &Path) -> String {
        let device = Device::open(own).expect("open");
        device.set_nonblocking(true).expect("fcntl");
        let manager = FlatBinderObject::binder(0, 0);
        match name {
            "BINDER_VERSION" => word(device.version()),
            "BINDER_WRITE_READ" => word(device.write_all(stream(|c| c.enter_looper()).as_bytes())),
            "BINDER_SET_MAX_THREADS" => word(device.set_max_threads(1)),
            "BINDER_THREAD_EXIT" => word(device.thread_exit()),
            "BINDER_GET_EXTENDED_ERROR" => word(device.extended_error()),
            "BINDER_ENABLE_ONEWAY_SPAM_DETECTION" => word(device.enable_spam_detection(1)),
            "BINDER_SET_CONTEXT_MGR" => managed(|| device.set_context_manager()),
            "BINDER_SET_CONTEXT_MGR_EXT" => managed(|| device.set_context_manager_ext(&manager)),
            "BINDER_GET_NODE_INFO_FOR_REF" => {
                let mut info = BinderNodeInfoForRef { handle: 1, ..Default::default() };
                word(device.ioctl(BINDER_GET_NODE_INFO_FOR_REF, &mut info))
            }
            "BINDER_GET_NODE_DEBUG_INFO" => found(device.node_debug_info(0) != Ok(Default::default())),
            "BINDER_FREEZE" => unless_invisible(device.freeze(self.pid, false, 0)),
            "BINDER_GET_FROZEN_INFO" => unless_invisible(device.frozen_info(self.pid)),
            "BC_INCREFS" => unless_invisible(write(&device, |c| c.increfs(0).request_freeze(0, 7))),
            "BC_ACQUIRE" | "BC_REQUEST_FREEZE_NOTIFICATION" => {
                unless_invisible(write(&device, |c| c.acquire(0).request_freeze(0, 7)))
            }
            "BC_REQUEST_DEATH_NOTIFICATION" => {
                let told = write(&device, |c| c.acquire(0).request_death(0, 7).clear_death(0, 7));
                found(told.is_ok_and(|told| told.contains(&Return::ClearDeathNotificationDone(7))))
            }
            "BC_TRANSACTION" => called(&device, |c| c.transaction(&oneway())),
            "BC_TRANSACTION_SG" => called(&device, |c| {
                c.transaction_sg(&BinderTransactionDataSg { data: oneway(), ..Default::default() })
            }),
            _ => {
                let (code, _) = COMMANDS.iter().find(|(_, known)| *known == name).expect("a command");
                let before = self.settled_log();
                // The owner's number as a handle, a pointer, a cookie or an address.
                let payload = [NUMBER; 32];
                let size = binder_sys::ioctl::size_of_number(*code);
                let _ = write(&device, |c| c.command(*code, &payload.as_bytes()[..size]));
                found(before != self.log_at_any_time())
            }
        }
    }
}

/// The owner's handle, pointers and cookies; in words of 64 bits it is twice there.
const NUMBER: u32 = 1;
const NUMBERS: u64 = (NUMBER as u64) << 32 | NUMBER as u64;

fn oneway() -> BinderTransactionData {
    empty().to_handle(0, 1, TransactionFlags::ONE_WAY)
}

/// Writes commands, and reads all returns then.
fn write(device: &Device, build: impl FnOnce(&mut Commands) -> &mut Commands) -> nix::Result<Vec<Return>> {
    let mut buffer = [0; 512];
    let io = match device.write_read(stream(build).as_bytes(), &mut buffer) {
        Err(Errno::EAGAIN) => return Ok(Vec::new()),
        other => other?,
    };
    Ok(Returns::new(&buffer[..io.read_consumed as usize]).map_while(Result::ok).collect())
}

/// The manager of the last attempt ends a little later in C.
fn managed(mut manage: impl FnMut() -> nix::Result<()>) -> String {
    for _ in 0..20 {
        match manage() {
            Err(Errno::EBUSY) => std::thread::sleep(Duration::from_millis(5)),
            other => return word(other),
        }
    }
    word(manage())
}

fn called(device: &Device, build: impl FnOnce(&mut Commands) -> &mut Commands) -> String {
    found(write(device, build).expect("write").contains(&Return::TransactionComplete))
}

/// Reads a file, or all files of a directory.
fn read_all(path: &Path) -> nix::Result<()> {
    if !path.is_dir() {
        return of_io(read_to_string(path)).map(drop);
    }
    let mut files = of_io(read_dir(path))?.flatten().filter(|entry| entry.path().is_file());
    files.try_for_each(|entry| read_all(&entry.path()))
}

/// Has the process of a column try each row. The closure becomes it, and passes its device on.
fn try_column(t: &Stage, column: &str, become_it: impl FnOnce(&dyn Fn(&Path))) {
    t.mount_with_logs();
    set_permissions(t.device("binder"), Permissions::from_mode(0o666)).expect("chmod");
    let debugfs = Debugfs::of(t);
    let (owner, peer) = pair(t);
    peer.call(&owner, 0, 0, &object(FlatBinderObject::binder(NUMBERS, NUMBERS)));
    owner.send(|c| c.acquire(NUMBER).request_death(NUMBER, NUMBERS));
    owner.answer(&peer, &object(FlatBinderObject::binder(NUMBERS, NUMBERS)));
    let log = t.device("binder_logs").join(format!("proc/{}", t.global_pid(&owner)));
    let pid = t.pid_to_freeze(&owner.actor);
    let scene = Scene { t, debugfs: debugfs.logs(), pid, log, place: t.directory("place") };
    let index = table().next().expect("a head").iter().position(|name| *name == column).expect("a column");
    let is_there = |what: &str, name: &str| match what {
        "read" | "write" => t.device(name).exists() || name == "debugfs" || t.driver.parameter(name).exists(),
        _ => !["BINDER_FREEZE", "BINDER_GET_FROZEN_INFO"].contains(&name),
    };
    child::run(|| {
        become_it(&|own| {
            let mut wrong = Vec::new();
            for line in table().skip(2) {
                for (what, name) in operations(line[0]) {
                    // Others have fewer parameters, and freeze anybody.
                    let is_compared = t.driver == Driver::Rust || (is_there(what, name));
                    if !is_compared {
                        continue;
                    }
                    let mut result = scene.attempt(what, name, own);
                    if result != line[index] {
                        // The end of an earlier attempt's device may have shown in this log.
                        std::thread::sleep(Duration::from_millis(500));
                        result = scene.attempt(what, name, own);
                    }
                    if result != line[index] {
                        wrong.push(format!("{name}: {result}, not {}", line[index]));
                    }
                }
            }
            assert!(wrong.is_empty(), "{}", wrong.join("; "));
        });
    });
    t.ours_alone(super::freeze_rights::WHY, t.driver == Driver::Rust);
}

case!(of_another_user, ["BFS-7", "BFS-8", "BFS-9", "IOCTL-FREEZE"], |t| {
    try_column(t, "other user", |act| {
        become_user(1000);
        act(&t.device("binder"));
    });
});

case!(of_another_pid_namespace, ["IOCTL-FREEZE"], |t| {
    kernel_namespaces::need(CloneFlags::CLONE_NEWPID);
    try_column(t, "other pid namespace", |act| {
        unshare(CloneFlags::CLONE_NEWPID).expect("unshare");
        child::run(|| act(&t.device("binder")));
    });
});

case!(of_another_user_namespace, ["BFS-1", "BFS-4", "BFS-7", "BFS-9", "LSM-2", "NL-1"], |t| {
    kernel_namespaces::need(CloneFlags::CLONE_NEWUSER);
    try_column(t, "other user namespace", |act| {
        become_user(1000);
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).expect("unshare");
        std::fs::write("/proc/self/uid_map", "0 1000 1").expect("uid_map");
        act(&t.device("binder"));
    });
});

case!(of_another_instance, ["BFS-14"], |t| {
    let path = super::binderfs::another(t, "another", None).expect("mount").join("binder");
    try_column(t, "other instance", |act| act(&path));
});

case!(of_another_device, ["BFS-14"], |t| {
    let path = t.device("hwbinder");
    try_column(t, "other device", |act| act(&path));
});

case!(of_a_container, ["BFS-1", "BFS-4", "BFS-7", "BFS-9", "BFS-14", "LSM-2", "NL-1"], |t| {
    let own = t.directory("own");
    try_column(t, "root of a container", |act| {
        containers::enter(OF_ROOT);
        child::run(|| {
            mount_at(&own, None).expect("mount");
            act(&own.join("binder"));
        });
    });
});

case!(each_of_them_has_a_row, ["ABI-1"], |t| {
    t.mount_with_logs();
    let listed: Vec<_> = table().skip(2).flat_map(|line| operations(line[0])).map(|(_, name)| name).collect();
    let ioctls = IOCTLS.iter().map(|name| format!("BINDER_{name}"));
    let rejected = ["BC_ACQUIRE_RESULT", "BC_ATTEMPT_ACQUIRE"];
    let commands =
        COMMANDS.iter().map(|(_, name)| name.to_string()).filter(|name| !rejected.contains(&&**name));
    let parameters = t.driver.parameter("").read_dir().expect("parameters").flatten();
    let parameters = parameters.map(|entry| entry.file_name().into_string().expect("text"));
    let files = names(t.root()).into_iter().filter(|name| !name.ends_with("binder"));
    let groups = binder_family().expect("look it up").into_iter().flat_map(|family| family.groups);
    let all = ioctls.chain(commands).chain(parameters).chain(files).chain(groups.map(|(name, _)| name));
    let of_the_lab = ["mutant", "seed", "passed", "yielded", "orders"];
    let missing: Vec<_> =
        all.filter(|name| !of_the_lab.contains(&&**name) && !listed.contains(&&**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
});
