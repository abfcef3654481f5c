// SPDX-License-Identifier: GPL-2.0
//! Events while a call or a reply of another party is being copied or delivered.
//!
//! The driver holds no lock over a copy, so what it checked before may be out of date afterwards.
//! Here the copy waits for a missing page, while another party dies, freezes, leaves or gets a
//! signal. `docs/locking.md` lists the gaps and the checks after them.

use super::*;

/// Pages that are not there, for who sends or receives; [`None`] if the kernel has no userfaultfd.
pub(super) fn absent(t: &Stage, port: &Port, pages: usize) -> Absent {
    let start = port.arena.reserve((pages + 1) * page()).next_multiple_of(page() as u64);
    let made = Absent::of(&port.actor, start, pages * page());
    t.needs("CONFIG_USERFAULTFD", made.as_ref().err() != Some(&Errno::ENOSYS));
    made.expect("memory that is missing")
}

/// A call or a reply whose data are that page.
pub(super) fn of_page(absent: &Absent, handle: u32, code: u32) -> BinderTransactionData {
    let data = empty().to_handle(handle, code, TransactionFlags::empty());
    BinderTransactionData { buffer: absent.start, data_size: page() as u64, ..data }
}

/// Makes a call of a missing page, and waits until the driver waits for that.
pub(super) fn start_absent(port: &Port, absent: &Absent, handle: u32, code: u32) {
    port.start_transaction(&of_page(absent, handle, code));
    assert_eq!(absent.wait(), 0);
}

/// Everything up to a return, in order.
fn all_until(port: &Port, last: Return) -> Vec<Return> {
    // Earlier returns belong to earlier moves.
    port.ignore_passed();
    let mut items = Vec::new();
    while !items.contains(&last) {
        if !port.actor.is_busy() {
            port.start_read();
        }
        items.extend(port.finish_read());
    }
    items
}

/// A chain: a calls b, b calls c, which is the context manager and has a handle on a; (a, b, c, handle).
fn chain(t: &Stage) -> (Port, Port, Port, u32) {
    let (c, a, b) = (t.manager(), t.server(), t.server());
    let on_b = introduce(&c, &b, FlatBinderObject::binder(0xb0, 0), &a);
    let on_a = give_in_a_call(&c, &a, FlatBinderObject::binder(0xa0, 0));
    a.settle_counts();
    b.settle_counts();
    a.send_call_to(&b, on_b, 1, &empty());
    b.call(&c, 0, 2, &empty());
    (a, b, c, on_a)
}

/// Returns whether a chain's start gets the middle's death before the end has replied.
fn tells_at_once(t: &Stage) -> bool {
    t.driver == Driver::Rust
}

case!(lesson_s03_middle_dies_while_a_call_back_is_copied, ["TXN-11", "TREL-1"], |t| {
    let (a, b, c, on_a) = chain(t);
    let absent = absent(t, &c, 1);
    let second = a.looper();
    start_absent(&c, &absent, on_a, 3);
    b.kill();
    if !tells_at_once(t) {
        // a waits still, so it is given the call.
        absent.provide(0, b"back");
        a.serve(&c);
        c.reply(&bytes(b"to nobody"));
        assert_eq!(a.wait_refusal(), Return::DeadReply);
        return;
    }
    assert_eq!(a.wait_refusal(), Return::DeadReply);
    absent.provide(0, b"back");
    // It does not read again: the call is for the next thread that does.
    assert_eq!(second.wait_call().code, 3);
    assert_eq!(c.data(&second.answer(&c, &bytes(b"from the pool"))), b"from the pool");
    c.reply(&bytes(b"to nobody"));
    a.round_trip(0, &c, &bytes(b"its next call"), &bytes(b"has its own reply"));
});

// The thread that waited waits again, at the same place, but for another call.
case!(lesson_s03_waiting_thread_makes_another_call_meanwhile, ["TXN-11", "TREL-1"], |t| {
    let (a, b, c, on_a) = chain(t);
    let absent = absent(t, &c, 1);
    let (second, server) = (a.looper(), c.looper());
    start_absent(&c, &absent, on_a, 3);
    b.kill();
    if !tells_at_once(t) {
        absent.provide(0, b"back");
        a.wait_call();
        return;
    }
    assert_eq!(a.wait_refusal(), Return::DeadReply);
    a.call(&server, 0, 4, &empty());
    absent.provide(0, b"back");
    assert_eq!(second.wait_call().code, 3);
    assert!(a.actor.is_blocked());
    assert_eq!(a.data(&server.answer(&a, &bytes(b"to the other call"))), b"to the other call");
    second.answer(&c, &empty());
});

case!(waiting_thread_exits_while_a_call_back_is_copied, ["TXN-11", "TREL-1"], chain, |t, (a, b, c, on_a)| {
    let absent = absent(t, &c, 1);
    start_absent(&c, &absent, on_a, 3);
    assert_eq!(a.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    absent.provide(0, b"back");
    assert_eq!(c.wait_refusal(), Return::DeadReply);
    assert_eq!(b.data(&c.answer(&b, &bytes(b"all the same"))), b"all the same");
    // To nobody.
    b.reply(&empty());
    a.enter_looper();
    a.round_trip(0, &c, &empty(), &empty());
});

case!(target_ends_while_a_call_is_copied, ["REL-2", "TXN-1"], |t| {
    for is_killed in [false, true] {
        let (manager, client) = (t.manager(), t.client());
        let absent = absent(t, &client, 1);
        start_absent(&client, &absent, 0, 1);
        if is_killed {
            manager.kill();
        } else {
            manager.give_up();
        }
        absent.provide(0, b"too late");
        assert_eq!(client.wait_refusal(), Return::DeadReply);
        assert_eq!(client.drain(), []);
        let next = t.manager();
        client.round_trip(0, &next, &bytes(b"question"), &bytes(b"answer"));
        next.kill();
    }
});

// The object is read when the target's handles were taken away already: none may be added.
case!(object_for_a_target_that_ends_while_it_is_read, ["REL-2", "OBJ-10"], pair, |t, (manager, client)| {
    let absent = absent(t, &client, 1);
    let parcel = object(FlatBinderObject::binder(0x10, 0x11));
    let call = client.place(0, 1, &parcel);
    client.start_transaction(&BinderTransactionData { buffer: absent.start, ..call });
    assert_eq!(absent.wait(), 0);
    manager.kill();
    // The handles are the last that the driver takes away.
    std::thread::sleep(Duration::from_millis(200));
    absent.provide(0, &parcel.data);
    assert!(matches!(client.wait_refusal(), Return::DeadReply | Return::FailedReply));
    client.expect_forgotten();
});

// A node whose owner ends while a call of it is copied goes with its last handle. In C it stays,
// with "ls -1": `binder_node_release` clears the counts, and `binder_transaction` then lowers them.
case!(node_of_a_target_that_ends_is_not_left, ["NODE-12", "REL-2"], Logs::of, |t, logs| {
    let (manager, owner, client) = (t.manager(), t.server(), t.client());
    let absent = absent(t, &client, 1);
    let handle = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x50, 0x51), &client);
    let id = logs.node(&owner, 0x50).id;
    let dead = || logs.state().dead_nodes.into_iter().find(|node| node.id == id);
    start_absent(&client, &absent, handle, 1);
    owner.kill();
    until("the node is dead", dead);
    absent.provide(0, b"too late");
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    client.send(|c| c.release(handle));
    let why = "a node is left whose owner ended while a call of it was copied";
    t.known_difference(Driver::C, why, dead().is_none());
});

case!(target_freezes_while_a_call_is_copied, ["FRZ-1", "FRZ-3"], pair, |t, (manager, client)| {
    let absent = absent(t, &client, 1);
    let freezer = Freezer::of(t, &manager);
    start_absent(&client, &absent, 0, 1);
    // A call counts from when it is queued.
    assert_eq!(freezer.freeze(LONG), Ok(()));
    absent.provide(0, b"too late");
    assert_eq!(client.wait_refusal(), Return::FrozenReply);
    assert_eq!(client.drain(), []);
    assert_eq!(freezer.thaw(), Ok(()));
    client.round_trip(0, &manager, &bytes(b"question"), &bytes(b"answer"));
});

case!(sender_is_signalled_while_a_call_is_copied, ["TXN-1", "WR-11"], pair, |t, (manager, client)| {
    let absent = absent(t, &client, 1);
    let signals = client.actor.signals();
    start_absent(&client, &absent, 0, 1);
    client.actor.interrupt();
    absent.provide(0, b"data");
    // The call is made, and only then the signal is looked at: no reply was there to be read.
    assert_eq!(&manager.data(&manager.wait_call())[..4], b"data");
    assert_eq!(client.finish_raw().errno, Errno::EINTR);
    assert_eq!(client.actor.signals(), signals + 1);
    assert_eq!(client.data(&manager.answer(&client, &bytes(b"answer"))), b"answer");
});

// Another thread of the sender gives up the handle that a call is made through.
case!(handle_goes_while_a_call_is_copied, ["TXN-7", "TXN-8"], trio, |t, (manager, owner, client)| {
    let absent = absent(t, &client, 1);
    let on_owner = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x50, 0x51), &client);
    let helper = client.thread();
    start_absent(&client, &absent, on_owner, 1);
    helper.send(|c| c.release(on_owner));
    absent.provide(0, b"data");
    // Either the call counts, and its node is there, or it is refused. The owner is not called by a
    // pointer whose release it has read.
    if client.actor.is_blocked() {
        let call = owner.wait_call();
        assert_eq!((call.target, call.cookie), (0x50, 0x51));
        owner.answer(&client, &empty());
    } else {
        assert_eq!(client.wait_refusal(), Return::FailedReply);
    }
    client.round_trip(0, &manager, &empty(), &empty());
});

/// Two that wait for each other: a has called b, and serves a call back from b; (manager, a, b).
fn call_back(t: &Stage) -> (Port, Port, Port) {
    let (manager, a, b, on_b, on_a) = couple(t);
    // Its tickets are there, as for a thread that has worked for a while.
    a.round_trip(0, &manager, &empty(), &empty());
    a.send_call_to(&b, on_b, 1, &empty());
    b.start_blocking_call(on_a, 2, &empty());
    a.wait_call();
    (manager, a, b)
}

/// The check above for a replier. C sometimes returns nothing of the outer call.
#[track_caller]
fn completes_first(t: &Stage, manager: &Port, a: &Port) {
    if t.driver == Driver::Rust {
        return completes_before_the_outcome(manager, a);
    }
    let mut told = a.finish_raw().returns();
    told.extend(a.drain());
    let at = |wanted: Return| told.iter().position(|item| *item == wanted);
    let (complete, dead) = (at(Return::TransactionComplete), at(Return::DeadReply));
    assert!(complete.is_some() && dead.is_none_or(|dead| complete < Some(dead)), "{told:?}");
}

/// The completion comes first: the outcome of the outer call would be taken for the reply's end.
#[track_caller]
fn completes_before_the_outcome(manager: &Port, a: &Port) {
    let told = all_until(a, Return::DeadReply);
    let told: Vec<&Return> =
        told.iter().filter(|item| !matches!(item, Return::Increfs(_) | Return::Acquire(_))).collect();
    assert_eq!(told, [&Return::TransactionComplete, &Return::DeadReply]);
    a.round_trip(0, manager, &bytes(b"question"), &bytes(b"answer"));
}

case!(lesson_s04_outer_call_ends_while_a_reply_with_objects_is_copied, ["TXN-17", "TXN-26"], |t| {
    for is_good in [true, false] {
        let (manager, a, b) = call_back(t);
        let absent = absent(t, &a, 1);
        let reply = a.place(0, 0, &object(FlatBinderObject::binder(0x10, 0)));
        a.start(&stream(|c| c.reply(&BinderTransactionData { offsets: absent.start, ..reply })));
        assert_eq!(absent.wait(), 0);
        kill_and_wait(t, &b);
        let offset = if is_good { 0u64 } else { 3 };
        absent.provide(0, &offset.to_ne_bytes());
        completes_first(t, &manager, &a);
        manager.kill();
    }
});

case!(lesson_s04_outer_call_ends_while_a_reply_fails, ["TXN-25", "TXN-26"], |t| {
    // The completion is read in the ioctl of the reply, or later.
    for room in [ROOM, 0] {
        let (manager, a, b) = call_back(t);
        let absent = absent(t, &a, 2);
        let behind = absent.start + page() as u64;
        a.actor.number(Op::Unmap { address: behind, length: page() }).expect("unmap");
        let mut commands = Commands::new();
        let reply = of_page(&absent, 0, 0);
        commands.reply(&BinderTransactionData { data_size: 2 * page() as u64, ..reply });
        a.start_raw(WriteReadOp { room, ..WriteReadOp::of(&commands) });
        assert_eq!(absent.wait(), 0);
        kill_and_wait(t, &b);
        absent.provide(0, b"half of it");
        completes_first(t, &manager, &a);
        manager.kill();
    }
});

case!(caller_ends_while_a_reply_is_copied, ["TXN-13", "TXN-25"], |t| {
    for way in 0..3 {
        let (server, client) = (t.manager(), t.client());
        let absent = absent(t, &server, 1);
        client.send_call_to(&server, 0, 1, &empty());
        server.start(&stream(|c| c.reply(&of_page(&absent, 0, 0))));
        assert_eq!(absent.wait(), 0);
        match way {
            0 => client.kill(),
            1 => client.give_up(),
            _ => assert_eq!(client.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0)),
        }
        absent.provide(0, b"to nobody");
        server.wait_for(Return::TransactionComplete);
        assert_eq!(server.drain(), []);
        if way == 2 {
            assert_eq!(client.drain(), [], "the thread is another one now");
        }
        t.client().round_trip(0, &server, &bytes(b"question"), &bytes(b"answer"));
        server.kill();
    }
});

// A process that waits for a reply cannot be frozen, and the attempt does not cost it the reply.
case!(caller_is_to_freeze_while_a_reply_is_copied, ["FRZ-2", "TXN-13"], pair, |t, (server, client)| {
    let absent = absent(t, &server, 1);
    let freezer = Freezer::of(t, &client);
    client.send_call_to(&server, 0, 1, &empty());
    server.start(&stream(|c| c.reply(&of_page(&absent, 0, 0))));
    assert_eq!(absent.wait(), 0);
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    absent.provide(0, b"all the same");
    server.wait_for(Return::TransactionComplete);
    assert_eq!(&client.data(&client.wait_reply())[..12], b"all the same");
});

case!(replier_dies_while_it_replies, ["TREL-1", "REL-2"], pair, |t, (server, client)| {
    let absent = absent(t, &server, 1);
    client.call(&server, 0, 1, &empty());
    server.start(&stream(|c| c.reply(&of_page(&absent, 0, 0))));
    assert_eq!(absent.wait(), 0);
    server.kill();
    let told = client.wait_refusal();
    assert!(matches!(told, Return::DeadReply | Return::FailedReply), "{told:?}");
    client.round_trip(0, &t.manager(), &bytes(b"question"), &bytes(b"answer"));
});

// A thread that replies serves no call any more, however long its data take.
case!(replier_freezes_while_it_replies, ["FRZ-2", "TXN-24"], pair, |t, (server, client)| {
    let absent = absent(t, &server, 1);
    let freezer = Freezer::of(t, &server);
    client.send_call_to(&server, 0, 1, &empty());
    let reply = server.place(0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    server.start(&stream(|c| c.reply(&BinderTransactionData { offsets: absent.start, ..reply })));
    assert_eq!(absent.wait(), 0);
    let frozen = freezer.freeze(200);
    t.ours_alone("the call counts until its reply is on its way", frozen == Ok(()));
    absent.provide(0, &0u64.to_ne_bytes());
    server.wait_for(Return::TransactionComplete);
    assert_eq!(freezer.thaw(), Ok(()));
    client.wait_reply();
});

/// A read whose buffer is that page. The driver waits for the page before it looks for work, if it
/// has to write more than a first code.
pub(super) fn start_read_into(port: &Port, absent: &Absent) {
    let (read_buffer, read_size) = (Some(absent.start), Some(ROOM as u64));
    port.start_raw(WriteReadOp { read_buffer, read_size, read_consumed: FIRST_CODE, ..Default::default() });
}

/// The size of the code that a read begins with.
const FIRST_CODE: u64 = 4;

pub(super) fn finish_read_into(port: &Port, absent: &Absent) -> Vec<Return> {
    absent.provide(0, &[]);
    let outcome = port.finish_raw();
    assert_eq!(outcome.errno, Errno::from_raw(0));
    let read = port.arena.fetch(absent.start, outcome.read_consumed as usize);
    Returns::new(&read[FIRST_CODE as usize..]).map(|item| item.expect("whole items")).collect()
}

case!(caller_leaves_while_its_call_is_delivered, ["TXN-5", "TXN-13"], pair, |t, (server, client)| {
    let absent = absent(t, &server, 1);
    start_read_into(&server, &absent);
    client.send_call(0, 7, &bytes(b"orphan"));
    assert_eq!(absent.wait(), 0);
    assert_eq!(client.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    let call = finish_read_into(&server, &absent).iter().find_map(call_of);
    let call = call.expect("the call");
    assert_eq!((call.code, server.data(&call).as_slice()), (7, &b"orphan"[..]));
    server.reply(&bytes(b"to nobody"));
    assert_eq!(client.drain(), []);
    client.round_trip(0, &server, &bytes(b"question"), &bytes(b"answer"));
});

case!(outer_call_ends_while_a_call_back_is_delivered, ["TXN-26", "TREL-1"], |t| {
    let (manager, a, b, on_b, on_a) = couple(t);
    let absent = absent(t, &a, 1);
    a.send_call_to(&b, on_b, 1, &empty());
    start_read_into(&a, &absent);
    b.start_call(on_a, 2, &empty());
    // The C driver writes the completion, which did not end its sleep, before it looks for the call.
    assert_eq!(absent.wait(), 0);
    b.kill();
    let told = finish_read_into(&a, &absent);
    assert!(matches!(told[..], [Return::TransactionComplete, Return::Transaction(_)]), "{told:?}");
    a.send(|c| c.reply(&a.place(0, 0, &empty())));
    completes_before_the_outcome(&manager, &a);
});

// Commands behind a failed reply wait until the thread has read its completion.
case!(commands_stop_at_a_reply_that_failed, ["TXN-25", "WR-2"], pair, |t, (manager, client)| {
    client.round_trip(0, &manager, &empty(), &empty());
    client.call(&manager, 0, 1, &empty());
    let bad = BinderTransactionData { buffer: 8, data_size: 64, ..manager.place(0, 0, &empty()) };
    let mut commands = Commands::new();
    commands.reply(&bad);
    let of_reply = commands.len();
    commands.exit_looper();
    assert_eq!(manager.try_write(&commands).write_consumed as usize, of_reply);
    let rest = stream(|c| c.enter_looper());
    assert_eq!(manager.try_write(&rest).write_consumed, 0, "still unread");
    assert_eq!(manager.drain(), [Return::TransactionComplete]);
    manager.write(&rest);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    client.round_trip(0, &manager, &bytes(b"question"), &bytes(b"answer"));
});

// The completion of a call that fails is taken back from among unread ones.
case!(lesson_s06_failed_calls_do_not_search_unread_work, ["TXN-19", "TXN-20"], |t| {
    let (manager, client) = pair(t);
    let oneway = empty().to_handle(0, 1, TransactionFlags::ONE_WAY);
    client.round_trip(0, &manager, &empty(), &empty());
    for unread in [0, 1, 5] {
        for _ in 0..unread {
            client.send(|c| c.transaction(&oneway));
        }
        let bad = BinderTransactionData { buffer: 8, data_size: 64, ..client.place(0, 0, &empty()) };
        client.try_write(&stream(|c| c.transaction(&bad)));
        let mut told = vec![Return::TransactionComplete; unread];
        told.push(Return::FailedReply);
        assert_eq!(client.drain(), told);
        // They come one at a time.
        for _ in 0..unread {
            manager.free(&manager.wait_call());
        }
        client.round_trip(0, &manager, &bytes(b"question"), &bytes(b"answer"));
    }
});

// An ioctl that writes its answer holds nothing that other threads of the process need.
case!(process_goes_on_while_an_answer_is_written, ["IOCTL-GET_EXTENDED_ERROR"], |t| {
    let (manager, client) = (t.manager(), t.client());
    let other = client.thread();
    let absent = absent(t, &client, 1);
    let (slot, number, address) = (client.slot, BINDER_GET_EXTENDED_ERROR, absent.start);
    client.actor.start(Op::IoctlAt { slot, number, address });
    assert_eq!(absent.wait(), 0);
    other.round_trip(0, &manager, &bytes(b"meanwhile"), &bytes(b"it goes on"));
    absent.provide(0, b"");
    assert!(!matches!(client.actor.finish(), Answer::Failed(_)));
});

// A count on handle 0 is one on the manager or on nothing, also while the manager ends.
case!(manager_ends_while_handle_0_is_counted, ["CTX-4", "NODE-9"], logged_client, |t, (logs, client)| {
    let mut commands = Commands::new();
    for _ in 0..4000 {
        commands.increfs(0).decrefs(0);
    }
    for _ in 0..40 {
        let manager = t.manager();
        client.start_raw(WriteReadOp::of(&commands));
        manager.kill();
        assert_eq!(client.finish_raw().errno, Errno::from_raw(0));
        assert_eq!(logs.process(&client).references, []);
    }
});
