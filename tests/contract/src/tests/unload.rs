// SPDX-License-Identifier: GPL-2.0
//! The module is unloaded at the moments at which its code might still be needed, and loaded without
//! memory.
//!
//! Each test needs the driver for itself: `contract run --module PATH --filter unload::` loads it
//! before each. Other runs skip them. The incumbents cannot be unloaded.

use super::faults::can_fail;
use super::fd_arrays::with_array;
use super::fds::{with_line, Line};
use super::log_files::{expect_nothing_but, with_logs};
use super::*;
use crate::loading::{self, unload};
use crate::netlink::family;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The device's number in the process of a port.
fn number_of_device(port: &Port) -> i32 {
    let is_device = |fd: &i32| port.actor.file_name(*fd).is_some_and(|name| name.ends_with("/binder"));
    port.actor.open_files().into_iter().find(is_device).expect("an open device")
}

/// Nothing holds the driver any more, and it goes.
#[track_caller]
fn expect_gone(t: &Stage) {
    // The closing task ends the files on its way back to user space.
    until("nobody uses the driver", || (loading::users(t.driver) == Some(0)).then_some(()));
    assert_eq!(unload(t.driver), Ok(()));
}

/// Unmounts, and checks that the driver goes.
#[track_caller]
fn leave(t: &Stage) {
    t.unmount();
    expect_gone(t);
}

/// A oneway call brings a file that takes its time to end, and is the last to hold it.
fn send_lingering(client: &Port) -> Option<Lingering> {
    let (file, lingering) = Lingering::new().ok()?;
    let parcel = object(file_object(client.actor.give(&file)));
    drop(file);
    client.send(|c| c.transaction(&client.place_oneway(0, 0, &parcel)));
    assert_eq!(client.drain(), [Return::TransactionComplete]);
    client.actor.kill();
    Some(lingering)
}

/// Has a thread free a buffer, and then end that file, before it comes to the work that the first
/// has left for its way back to user space: the last work is done first.
fn free_and_linger(port: &Port, call: &BinderTransactionData) {
    // So that the oneway call cannot be delivered.
    port.actor.set_limit(libc::RLIMIT_NOFILE, 0);
    port.start(&stream(|c| c.free_buffer(call.buffer)));
    port.actor.expect_stuck();
}

/// A server that keeps a file in the buffer of a call that it has answered.
fn kept_file(t: &Stage) -> (Port, Port, Line, BinderTransactionData) {
    t.needs_driver_alone();
    let (server, client, line) = with_line(t);
    let call = client.call_sg(&server, &with_array(&client, 0, &[line.theirs], 0).call(&client));
    server.answer(&client, &empty());
    (server, client, line, call)
}

case!(lesson_s05_while_a_task_has_yet_to_close_descriptors, ["PARAM-7", "OBJ-11"], |t| {
    let (server, client, line, call) = kept_file(t);
    let other = server.actor.thread();
    let device = number_of_device(&server);
    let lingering = send_lingering(&client).unwrap_or_else(|| t.lacks("userfaultfd"));
    free_and_linger(&server, &call);
    // Another thread takes away all that the process has of the driver.
    let (address, length) = server.space.expect("a space");
    other.number(Op::Unmap { address, length }).expect("unmap");
    other.close_file(device);
    leave(t);
    drop(lingering);
    server.finish_raw();
    line.expect_cut("the closed descriptor's");
});

case!(lesson_s05_while_a_task_has_yet_to_close_a_device, ["PARAM-7", "OBJ-11"], |t| {
    let (server, client, _line, call) = kept_file(t);
    let number = server.received_array(&call, 1)[0];
    let lingering = send_lingering(&client).unwrap_or_else(|| t.lacks("userfaultfd"));
    // The number stands for the device itself now, which has no other descriptor and no mapping.
    let slot = server.actor.number(Op::DeviceAs { slot: server.slot, fd: number }).expect("a new number");
    server.close();
    server.unmap();
    let device = Port::at(server.actor.clone(), &server.arena, slot as usize);
    free_and_linger(&device, &call);
    t.unmount();
    assert_eq!(device.actor.file_name(number), None, "the descriptor is closed");
    assert_eq!(unload(t.driver), Err(Errno::EWOULDBLOCK), "the device is not closed yet");
    drop(lingering);
    device.finish_raw();
    expect_gone(t);
});

// Reclaim has taken pages a moment ago.
case!(after_pages_were_taken, ["PARAM-7", "PARAM-6"], Stage::needs_driver_alone, |t, ()| {
    let shrinker = Shrinker::needed(t);
    let (manager, client) = (t.manager_with(4 << 20), t.client());
    let data = vec![1; 2 << 20];
    manager.free(&client.call(&manager, 0, 0, &bytes(&data)));
    manager.answer(&client, &empty());
    assert!(shrinker.pages() >= pages_of(data.len()));
    shrinker.squeeze();
    manager.actor.kill();
    client.actor.kill();
    leave(t);
});

case!(while_epoll_knows_a_device, ["PARAM-7", "POLL-5"], Stage::needs_driver_alone, |t, ()| {
    let port = t.client();
    let set = port.epoll(false);
    assert_eq!(port.epoll_wait(set, 0), 0);
    let waiting = port.actor.thread();
    waiting.start(Op::EpollWait { set, timeout_ms: 2000 });
    waiting.expect_blocked();
    port.unmap();
    port.close();
    leave(t);
    assert_eq!(port.epoll_wait(set, 0), 0);
    waiting.interrupt();
    waiting.finish();
});

case!(while_a_device_is_in_a_socket, ["PARAM-7"], Stage::needs_driver_alone, |t, ()| {
    let port = t.opened();
    // Until it is given to somebody, it waits in a socket; who gets it cannot use it, and keeps it.
    let heir = Rc::new(Actor::new());
    port.actor.hand_over(port.slot, &heir);
    port.actor.kill();
    t.unmount();
    assert_eq!(unload(t.driver), Err(Errno::EWOULDBLOCK));
    heir.kill();
    expect_gone(t);
});

case!(while_a_device_is_mapped, ["PARAM-7", "MMAP-8"], Stage::needs_driver_alone, |t, ()| {
    let port = t.client();
    port.close();
    t.unmount();
    assert_eq!(unload(t.driver), Err(Errno::EWOULDBLOCK), "the mapping needs the driver");
    port.unmap();
    expect_gone(t);
});

// Calls of all kinds are on their way when both ends die, and the driver goes as soon as it can.
case!(while_others_are_killed, ["PARAM-7", "REL-1"], Stage::needs_driver_alone, |t, ()| {
    let (manager, clients) = (t.manager(), [t.client(), t.client(), t.client()]);
    clients[0].call(&manager, 0, 0, &bytes(b"served"));
    for client in &clients[1..] {
        client.start_blocking_call(0, 0, &bytes(b"waiting"));
    }
    for port in clients.iter().chain([&manager]) {
        port.actor.kill();
    }
    leave(t);
});

// Reclaim runs all the time.
case!(while_reclaim_goes_round, ["PARAM-7"], Stage::needs_driver_alone, |t, ()| {
    let shrinker = Shrinker::needed(t);
    let (manager, client) = (t.manager(), t.client());
    client.round_trip(0, &manager, &bytes(&vec![1; 100_000]), &empty());
    let (going, rounds) = (AtomicBool::new(true), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while going.load(Relaxed) && shrinker.try_scan() {
                rounds.fetch_add(1, Relaxed);
            }
        });
        while rounds.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        manager.actor.kill();
        client.actor.kill();
        leave(t);
        going.store(false, Relaxed);
    });
});

// Somebody looks for a device by its path, as long as there is one.
case!(while_paths_are_walked, ["PARAM-7", "BFS-15"], Stage::needs_driver_alone, |t, ()| {
    let device = t.device("binder");
    let walks = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while device.metadata().is_ok() {
                walks.fetch_add(1, Relaxed);
            }
        });
        while walks.load(Relaxed) < 100 {
            std::thread::yield_now();
        }
        leave(t);
    });
});

case!(while_a_log_is_open, ["PARAM-7", "BFS-12", "BFS-15"], Stage::needs_driver_alone, |t, ()| {
    hold_logs(t, &with_logs(t));
});

case!(while_a_log_of_debugfs_is_open, ["PARAM-7", "OPEN-2"], Stage::needs_driver_alone, |t, ()| {
    let debugfs = Debugfs::of(t);
    hold_logs(t, &debugfs.logs());
    assert!(!debugfs.logs().exists());
});

/// Opens a log of all processes and one of a process, and reads them as the driver's last user.
fn hold_logs(t: &Stage, logs: &Path) {
    let port = t.client();
    let its = format!("proc/{}", t.global_pid(&port));
    let [mut state, mut its] = ["state", &its].map(|log| File::open(logs.join(log)).expect("open a log"));
    port.kill();
    t.unmount();
    assert_eq!(unload(t.driver), Err(Errno::EWOULDBLOCK));
    expect_nothing_but("binder state:\n", &mut state);
    drop(state);
    assert_eq!(unload(t.driver), Err(Errno::EWOULDBLOCK));
    expect_nothing_but("", &mut its);
    drop(its);
    expect_gone(t);
}

case!(while_reports_are_listened_to, ["PARAM-7", "NL-1"], Stage::needs_driver_alone, |t, ()| {
    let (client, listener) = (t.client(), Listener::join().expect("join the group"));
    client.refused(&client.place(super::NO_HANDLE, 0, &empty()));
    client.kill();
    leave(t);
    assert_eq!(binder_family().expect("look the family up"), None);
    assert_eq!(listener.unread().len(), 1, "reports that were sent can still be read");
});

case!(while_named_otherwise, ["PARAM-6", "NL-1"], Stage::needs_driver_alone, |t, ()| {
    leave(t);
    loading::load("name=another").expect("load it with another name");
    let families = ["another", "binder"].map(|name| family(name).expect("look the family up").is_some());
    assert_eq!(families, [true, false]);
    expect_gone(t);
});

/// Loads the driver while the n-th possible failure of that happens. Returns whether there were so many.
fn load_without_memory(nth: u32, parameters: &str) -> (nix::Result<()>, bool) {
    with_a_failure(nth, || loading::load(parameters)).expect("fail-nth")
}

/// The first possible failure after the driver has begun: before that it refuses no parameter.
fn first_of_driver() -> u32 {
    let (mut least, mut most) = (1_u32, 1 << 16);
    while least < most {
        let nth = least.midpoint(most);
        match load_without_memory(nth, "handoff=2") {
            (Err(_), true) => least = nth + 1,
            (Err(Errno::EINVAL), false) => most = nth,
            other => panic!("{other:?} at place {nth}"),
        }
    }
    least
}

case!(loaded_without_memory, ["PARAM-2", "PARAM-7"], |t| {
    t.needs_driver_alone();
    can_fail(t);
    leave(t);
    let mut failed = 0;
    for nth in first_of_driver().. {
        let (result, is_hit) = load_without_memory(nth, "");
        match result {
            // The driver has no log, no reports or no events.
            Ok(()) => {
                mount_at(t.root(), None).expect("mount binderfs");
                let (server, client) = pair(t);
                client.round_trip(0, &server, &bytes(b"without"), &bytes(b"a log"));
                client.kill();
                server.kill();
                leave(t);
            }
            Err(Errno::ENOMEM) => failed += 1,
            Err(errno) => panic!("{errno} at place {nth}"),
        }
        if !is_hit {
            break;
        }
    }
    assert!(failed > 0, "the driver needs no memory");
});
