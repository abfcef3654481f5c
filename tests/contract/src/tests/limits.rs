// SPDX-License-Identifier: GPL-2.0
//! Limits of one process: parameters of our driver, which the others lack. Each is off by default.
//! A request beyond a limit fails as if there were no room. Nobody else notices it, and all that is
//! given back is available again.

use super::*;

/// A parameter that is set until the end of the test.
pub(super) struct Limit {
    pub(super) file: PathBuf,
    pub(super) before: String,
}

impl Limit {
    /// Sets a limit. `None` with a driver that has none.
    pub(super) fn set(t: &Stage, name: &str, value: u32) -> Option<Self> {
        let file = t.driver.parameter(name);
        if !t.ours_alone("what a process may have is not limited", file.exists()) {
            return None;
        }
        Some(Self::at(file, value))
    }

    /// Sets the number in a file until the end of the test.
    pub(super) fn at(file: PathBuf, value: u32) -> Self {
        let limit = Self::of(file);
        limit.change(value);
        limit
    }

    /// The number in a file, which is set back at the end of the test.
    pub(super) fn of(file: PathBuf) -> Self {
        let before = std::fs::read_to_string(&file).expect("read a limit");
        Self { file, before }
    }

    pub(super) fn get(&self) -> String {
        std::fs::read_to_string(&self.file).expect("read a limit").trim().to_string()
    }

    pub(super) fn change(&self, value: u32) {
        std::fs::write(&self.file, value.to_string()).expect("set a limit");
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.file, &self.before);
    }
}

const NAMES: [&str; 4] = ["max_nodes", "max_refs", "max_threads", "oneway_quota"];

case!(off_by_default, ["NODE-14", "ALLOC-3"], |t| {
    for file in NAMES.map(|name| t.driver.parameter(name)) {
        if t.ours_alone("what a process may have is not limited", file.exists()) {
            assert_eq!(std::fs::read_to_string(&file).expect("read a limit"), "0\n", "{file:?}");
        }
    }
});

case!(nonsense_is_refused, ["NODE-14", "ALLOC-3"], |t| {
    let Some(_limits) = Limit::set(t, "oneway_quota", 100) else { return };
    let invalid = |name, value: &str| {
        let error = std::fs::write(t.driver.parameter(name), value).expect_err("it is nonsense");
        assert_eq!(error.raw_os_error(), Some(Errno::EINVAL as i32), "{name}={value}");
    };
    invalid("oneway_quota", "101");
    for name in NAMES {
        invalid(name, "-1");
        invalid(name, "many");
    }
    let quota = std::fs::read_to_string(t.driver.parameter("oneway_quota")).expect("read a limit");
    assert_eq!(quota, "100\n");
});

/// One of the nodes of a process.
fn node(number: u64) -> FlatBinderObject {
    FlatBinderObject::binder(0x1000 + number * 0x10, number)
}

/// A call to the manager with these objects.
fn place_objects(sender: &Port, objects: &[FlatBinderObject]) -> BinderTransactionData {
    sender.place(0, 0, &parcel_of(objects.iter().copied()))
}

/// Sends objects in a call that has to fail like one for which there is no memory.
#[track_caller]
fn has_no_room(sender: &Port, objects: &[FlatBinderObject]) {
    assert_eq!(sender.failure(&place_objects(sender, objects)), failed(Errno::ENOMEM));
}

/// Gives the manager a node for good.
#[track_caller]
fn give(manager: &Port, owner: &Port, number: u64) -> u32 {
    let handle = give_in_a_call(manager, owner, node(number));
    owner.settle_counts();
    handle
}

/// Gives back a handle that [`give`] gave, and has the owner read the release.
fn take_back(manager: &Port, owner: &Port, handle: u32) {
    manager.send(|c| c.release(handle));
    owner.hear_counts();
}

case!(nodes_of_a_process, ["NODE-14", "OBJ-10"], two_clients, |t, (manager, owner, other)| {
    let Some(_limit) = Limit::set(t, "max_nodes", 3) else { return };
    let handles = [1, 2, 3].map(|number| give(&manager, &owner, number));
    for _ in 0..3 {
        has_no_room(&owner, &[node(4)]);
    }
    // The owner can still send the nodes it has, and others have their own.
    assert_eq!(give(&manager, &owner, 2), handles[1]);
    give(&manager, &other, 4);
    owner.round_trip(0, &manager, &bytes(b"no objects"), &empty());

    take_back(&manager, &owner, handles[0]);
    give(&manager, &owner, 4);
    has_no_room(&owner, &[node(5)]);
    // The owner's death takes all of them; another has as much room.
    owner.kill();
    for number in 5..7 {
        give(&manager, &other, number);
    }
    has_no_room(&other, &[node(7)]);
});

case!(nodes_that_came_to_nothing, ["NODE-14", "OBJ-10"], pair, |t, (manager, owner)| {
    let Some(_limit) = Limit::set(t, "max_nodes", 2) else { return };
    let unknown = FlatBinderObject::strong_handle(super::NO_HANDLE);
    for number in 0..6 {
        let refused = place_objects(&owner, &[node(number), node(number + 1), unknown]);
        assert_eq!(owner.failure(&refused), failed(Errno::EINVAL), "the nodes of round {number}");
        has_no_room(&owner, &[node(1), node(2), node(3)]);
    }
    // Nodes of failed calls are not counted, nor those that somebody held for a while.
    owner.settle_counts();
    for number in 0..8 {
        finish(&manager, &owner, &owner.call(&manager, 0, 0, &object(node(number))));
        owner.expect_forgotten();
    }
});

/// Sends these oneway calls at once, each by a thread of its own. Returns how many succeeded.
pub(super) fn race(sender: &Port, calls: &[BinderTransactionData]) -> usize {
    let threads: Vec<Port> = calls.iter().map(|_| sender.thread()).collect();
    for (thread, call) in threads.iter().zip(calls) {
        thread.start_transaction(call);
    }
    let went_through = |thread: &&Port| {
        thread.wait("a completion or a refusal", |item| match item {
            Return::TransactionComplete => Some(true),
            Return::FailedReply => Some(false),
            _ => None,
        })
    };
    let sent = threads.iter().filter(went_through).count();
    for thread in &threads {
        thread.settle_counts();
    }
    sent
}

case!(nodes_in_a_race, ["NODE-14"], pair, |t, (manager, owner)| {
    let Some(_limit) = Limit::set(t, "max_nodes", 5) else { return };
    for round in 0..3 {
        // Two threads are after each node.
        let calls: Vec<_> =
            (0..16).map(|number| owner.place_oneway(0, 0, &object(node(10 * round + number / 2)))).collect();
        let sent = race(&owner, &calls);
        // For each node that got its place, both or the later one.
        assert!((5..=10).contains(&sent), "{sent} calls with a node");
        let mut nodes: Vec<u32> = (0..sent).map(|_| manager.keep_handle(&manager.wait_call())).collect();
        nodes.sort_unstable();
        let counts = nodes.clone();
        nodes.dedup();
        assert_eq!(nodes.len(), 5);
        for handle in counts {
            manager.send(|c| c.release(handle));
        }
        owner.expect_forgotten();
    }
});

case!(node_of_the_manager, ["NODE-14", "CTX-1"], pair, |t, (manager, heir)| {
    let Some(limit) = Limit::set(t, "max_nodes", 1) else { return };
    give(&manager, &heir, 1);
    kill_and_wait(t, &manager);
    // It has not read the release of its node yet.
    assert_eq!(heir.set_context_manager(), Err(Errno::ENOMEM));
    limit.change(2);
    heir.set_context_manager().expect("become context manager");
    heir.hear_counts();
    let client = t.client();
    heir.enter_looper();
    client.round_trip(0, &heir, &empty(), &empty());
});

case!(refs_of_a_receiver, ["NODE-14", "OBJ-10", "NODE-10"], two_clients, |t, (manager, owner, other)| {
    let Some(_limit) = Limit::set(t, "max_refs", 3) else { return };
    let handles = [1, 2, 3].map(|number| give(&manager, &owner, number));
    for sender in [&owner, &other] {
        has_no_room(sender, &[node(4)]);
        assert_eq!(sender.drain(), [], "nobody has got the node");
        // It harms neither of them.
        sender.round_trip(0, &manager, &bytes(b"no objects"), &empty());
    }
    assert_eq!(give(&manager, &owner, 2), handles[1], "no other handle is needed");
    // The receiver's own objects need no handle either.
    manager.free(&owner.call(&manager, 0, 0, &empty()));
    let of_manager = owner.object(&manager.answer(&owner, &object(node(100)))).handle();
    owner.round_trip(0, &manager, &bytes(b"in between"), &empty());
    let call =
        owner.call_with(&manager, &place_objects(&owner, &[FlatBinderObject::strong_handle(of_manager)]));
    assert_eq!(manager.object(&call).binder, node(100).binder);
    finish(&manager, &owner, &call);

    // Of three, the first two have room.
    manager.send(|c| c.release(handles[0]).release(handles[1]));
    manager.send(|c| c.release(handles[1]));
    has_no_room(&other, &[node(4), node(5), node(6)]);
    assert_eq!(give(&manager, &other, 4), handles[0], "the lowest that is free");
    give(&manager, &other, 5);
    has_no_room(&other, &[node(6)]);
});

case!(refs_of_a_caller, ["NODE-14", "TXN-25"], pair, |t, (manager, caller)| {
    let Some(_limit) = Limit::set(t, "max_refs", 1) else { return };
    for (number, has_room) in [(1, true), (2, false), (3, false), (1, true)] {
        manager.free(&caller.call(&manager, 0, 0, &empty()));
        // The replier's service ends in both cases.
        manager.reply(&object(node(number)));
        if has_room {
            caller.keep_handle(&caller.wait_reply());
        } else {
            assert_eq!(caller.wait_refusal(), Return::FailedReply);
            assert_eq!(caller.extended_error(), failed(Errno::ENOMEM));
        }
        manager.settle_counts();
    }
    caller.round_trip(0, &manager, &bytes(b"no objects"), &bytes(b"none either"));
});

case!(refs_in_unread_calls, ["NODE-14", "OBJ-11"], pair, |t, (manager, sender)| {
    let Some(_limit) = Limit::set(t, "max_refs", 4) else { return };
    for round in 0..3 {
        for number in 0..4 {
            sender.tell(0, 0, &object(node(round * 4 + number)));
        }
        assert_eq!(sender.failure(&sender.place_oneway(0, 0, &object(node(99)))), failed(Errno::ENOMEM));
        for _ in 0..4 {
            manager.free(&manager.wait_call());
        }
    }
});

case!(ref_on_the_manager, ["NODE-14", "CTX-4", "WR-5"], pair, |t, (manager, client)| {
    let Some(_limit) = Limit::set(t, "max_refs", 1) else { return };
    manager.free(&client.call(&manager, 0, 0, &empty()));
    let reply = manager.answer(&client, &object(node(1)));
    let handle = client.object(&reply).handle();

    let manager_itself = FlatBinderObject::strong_handle(0);
    // A count that cannot be taken is not taken, and that is all.
    client.send(|c| c.acquire(0));
    client.round_trip(0, &manager, &bytes(b"handle 0 needs no ref to be called"), &empty());
    assert_eq!(client.failure(&place_objects(&client, &[manager_itself])), failed(Errno::EINVAL));
    client.send(|c| c.release(0));

    client.free(&reply);
    client.send(|c| c.acquire(0));
    manager.free(&client.call_with(&manager, &place_objects(&client, &[manager_itself])));
    manager.answer(&client, &empty());
    // Now it is the one that there is.
    manager.free(&client.call(&manager, 0, 0, &empty()));
    manager.reply(&object(node(1)));
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    assert_ne!(handle, 0);
});

case!(refs_with_links, ["NODE-14", "NODE-10"], pair, |t, (manager, owner)| {
    let Some(_limit) = Limit::set(t, "max_refs", 2) else { return };
    for round in 0..5 {
        let handles = [0, 1].map(|number| give(&manager, &owner, 2 * round + number));
        has_no_room(&owner, &[node(100)]);
        manager.send(|c| c.request_death(handles[0], 7).request_freeze(handles[1], 7));
        manager.send(|c| c.release(handles[0]).release(handles[1]));
        owner.hear_counts();
    }
    // Handles on a dead node still count.
    let handle = give(&manager, &owner, 1);
    manager.send(|c| c.request_death(handle, 8));
    owner.kill();
    manager.wait_for(Return::DeadBinder(8));
    let next = t.client();
    give(&manager, &next, 1);
    has_no_room(&next, &[node(2)]);
    manager.send(|c| c.dead_binder_done(8).release(handle));
    give(&manager, &next, 2);
});

case!(lowered_below_what_there_is, ["NODE-14"], pair, |t, (manager, owner)| {
    let Some(nodes) = Limit::set(t, "max_nodes", 0) else { return };
    let handles = [1, 2, 3, 4].map(|number| give(&manager, &owner, number));
    nodes.change(2);
    for number in 1..5 {
        assert_eq!(give(&manager, &owner, number), handles[number as usize - 1], "nothing is taken away");
    }
    has_no_room(&owner, &[node(5)]);
    for handle in &handles[..2] {
        take_back(&manager, &owner, *handle);
        take_back(&manager, &owner, *handle);
        has_no_room(&owner, &[node(5)]);
    }
    take_back(&manager, &owner, handles[2]);
    take_back(&manager, &owner, handles[2]);
    give(&manager, &owner, 5);
    nodes.change(0);
    for number in 6..20 {
        give(&manager, &owner, number);
    }
});

/// The errno of an attempt to use a device.
fn attempt(port: &Port) -> Errno {
    port.nonblocking(true);
    let errno = port.raw(WriteReadOp { room: ROOM, ..Default::default() }).errno;
    port.nonblocking(false);
    match errno {
        // There was nothing to read.
        Errno::EAGAIN => Errno::from_raw(0),
        errno => errno,
    }
}

/// No errno.
const DONE: Errno = Errno::UnknownErrno;

case!(threads_of_a_process, ["IOCTL-1", "TREL-3"], |t| {
    let Some(_limit) = Limit::set(t, "max_threads", 2) else { return };
    let (manager, client) = (t.manager(), t.client());
    let (second, third) = (manager.thread(), manager.thread());
    assert_eq!(attempt(&second), DONE);
    for _ in 0..3 {
        assert_eq!(attempt(&third), Errno::ENOMEM);
    }
    // Neither those that there are nor other processes notice.
    second.enter_looper();
    client.round_trip(0, &second, &empty(), &empty());
    client.round_trip(0, &manager, &empty(), &empty());
    assert_eq!(attempt(&client.thread()), DONE);

    second.ioctl(BINDER_THREAD_EXIT, 0i32).expect("leave");
    assert_eq!(attempt(&third), DONE);
    assert_eq!(attempt(&second), Errno::ENOMEM);
    third.ioctl(BINDER_THREAD_EXIT, 0i32).expect("leave");
    assert_eq!(attempt(&second), DONE);
});

case!(thread_that_polls, ["POLL-2"], |t| {
    let Some(limit) = Limit::set(t, "max_threads", 1) else { return };
    let server = t.manager();
    let second = server.thread();
    assert_eq!(second.poll(0), libc::POLLERR as u64);
    limit.change(2);
    assert_eq!(second.poll(0), 0);
});

case!(threads_that_ended, ["IOCTL-1", "TREL-1"], |t| {
    let Some(_limit) = Limit::set(t, "max_threads", 2) else { return };
    let (server, client) = (t.manager(), t.client());
    for _ in 0..4 {
        let thread = server.thread();
        assert_eq!(attempt(&thread), DONE);
        // It serves a call, and ends without `BINDER_THREAD_EXIT`.
        thread.enter_looper();
        client.call(&thread, 0, 0, &empty());
        thread.actor.start(Op::EndThread);
        let task = PathBuf::from(format!("/proc/{}/task/{}", thread.actor.pid(), thread.actor.tid()));
        until("the thread ends", || (!task.exists()).then_some(()));
        assert!(client.actor.is_blocked());
        let next = server.thread();
        assert_eq!(attempt(&next), DONE);
        // The end of its record makes room, and ends the client's wait.
        assert_eq!(client.wait_refusal(), Return::DeadReply);
        next.ioctl(BINDER_THREAD_EXIT, 0i32).expect("leave");
    }
});

case!(threads_are_not_asked_for_in_vain, ["LOOP-5"], |t| {
    let Some(limit) = Limit::set(t, "max_threads", 1) else { return };
    let (server, client) = (t.manager(), t.client());
    server.ioctl(BINDER_SET_MAX_THREADS, 4u32).expect("let the driver request threads");
    let is_asked = || {
        client.round_trip(0, &server, &empty(), &empty());
        server.passed().contains(&Return::SpawnLooper)
    };
    assert!(!is_asked(), "no other thread may come");
    limit.change(2);
    assert!(is_asked());
    server.thread().send(|c| c.register_looper());
    assert!(!is_asked());
});
