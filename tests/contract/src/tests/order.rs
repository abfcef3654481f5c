// SPDX-License-Identifier: GPL-2.0
//! The order of returns on which client libraries rely, for each pair of returns of a thread, also
//! when somebody dies in between. `docs/ordering.md` lists the pairs.

use super::oneway::oneway;
use super::*;
use binder_sys::Return::{Acquire, DeadReply, Decrefs, Increfs, Release, TransactionComplete as Complete};

const ID: BinderPtrCookie = BinderPtrCookie { ptr: 0x10, cookie: 0x20 };
const NODE: FlatBinderObject = FlatBinderObject::binder(ID.ptr, ID.cookie);
const COOKIE: u64 = 0x55;

case!(noop_or_spawn_before_all, ["WR-6", "WR-10"], |t| {
    for threads in [0, 1u32] {
        let (server, client) = (t.manager(), t.client());
        server.ioctl(BINDER_SET_MAX_THREADS, threads).expect("set the limit");
        client.start_blocking_call(0, 0, &empty());
        client.kill();
        server.start_read();
        let told = server.finish_raw().returns();
        let first = if threads == 0 { Return::Noop } else { Return::SpawnLooper };
        assert!(matches!(told[..], [item, Return::Transaction(_)] if item == first), "{told:?}");
        server.kill();
    }
});

case!(counts_before_completion_before_refusal, ["NODE-7", "TXN-18"], pair, |t, (server, client)| {
    client.send_call_to(&server, 0, 0, &object(NODE));
    server.kill();
    let mut told = client.read_once();
    // The node has no holder any more. The owner may read of it before the driver sees that.
    told.retain(|item| !matches!(item, Increfs(_) | Acquire(_)));
    assert_eq!(told, [Complete, DeadReply]);
});

case!(completion_before_a_call_back_before_the_refusal, ["TXN-18", "TXN-11", "TXN-26"], |t| {
    let (_manager, a, b, on_b, on_a) = couple(t);
    a.send_call_to(&b, on_b, 1, &empty());
    b.start_blocking_call(on_a, 2, &empty());
    kill_and_wait(t, &b);
    let told = a.read_once();
    assert!(matches!(told[..], [Complete, Return::Transaction(_)]), "{told:?}");
    a.reply(&empty());
    assert_eq!(but_counts(&a), [DeadReply]);
});

/// All unread returns, except that a dead process holds the reader's nodes no longer.
fn but_counts(port: &Port) -> Vec<Return> {
    let mut told = port.drain();
    told.retain(|item| !matches!(item, Release(_) | Decrefs(_)));
    told
}

/// a serves a call back of b's, who dies.
fn outer_dies(t: &Stage) -> Port {
    let (_manager, a, b, on_b, on_a) = couple(t);
    a.call(&b, on_b, 1, &empty());
    a.free(&b.call(&a, on_a, 2, &empty()));
    kill_and_wait(t, &b);
    a
}

case!(replys_completion_before_the_outer_refusal, ["TXN-17", "TXN-26"], outer_dies, |t, a| {
    a.send(|c| c.reply(&a.place(0, 0, &empty())));
    assert_eq!(but_counts(&a), [Complete, DeadReply]);
});

case!(failed_replys_completion_before_the_outer_refusal, ["TXN-25", "TXN-26"], outer_dies, |t, a| {
    let unreadable = BinderTransactionData { buffer: BAD_ADDRESS, data_size: 8, ..a.place(0, 0, &empty()) };
    a.try_write(&stream(|c| c.reply(&unreadable)));
    assert_eq!(but_counts(&a), [Complete, DeadReply]);
});

case!(replys_completion_before_the_outer_reply, ["TXN-17", "TXN-18"], |t| {
    let (_manager, a, b, on_b, on_a) = couple(t);
    a.call(&b, on_b, 1, &empty());
    a.free(&b.call(&a, on_a, 2, &empty()));
    a.send(|c| c.reply(&a.place(0, 0, &empty())));
    b.wait_reply();
    b.reply(&bytes(b"outer"));
    b.kill();
    let told = but_counts(&a);
    assert!(matches!(told[..], [Complete, Return::Reply(_)]), "{told:?}");
});

case!(replys_counts_before_its_completion, ["NODE-7", "TXN-17"], pair, |t, (server, client)| {
    // The driver has kept memory for the next answer, as for a thread that has worked for a while.
    client.round_trip(0, &server, &empty(), &empty());
    client.call(&server, 0, 0, &empty());
    server.send(|c| c.reply(&server.place(0, 0, &object(NODE))));
    assert_eq!(server.drain(), [Increfs(ID), Acquire(ID), Complete]);
    server.confirm(ID);
    client.kill();
    server.wait_for(Release(ID));
    server.wait_for(Decrefs(ID));
});

// a has called b, b has called a back, and a has called b again. b dies: each call of a's ends in its turn.
case!(inner_refusal_before_the_outer_one, ["TXN-26", "TREL-1"], couple, |t, (_manager, a, b, on_b, on_a)| {
    a.call(&b, on_b, 1, &empty());
    b.call(&a, on_a, 2, &empty());
    assert_eq!(a.call(&b, on_b, 3, &empty()).code, 3);
    b.kill();
    assert_eq!(a.wait_refusal(), DeadReply, "of the innermost");
    assert_eq!(but_counts(&a), [], "the outer one has to wait for the reply");
    a.send(|c| c.reply(&a.place(0, 0, &empty())));
    // b ends in its own time.
    a.wait_for(Complete);
    assert_eq!(a.wait_refusal(), DeadReply, "of the outer one");
});

case!(refusal_before_the_death, ["DN-2", "LOOP-9", "TREL-1"], manager_and_server, |t, (server, client)| {
    client.send(|c| c.acquire(0).request_death(0, COOKIE));
    client.send_call_to(&server, 0, 0, &empty());
    server.kill();
    assert_eq!(client.read_once(), [Complete, DeadReply]);
    client.wait_for(DeadBinder(COOKIE));
});

case!(death_before_its_clear, ["DN-3"], manager_and_server, |t, (server, client)| {
    client.send(|c| c.acquire(0).request_death(0, COOKIE));
    kill_and_wait(t, &server);
    client.send(|c| c.clear_death(0, COOKIE));
    assert_eq!(client.drain(), [DeadBinder(COOKIE)], "the clear waits until it is confirmed");
    client.send(|c| c.dead_binder_done(COOKIE));
    assert_eq!(client.drain(), [ClearDone(COOKIE)]);
});

case!(clear_before_the_new_links_death, ["DN-3", "DN-1"], manager_and_server, |t, (server, client)| {
    client.send(|c| c.acquire(0).request_death(0, COOKIE));
    client.send(|c| c.clear_death(0, COOKIE).request_death(0, COOKIE));
    kill_and_wait(t, &server);
    assert_eq!(client.drain(), [ClearDone(COOKIE), DeadBinder(COOKIE)]);
});

case!(frozen_before_its_clear, ["FRZN-4"], manager_and_server, |t, (server, client)| {
    let freezer = Freezer::of(t, &server);
    client.send(|c| c.acquire(0).request_freeze(0, COOKIE));
    assert_eq!(client.read_once(), [notification(COOKIE, 0)]);
    assert_eq!(freezer.freeze(0), Ok(()));
    client.send(|c| c.clear_freeze(0, COOKIE));
    kill_and_wait(t, &server);
    assert_eq!(client.drain(), [], "the clear waits until the death is confirmed");
    client.send(|c| c.freeze_done(COOKIE));
    assert_eq!(client.drain(), [cleared(COOKIE)]);
});

case!(last_frozen_before_the_death, ["FRZN-2", "DN-2", "FRZ-7"], |t| {
    let (server, client) = (t.manager(), t.server());
    let freezer = Freezer::of(t, &server);
    client.send(|c| c.acquire(0).request_death(0, 1).request_freeze(0, COOKIE));
    assert_eq!(client.read_once(), [notification(COOKIE, 0)]);
    client.send(|c| c.freeze_done(COOKIE));
    assert_eq!(freezer.freeze(0), Ok(()));
    kill_and_wait(t, &server);
    assert_eq!(client.drain(), [notification(COOKIE, 1), DeadBinder(1)]);
});

case!(oneway_calls_in_order_when_the_sender_dies, ["TXN-22"], pair, |t, (server, client)| {
    for word in [b"1", b"2", b"3"] {
        client.tell(0, 0, &bytes(word));
    }
    let first = server.wait_call();
    client.kill();
    server.consume(&first, b"1");
    for word in [b"2", b"3"] {
        server.consume(&server.wait_call(), word);
    }
});

case!(oneway_completions_in_order, ["TXN-16"], freezable_pair, |t, (server, client, freezer)| {
    client.send(|c| c.transaction(&oneway(&client, 0, b"1")));
    assert_eq!(server.wait_call().data_size, 1);
    assert_eq!(freezer.freeze(0), Ok(()));
    client.send(|c| c.transaction(&oneway(&client, 0, b"2")));
    kill_and_wait(t, &server);
    client.try_write(&stream(|c| c.transaction(&oneway(&client, 0, b"3"))));
    assert_eq!(client.drain(), [Complete, Return::TransactionPendingFrozen, DeadReply]);
});

case!(refused_oneway_in_its_place, ["TXN-16", "TXN-20"], pair, |t, (server, client)| {
    client.send(|c| c.transaction(&oneway(&client, 0, b"1")));
    let mut commands = Commands::new();
    commands.transaction(&oneway(&client, super::NO_HANDLE, b"2"));
    commands.transaction(&oneway(&client, 0, b"3"));
    let outcome = client.try_write(&commands);
    assert_eq!(outcome.write_consumed, 68, "what is behind it waits until it has been read");
    assert_eq!(client.drain(), [Complete, Return::FailedReply]);
    server.wait_call();
});

// A node whose only handle is given back while a call to it is on its way.
case!(call_before_the_release_of_its_node, ["TXN-8", "NODE-6"], trio, |t, (manager, owner, holder)| {
    let handle = introduce_counted(&manager, &owner, NODE, &holder);
    holder.send_call(handle, 0, &empty());
    kill_and_wait(t, &holder);
    let told = owner.read_once();
    assert!(matches!(told[..], [Return::Transaction(_)]), "{told:?}");
    let [Return::Transaction(call)] = told[..] else { unreachable!() };
    owner.reply(&empty());
    assert_eq!(owner.drain(), [], "the buffer still needs the node");
    owner.free(&call);
    assert_eq!(owner.drain(), [Release(ID), Decrefs(ID)]);
});

case!(oneway_call_before_the_release_of_its_node, ["TXN-8", "NODE-6", "TXN-22"], |t| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = introduce_counted(&manager, &owner, NODE, &holder);
    for word in [b"1", b"2"] {
        holder.send(|c| c.transaction(&oneway(&holder, handle, word)));
    }
    kill_and_wait(t, &holder);
    for word in [b"1", b"2"] {
        let call = owner.wait_call();
        assert_eq!(owner.data(&call), word);
        assert_eq!(owner.drain(), []);
        owner.free(&call);
    }
    assert_eq!(owner.drain(), [Release(ID), Decrefs(ID)]);
});

/// A holder of two nodes of an owner, and its handles on them.
fn holder_of_two(t: &Stage, second: FlatBinderObject) -> (Port, Port, [u32; 2]) {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handles = [NODE, second].map(|node| introduce(&manager, &owner, node, &holder));
    owner.settle_counts();
    (owner, holder, handles)
}

// A freed buffer releases the next oneway call, and then its objects.
case!(next_oneway_call_before_the_objects_of_the_last, ["TXN-22", "NODE-6"], |t| {
    let other = BinderPtrCookie { ptr: 0x30, cookie: 0x40 };
    let (owner, holder, [to, sent]) = holder_of_two(t, FlatBinderObject::binder(other.ptr, other.cookie));
    let parcel = object(FlatBinderObject::strong_handle(sent));
    holder.send(|c| c.transaction(&holder.place_oneway(to, 0, &parcel)));
    holder.send(|c| c.transaction(&oneway(&holder, to, b"2")).release(sent));
    let call = owner.wait_call();
    assert_eq!(owner.drain(), []);
    owner.free(&call);
    let first = owner.read_once();
    assert!(matches!(first[..], [Return::Transaction(_)]), "{first:?}");
    assert_eq!(owner.drain(), [Release(other), Decrefs(other)]);
});

// A freed buffer releases the node that was called, and then its objects.
case!(node_of_a_call_before_the_objects_of_its_buffer, ["TXN-8", "NODE-6"], |t| {
    let other = BinderPtrCookie { ptr: 0x30, cookie: 0x40 };
    let (owner, holder, [to, sent]) = holder_of_two(t, FlatBinderObject::binder(other.ptr, other.cookie));
    let call = holder.call(&owner, to, 0, &object(FlatBinderObject::strong_handle(sent)));
    owner.answer(&holder, &empty());
    kill_and_wait(t, &holder);
    assert_eq!(owner.drain(), []);
    owner.free(&call);
    assert_eq!(owner.drain(), [Release(ID), Decrefs(ID), Release(other), Decrefs(other)]);
});

const UNORDERED: &str = "handles of the dead are not released in order, or only when their buffers are freed";

// A handle that the holder has not read of yet has its place among the others.
case!(handles_of_the_dead_from_the_lowest_up, ["REL-2", "NODE-6", "lesson T09"], |t| {
    let (manager, owner, holder) = trio(t);
    let to_holder = introduce(&manager, &holder, NODE, &owner);
    let nodes = [0x400, 0x300, 0x200, 0x100].map(|ptr| BinderPtrCookie { ptr, cookie: 1 });
    for (at, id) in nodes.into_iter().enumerate() {
        let node = FlatBinderObject::binder(id.ptr, id.cookie);
        if at == 2 {
            owner.tell(to_holder, 0, &object(node));
        } else {
            introduce(&manager, &owner, node, &holder);
        }
    }
    owner.settle_counts();
    kill_and_wait(t, &holder);
    let wanted: Vec<_> = nodes.into_iter().flat_map(|id| [Release(id), Decrefs(id)]).collect();
    t.known_difference(Driver::Upstream, UNORDERED, owner.drain() == wanted);
});

// The release has its place when the last handle goes, although an unread call uses the node.
case!(release_of_a_called_node_before_a_later_call, ["NODE-7", "TXN-8"], |t| {
    let other = BinderPtrCookie { ptr: 0x30, cookie: 0x40 };
    let (owner, holder, [called, kept]) = holder_of_two(t, FlatBinderObject::binder(other.ptr, other.cookie));
    let call = holder.call(&owner, called, 0, &empty());
    holder.free(&owner.answer(&holder, &empty()));
    holder.send(|c| c.release(called));
    holder.tell(kept, 7, &empty());
    owner.send(|c| c.free_buffer(call.buffer));
    let told = owner.read_once();
    let is_first = matches!(told[..], [Release(ID), Decrefs(ID), Return::Transaction(_)]);
    t.known_difference(Driver::Upstream, UNORDERED, is_first);
});

// The sender of its own node reads `BR_ACQUIRE` before any call of it, whichever process dies.
case!(acquire_before_the_call, ["NODE-6", "NODE-11"], manager_and_server, |t, (manager, owner)| {
    owner.send(|c| c.transaction(&oneway(&owner, 0, b"")));
    manager.free(&manager.wait_call());
    let call = owner.send_call_to(&manager, 0, 0, &object(NODE));
    let handle = manager.object(&call).handle();
    manager.send(|c| c.transaction(&oneway(&manager, handle, b"x")).reply(&manager.place(0, 0, &empty())));
    manager.kill();
    let told = owner.drain();
    let place = |wanted: fn(&Return) -> bool| told.iter().position(wanted);
    let acquired = place(|item| matches!(item, Acquire(_)));
    let called = place(|item| matches!(item, Return::Transaction(_)));
    assert!(acquired.is_some() && acquired < called, "{told:?}");
    let replied = place(|item| matches!(item, Return::Reply(_)));
    assert!(acquired < replied && replied < called, "{told:?}");
});

case!(deaths_in_order_of_request_of_the_dead, ["DN-1"], |t| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.server());
    let handles: Vec<u32> = (1..=3)
        .map(|i| introduce(&manager, &owner, FlatBinderObject::binder(0x100 * i, 0), &holder))
        .collect();
    kill_and_wait(t, &owner);
    for at in [2, 0, 1] {
        holder.send(|c| c.request_death(handles[at], at as u64));
    }
    assert_eq!(holder.drain(), [2, 0, 1].map(DeadBinder));
});

case!(pending_completion_before_the_death, ["TXN-16", "DN-2"], manager_and_server, |t, (server, client)| {
    let freezer = Freezer::of(t, &server);
    client.send(|c| c.acquire(0).request_death(0, COOKIE));
    assert_eq!(freezer.freeze(0), Ok(()));
    client.send(|c| c.transaction(&oneway(&client, 0, b"1")));
    kill_and_wait(t, &server);
    assert_eq!(client.drain(), [Return::TransactionPendingFrozen, DeadBinder(COOKIE)]);
});
