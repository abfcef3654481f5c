// SPDX-License-Identifier: GPL-2.0
//! Open, close, duplicates, and descriptors in the hands of other processes.

use super::fds::file_parcel;
use super::*;
use crate::scheduling::set_policy;
use nix::unistd::gettid;
use std::os::fd::AsRawFd;
use std::sync::Barrier;

case!(any_open_mode_works, ["OPEN-1"], |t| {
    let actor = Rc::new(Actor::new());
    let arena = Rc::new(crate::arena::Arena::new());
    for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_RDWR | libc::O_NONBLOCK] {
        let path = t.device("binder").to_str().expect("text").to_string();
        let slot = actor.number(Op::Open { path, flags }).expect("open") as usize;
        let port = Port::at(actor.clone(), &arena, slot);
        assert!(port.ioctl(BINDER_VERSION, BinderVersion::default()).is_ok(), "{flags:#o}");
    }
});

case!(read_and_write_are_not_there, ["OPEN-3"], |t| {
    let device = Device::open(&t.device("binder")).expect("open");
    assert_eq!(nix::unistd::read(&device, &mut [0]), Err(Errno::EINVAL));
    assert_eq!(nix::unistd::write(&device, &[0]), Err(Errno::EINVAL));
});

case!(two_opens_are_two_processes, ["OPEN-1", "NODE-2"], pair, |t, (manager, first)| {
    let mut second = t.open_by(first.actor.clone());
    second.map(4096).expect("a second file has a space of its own");
    // The same node pointer sent through two files is two nodes, hence two handles.
    let mut handles = Vec::new();
    for port in [&first, &second] {
        let call = port.call(&manager, 0, 0, &object(FlatBinderObject::binder(0x10, 1)));
        handles.push(manager.object(&call).handle());
        manager.answer(port, &empty());
    }
    assert_ne!(handles[0], handles[1]);
});

case!(duplicate_is_the_same_process, ["REL-2"], pair, |t, (manager, client)| {
    let slot = client.actor.number(Op::Duplicate { slot: client.slot }).expect("dup") as usize;
    client.close();
    let mut rest = Port::at(client.actor.clone(), &client.arena, slot);
    rest.space = client.space;
    rest.round_trip(0, &manager, &bytes(b"one"), &bytes(b"two"));
    assert_eq!(rest.map(4096), Err(Errno::EBUSY), "the space is mapped already");
});

case!(closing_a_duplicate_wakes_readers, ["REL-1", "IOCTL-4"], Stage::server, |t, port| {
    let helper = port.thread();
    let slot = helper.actor.number(Op::Duplicate { slot: port.slot }).expect("dup") as usize;
    port.park();
    helper.actor.number(Op::Close { slot }).expect("close");
    let outcome = port.finish_raw();
    assert_eq!(outcome.errno, Errno::from_raw(0));
    assert!(outcome.returns().iter().all(|item| *item == Return::Noop), "{:?}", outcome.returns());
    // The process works as before.
    port.park();
    port.interrupt_wait();
});

/// Closes a duplicate while a thread waits in a read. Its return shows that the flush is over.
fn flush(port: &Port, last: &Port) {
    port.nonblocking(false);
    last.park();
    let slot = port.actor.number(Op::Duplicate { slot: port.slot }).expect("dup") as usize;
    port.actor.number(Op::Close { slot }).expect("close");
    assert_eq!(last.finish_raw().errno, Errno::from_raw(0));
    port.nonblocking(true);
}

case!(ioctl_after_a_flush_uses_it_up, ["REL-1", "IOCTL-4"], Stage::server, |t, port| {
    // Drivers go through the threads in the order of their numbers.
    let last = port.looper();
    let read = || port.raw(WriteReadOp { room: ROOM, ..Default::default() }).errno;
    flush(&port, &last);
    let returns = read() == Errno::from_raw(0);
    t.known_difference(Driver::Upstream, "only threads that wait are told", returns);
    assert_eq!(read(), Errno::EAGAIN);
    flush(&port, &last);
    port.ioctl(BINDER_VERSION, BinderVersion::default()).expect("the version");
    assert_eq!(read(), Errno::EAGAIN);
});

/// The shortest time in which one of the device's descriptors is closed, by a thread that no worker
/// preempts.
fn close_a_duplicate(device: &Device) -> Duration {
    let close = |_| {
        let copy = device.duplicate().expect("duplicate the descriptor");
        let began = Instant::now();
        drop(copy);
        began.elapsed()
    };
    set_policy(gettid(), libc::SCHED_FIFO, 1);
    let shortest = (0..50).map(close).min().unwrap();
    set_policy(gettid(), libc::SCHED_OTHER, 0);
    shortest
}

// Processes to which a device was sent close it, too.
case!(who_closes_a_duplicate_does_not_walk_the_threads, ["REL-1"], |t| {
    let device = Device::open(&t.device("binder")).expect("open the device");
    let enters = || device.write_all(Commands::new().enter_looper().as_bytes()).expect("BC_ENTER_LOOPER");
    let enter = |threads| {
        for _ in 0..threads {
            std::thread::scope(|scope| scope.spawn(enters).join().unwrap());
        }
    };
    // A record has the number of its thread. Some guests have few numbers.
    let _numbers = Limit::at("/proc/sys/kernel/pid_max".into(), 1 << 15);
    enter(100);
    let few = close_a_duplicate(&device);
    enter(4000);
    let many = close_a_duplicate(&device);
    assert!(many < 8 * few, "{many:?} with 4100 threads, {few:?} with 100");
    // They are made to return nevertheless, each time. Upstream's driver does that to those that wait.
    for _ in 0..if t.driver == Driver::Upstream { 0 } else { 3 } {
        let ready = Barrier::new(2);
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| {
                enters();
                ready.wait();
                device.write_read(&[], &mut [0; 64])
            });
            ready.wait();
            drop(device.duplicate().expect("duplicate the descriptor"));
            assert!(reads.join().unwrap().expect("read").read_consumed <= 4);
        });
    }
});

case!(close_is_the_end_for_peers, ["REL-2", "REL-3", "CTX-5"], pair, |t, (manager, client)| {
    client.round_trip(0, &manager, &empty(), &empty());
    client.start_blocking_call(0, 0, &empty());
    manager.give_up();
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::DeadReply);
});

/// A stranger's ioctls are refused, or, in the C driver, count as those of a thread of the process.
fn stranger(t: &Stage, port: &Port, manager: &Port) {
    let result = port.ioctl(BINDER_SET_MAX_THREADS, 1u32);
    assert_eq!(result.is_err(), t.driver != Driver::C, "both Rust drivers are strict");
    match result {
        Err(errno) => {
            assert_eq!(errno, Errno::EINVAL);
            let outcome = port.raw(WriteReadOp { room: 256, ..Default::default() });
            assert_eq!(outcome.errno, Errno::EINVAL, "all that needs a thread is refused alike");
        }
        Ok(_) => {
            assert_eq!(port.call(manager, 0, 7, &empty()).code, 7);
            assert_eq!(manager.answer(port, &bytes(b"to a stranger")).data_size, 13);
        }
    }
}

case!(inherited_descriptor, ["FORK-1"], pair, |t, (manager, client)| {
    let child = Rc::new(client.actor.fork());
    stranger(t, &client.used_by(child), &manager);
    client.round_trip(0, &manager, &bytes(b"the opener"), &bytes(b"goes on"));
});

case!(inherited_descriptor_cannot_map, ["FORK-1", "MMAP-1", "MMAP-8"], Stage::opened, |t, port| {
    let mut child = port.used_by(Rc::new(port.actor.fork()));
    assert_eq!(child.map(4096), Err(Errno::EINVAL));
    let mut port = port;
    port.map(4096).expect("the opener can");
});

case!(passed_descriptor, ["FORK-1"], pair, |t, (manager, client)| {
    let other = Rc::new(Actor::new());
    let slot = client.actor.hand_over(client.slot, &other);
    let mut port = Port::at(other, &client.arena, slot);
    stranger(t, &port, &manager);
    assert_eq!(port.map(4096), Err(Errno::EINVAL));
});

case!(process_lives_until_the_last_descriptor, ["REL-2", "MMAP-7"], pair, |t, (manager, client)| {
    let keeper = Rc::new(Actor::new());
    let slot = manager.actor.hand_over(manager.slot, &keeper);
    manager.kill();
    // The file is open, so the manager is still there; but its memory is gone.
    let answer = client.refused(&client.place(0, 0, &empty()));
    t.known_difference(Driver::Upstream, "unreachable, but not dead", answer == Return::DeadReply);
    let second = t.opened();
    assert_eq!(second.ioctl(BINDER_SET_CONTEXT_MGR, 0i32).err(), Some(Errno::EBUSY));
    keeper.number(Op::Close { slot }).expect("close");
    second.set_context_manager().expect("the place is free");
});

case!(many_opens, ["OPEN-1", "REL-2"], Stage::opened, |t, port| {
    for _ in 0..200 {
        let path = t.device("binder").to_str().expect("text").to_string();
        let slot = port.actor.number(Op::Open { path, flags: libc::O_RDWR }).expect("open");
        let other = Port::at(port.actor.clone(), &port.arena, slot as usize);
        assert!(other.ioctl(BINDER_VERSION, BinderVersion::default()).is_ok());
        other.close();
    }
});

/// The number of the device in a process that opened it last.
fn number_of(t: &Stage, port: &Port, device: &str) -> i32 {
    let name = t.device(device).to_str().expect("text").to_string();
    let is_device = |fd: &i32| port.actor.file_name(*fd).as_ref() == Some(&name);
    port.actor.open_files().into_iter().rfind(is_device).expect("an open device")
}

/// A oneway call to the manager with one file, from a process that ends then.
fn send_file(t: &Stage, device: &str, sent: &impl AsRawFd) {
    let client = open_another(t, &t.opened(), device);
    let fd = client.actor.give(sent);
    client.send(|c| c.transaction(&client.place_oneway(0, 0, &file_parcel(fd))));
    assert_eq!(client.drain(), [Return::TransactionComplete]);
    client.kill();
}

/// Another device opened by the same process.
fn open_another(t: &Stage, port: &Port, device: &str) -> Port {
    Port::open(port.actor.clone(), &port.arena, &t.device(device), 0).expect("open the device")
}

/// A process manages a device whose calls may carry files.
fn managed(t: &Stage, device: &str) -> Port {
    let mut port = open_another(t, &t.opened(), device);
    port.map(4096).expect("map");
    port.managing(ObjectFlags::ACCEPTS_FDS)
}

/// The device has no manager any more; with the incumbents it still has, and will for ever.
#[track_caller]
fn expect_unmanaged(t: &Stage, device: &str) {
    let next = Device::open(&t.device(device)).expect("open");
    let deadline = Instant::now() + patience();
    // The C driver takes its time.
    while next.set_context_manager() == Err(Errno::EBUSY) {
        if t.driver != Driver::Rust || Instant::now() > deadline {
            t.ours_alone("what a dead process was sent keeps it alive", false);
            return;
        }
        std::thread::yield_now();
    }
}

// Somebody sends a process its own device, and nobody reads of it.
case!(lesson_s11_device_sent_to_its_own_process, ["REL-2", "OBJ-FD"], |t| {
    // With C its process manages the context for ever.
    t.needs_new_devices();
    let manager = managed(t, "binder");
    send_file(t, "binder", &manager.actor.share(number_of(t, &manager, "binder")));
    manager.kill();
    expect_unmanaged(t, "binder");
});

// Each of two processes is sent the other's device; nobody reads of it.
case!(lesson_s11_devices_sent_to_each_other, ["REL-2", "OBJ-FD"], Stage::needs_new_devices, |t, ()| {
    let (first, second) = (managed(t, "binder"), managed(t, "hwbinder"));
    send_file(t, "hwbinder", &first.actor.share(number_of(t, &first, "binder")));
    send_file(t, "binder", &second.actor.share(number_of(t, &second, "hwbinder")));
    first.kill();
    second.kill();
    expect_unmanaged(t, "binder");
    expect_unmanaged(t, "hwbinder");
});

// A receiver of a device's file has the device open as long as it keeps the file.
case!(lesson_s11_sent_device_arrives, ["REL-2", "OBJ-FD"], file_pair, |t, (manager, client)| {
    let call = client.call(&manager, 0, 0, &file_parcel(number_of(t, &client, "binder")));
    let arrived = manager.received_fd(&call, 0);
    assert_eq!(manager.actor.file_name(arrived), manager.actor.file_name(number_of(t, &manager, "binder")));
    finish(&manager, &client, &call);
    // The manager requests the death of a node of the client's, which closes its device.
    let handle = give_in_a_call(&manager, &client, FlatBinderObject::binder(0x10, 0));
    manager.send(|c| c.request_death(handle, 7));
    client.unmap();
    client.close();
    assert_eq!(manager.drain(), [], "somebody has the device open");
    manager.actor.close_file(arrived);
    manager.wait_for(Return::DeadBinder(7));
});

// A call does not keep a device open until it is read.
case!(lesson_s11_sent_device_is_closed_before_it_arrives, ["REL-2", "OBJ-FD", "TXN-27"], |t| {
    let (manager, client) = (t.file_manager(), t.client());
    let _spare = t.open_by(client.actor.clone());
    let (sent, other) = (number_of(t, &client, "binder"), client.actor.thread());
    client.start_blocking_call(0, 0, &file_parcel(sent));
    let before = manager.actor.open_files();
    other.close_file(sent);
    if t.driver == Driver::Rust {
        manager.park();
        assert_eq!(client.wait_refusal(), Return::FailedReply);
        assert_eq!(manager.actor.open_files(), before);
    } else {
        t.known_difference(t.driver, "a call keeps a device open", false);
        assert!(manager.received_fd(&manager.wait_call(), 0) > 0);
    }
});
