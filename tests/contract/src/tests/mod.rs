// SPDX-License-Identifier: GPL-2.0
//! The tests, one module a group, and the helpers that several groups need.

use crate::actor::{patience, Actor};
use crate::agent::with_a_failure;
use crate::bystander::{counted, needs_two_cpus, on_all_cpus, Count};
use crate::freezer::{kill_and_wait, Freezer, LONG};
use crate::linger::Lingering;
use crate::logs::{only, until, Debugfs, Logs};
use crate::netlink::{binder_family, Listener};
use crate::ops::{Answer, Op, WriteReadOp};
use crate::pages::{page, pages_of};
use crate::port::{
    bytes, call_of, empty, finish, give_in_a_call, give_in_a_reply, introduce, introduce_counted, object,
    parcel_of, stream, Port, ROOM,
};
use crate::scheduling::{pin, Fifo, Nice};
use crate::sg::{file_object, SgParcel};
use crate::shrinker::Shrinker;
use crate::stage::{Stage, SPACE};
use crate::suite::Driver;
use crate::userfault::Absent;
use crate::{case, child, kernel_namespaces};
use binder_sys::codes::{BR_DEAD_REPLY, BR_FAILED_REPLY, BR_OK};
use binder_sys::fs::{add_device, mount_at};
use binder_sys::ioctl::*;
use binder_sys::Return::{ClearDeathNotificationDone as ClearDone, DeadBinder};
use binder_sys::*;
use limits::Limit;
use nested::couple;
use nix::errno::Errno;
use nix::mount::{mount, umount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use nix::sys::mman::{MapFlags, ProtFlags};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::{Read, Seek};
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

mod attributes;
mod authority;
mod binderfs;
mod buffers;
mod charging;
mod containers;
mod context;
mod count_order;
mod counts;
mod death_links;
mod death_races;
mod deaths;
mod deferred;
mod depth;
mod failures;
mod faults;
mod fd_arrays;
mod fds;
mod files;
mod freeze;
mod freeze_links;
mod freeze_rights;
mod freeze_updates;
mod freezer_wakeups;
mod gaps;
mod handles;
mod inbox;
mod inversion;
mod ioctl;
mod leaving;
mod lessons;
mod limits;
mod log_files;
mod logs;
mod loopers;
mod many;
mod messages;
mod mmap;
mod namespaces;
pub mod nested;
mod nice;
mod node_updates;
mod nodes;
mod objects;
mod oneway;
mod options;
mod order;
mod ownership;
mod placement;
mod pointers;
mod policy;
mod poll;
mod quota;
mod realtime;
mod reasons;
mod reclaim;
mod replies;
mod reports;
mod retention;
mod security;
mod signals;
mod spam;
mod strangers;
mod sync;
mod tags;
mod tasks;
mod threads;
mod unload;
mod userfault;
mod wakeups;
mod write_read;

/// Beginnings of the names of tests with two CPUs: their threads race, or they are about CPUs. All
/// other tests order one step at a time, and a second CPU would only spin on locks of the first.
pub const TWO_CPUS: &[&str] = &[
    "node_updates::lesson_s22_",
    "node_updates::lesson_s25_",
    "death_races::",
    "freeze::a_hundred_times",
    "freeze::lesson_c19_one_freezes_all_",
    "freeze_links::lesson_r09_",
    "freeze_links::owner_dies_while_many_are_told",
    "gaps::manager_ends_while_",
    "inversion::",
    "lessons::",
    "limits::nodes_in_a_race",
    "log_files::killed_in_the_middle_of_a_line",
    "logs::last_ones_of_two_cpus",
    "logs::read_in_pieces_while",
    "many::",
    "placement::",
    "quota::in_a_race",
    "realtime::server_is_raised_before_it_runs",
    "reclaim::under_load",
    "reclaim::while_",
    "unload::",
];

/// Needs two CPUs; puts the conductor on the second.
fn on_the_second_cpu(t: &Stage) {
    needs_two_cpus(t);
    pin(Pid::from_raw(0), 1);
}

/// The manager of a context, and a client.
fn pair(t: &Stage) -> (Port, Port) {
    (t.manager(), t.client())
}

/// A pair whose calls may carry files.
fn file_pair(t: &Stage) -> (Port, Port) {
    (t.file_manager(), t.client())
}

/// A manager, and a process whose thread is in its pool.
fn manager_and_server(t: &Stage) -> (Port, Port) {
    (t.manager(), t.server())
}

/// A manager, a server that owns nodes, and a client that holds them.
fn trio(t: &Stage) -> (Port, Port, Port) {
    (t.manager(), t.server(), t.client())
}

/// A manager, and two clients.
fn two_clients(t: &Stage) -> (Port, Port, Port) {
    (t.manager(), t.client(), t.client())
}

/// A manager, a client, and one who can freeze the manager.
fn freezable_pair(t: &Stage) -> (Port, Port, Freezer) {
    let (server, client) = pair(t);
    let freezer = Freezer::of(t, &server);
    (server, client, freezer)
}

/// The log files, a manager, and a client.
fn logged_pair(t: &Stage) -> (Logs<'_>, Port, Port) {
    (Logs::of(t), t.manager(), t.client())
}

/// The log files, and a client.
fn logged_client(t: &Stage) -> (Logs<'_>, Port) {
    (Logs::of(t), t.client())
}

/// Has a call delivered and answered, and keeps its buffer.
fn keep(server: &Port, client: &Port, data: &[u8]) -> BinderTransactionData {
    let call = client.call(server, 0, 0, &bytes(data));
    client.free(&server.answer(client, &empty()));
    call
}

/// The flags of a oneway call that supersedes an equal one.
const UPDATE: TransactionFlags = TransactionFlags::ONE_WAY.union(TransactionFlags::UPDATE_TXN);

/// Leaves the refusal of a call for the thread to read: work that needs no second process.
#[track_caller]
fn leave_refusal(port: &Port) {
    let commands = stream(|c| c.transaction(&port.place(NO_HANDLE, 0, &empty())));
    assert_eq!(port.try_write(&commands).write_consumed as usize, commands.len());
}

/// Serves a call and has the caller take the reply; the call's buffer stays.
#[track_caller]
fn answer(server: &Port, client: &Port) {
    client.free(&server.answer(client, &empty()));
}

/// Has a thread leave the driver.
#[track_caller]
fn exit(port: &Port) {
    assert_eq!(port.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
}

/// Manages a device, as soon as an earlier manager has been released.
fn manage(device: &Device) {
    let managed = || Some(device.set_context_manager()).filter(|result| *result != Err(Errno::EBUSY));
    until("the context has no other manager", managed).expect("become context manager");
}

/// Kills a child of the test.
fn end(pid: Pid) {
    kill(pid, Signal::SIGKILL).expect("kill");
    waitpid(pid, None).expect("wait");
}

/// A child of the test that is killed at the end of the scope.
struct Killed(Pid);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
        let _ = waitpid(self.0, None);
    }
}

/// Waits until all children have ended well.
fn all_well(children: Vec<Pid>) {
    for pid in children {
        assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 0)));
    }
}

/// What a holder reads of a freeze link.
fn notification(cookie: u64, is_frozen: u32) -> Return {
    Return::FrozenBinder(BinderFrozenStateInfo { cookie, is_frozen, reserved: 0 })
}

/// The last that a holder reads of a freeze link.
fn cleared(cookie: u64) -> Return {
    Return::ClearFreezeNotificationDone(cookie)
}

/// Bytes that differ from their neighbours and from those of another seed.
pub fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251 + seed * 7 + 1) as u8).collect()
}

/// The extended error of a refused call.
pub fn failed(errno: Errno) -> (u32, i32) {
    (BR_FAILED_REPLY, -(errno as i32))
}

/// The extended error of a call to someone who is gone.
pub fn dead(errno: Errno) -> (u32, i32) {
    (BR_DEAD_REPLY, -(errno as i32))
}

/// The extended error when there was none.
pub const NO_ERROR: (u32, i32) = (BR_OK, 0);

/// Returns whether the guest's command line has these words.
fn booted_with(words: &str) -> bool {
    std::fs::read_to_string("/proc/cmdline").expect("the command line").contains(words)
}

/// A handle that nobody has.
pub const NO_HANDLE: u32 = 4711;
