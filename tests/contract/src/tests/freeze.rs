// SPDX-License-Identifier: GPL-2.0
//! Freezing: a process takes no more calls, once those that it has taken are over.

use super::*;
use binder_sys::codes::BR_FROZEN_REPLY;

/// The outcome of a call that nothing hinders.
#[track_caller]
fn answers(server: &Port, client: &Port) {
    client.round_trip(0, server, &bytes(b"are you there"), &bytes(b"yes"));
}

#[track_caller]
fn refuses(client: &Port, handle: u32) {
    assert_eq!(client.refused(&client.place(handle, 0, &empty())), Return::FrozenReply);
}

/// Sends a oneway call; returns its completion.
#[track_caller]
fn tell(client: &Port, data: &[u8]) -> Return {
    client.completion(&client.place_oneway(0, 0, &bytes(data)))
}

/// The server reads a oneway call with this data.
#[track_caller]
pub(super) fn hear(server: &Port, data: &[u8]) {
    server.consume(&server.wait_call(), data);
}

case!(frozen_takes_no_call, ["FRZ-2", "FRZ-4", "IOCTL-FREEZE", "IOCTL-GET_FROZEN_INFO"], |t| {
    let (server, client) = (t.manager(), t.client());
    let freezer = Freezer::of(t, &server);
    answers(&server, &client);
    assert_eq!(freezer.info(), Ok((0, 0)));
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(freezer.info(), Ok((0, 0)));
    client.ignore_passed();
    refuses(&client, 0);
    assert_eq!(client.extended_error(), (BR_FROZEN_REPLY, 0));
    assert_eq!(client.passed(), [], "no BR_TRANSACTION_COMPLETE");
    assert_eq!(freezer.info(), Ok((1, 0)));
    assert_eq!(server.drain(), []);
    assert_eq!(freezer.thaw(), Ok(()));
    answers(&server, &client);
    assert_eq!(client.extended_error(), NO_ERROR);
});

case!(frozen_takes_oneway_calls, ["FRZ-4", "TXN-16", "IOCTL-GET_FROZEN_INFO"], |t| {
    let (server, client) = pair(t);
    let freezer = Freezer::frozen(t, &server);
    assert_eq!(tell(&client, b"for later"), Return::TransactionPendingFrozen);
    assert_eq!(client.extended_error(), NO_ERROR);
    assert_eq!(tell(&client, b"and more"), Return::TransactionPendingFrozen);
    assert_eq!(freezer.info(), Ok((2, 1)), "transactions are pending, one of them oneway");
    assert_eq!(freezer.thaw(), Ok(()));
    hear(&server, b"for later");
    hear(&server, b"and more");
    assert_eq!(tell(&client, b"now"), Return::TransactionComplete);
    hear(&server, b"now");
    assert_eq!(client.drain(), []);
});

case!(frozen_makes_calls_and_gets_replies, ["TXN-14", "FRZ-4"], pair, |t, (server, client)| {
    let freezer = Freezer::frozen(t, &client);
    client.round_trip(0, &server, &bytes(b"from the frozen"), &bytes(b"to the frozen"));
    assert_eq!(freezer.info(), Ok((0, 0)));
});

case!(what_was_missed_is_forgotten, ["FRZ-2", "FRZ-3"], freezable_pair, |t, (server, client, freezer)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    refuses(&client, 0);
    tell(&client, b"x");
    assert_eq!(freezer.info(), Ok((3, 1)));
    assert_eq!(freezer.thaw(), Ok(()));
    assert_eq!(freezer.info(), Ok((2, 0)), "the oneway call is still there");
    hear(&server, b"x");
    assert_eq!(freezer.info(), Ok((0, 0)));
    assert_eq!(freezer.freeze(0), Ok(()));
    refuses(&client, 0);
    assert_eq!(freezer.info(), Ok((1, 0)));
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(freezer.info(), Ok((0, 0)));
    refuses(&client, 0);
});

case!(thawing_is_idempotent, ["FRZ-3"], freezable_pair, |t, (server, client, freezer)| {
    assert_eq!(freezer.thaw(), Ok(()));
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(freezer.thaw(), Ok(()));
    assert_eq!(freezer.thaw(), Ok(()));
    answers(&server, &client);
});

// C looks at all nodes, and so makes those readable that have no reference and whose strong count is
// not confirmed. The read returns nothing. Found by random programs.
case!(makes_nothing_readable, ["FRZ-2", "FRZ-3", "POLL-2"], pair, |t, (manager, owner)| {
    let handle = give_in_a_call(&manager, &owner, FlatBinderObject::binder(0x10, 0x11));
    manager.send(|c| c.release(handle));
    owner.send(|c| c.increfs_done(0x10, 0x11));
    assert_eq!(owner.drain(), []);
    let freezer = Freezer::of(t, &owner);
    for change in [|by: &Freezer| by.freeze(0), Freezer::thaw] {
        assert_eq!((owner.poll(0), change(&freezer)), (0, Ok(())));
        t.known_difference(Driver::C, "a freeze or thaw makes its process readable", owner.poll(0) == 0);
        assert_eq!(owner.drain(), []);
    }
    // The update that C queues for nothing is then the place of the release.
    assert_eq!(freezer.freeze(0), Ok(()));
    owner.send(|c| c.acquire(0).request_freeze(0, 0).acquire_done(0x10, 0x11));
    let told = owner.drain();
    let in_order = matches!(told[..], [Return::FrozenBinder(_), Return::Release(_), Return::Decrefs(_)]);
    t.known_difference(Driver::C, "a freeze is the place of a later release", in_order);
    assert_eq!(told.len(), 3);
});

case!(nobody_of_that_pid, ["FRZ-1", "IOCTL-FREEZE", "IOCTL-GET_FROZEN_INFO"], |t| {
    let stranger = t.opened();
    let missing = Freezer::by(stranger.clone(), 0x3fff_ffff);
    let wanted = |result| t.known_difference(Driver::Upstream, "a pid that has nothing open", result);
    wanted(missing.freeze(0) == Err(Errno::EINVAL));
    wanted(missing.thaw() == Err(Errno::EINVAL));
    assert_eq!(missing.info(), Err(Errno::EINVAL));
    let without = Freezer::by(stranger, t.pid_to_freeze(&Actor::new()));
    wanted(without.freeze(0) == Err(Errno::EINVAL));
    assert_eq!(without.info(), Err(Errno::EINVAL));
});

case!(arguments_that_fault, ["IOCTL-FREEZE", "IOCTL-GET_FROZEN_INFO"], Stage::opened, |t, port| {
    assert_eq!(port.ioctl_fault(BINDER_FREEZE), Err(Errno::EFAULT));
    assert_eq!(port.ioctl_fault(BINDER_GET_FROZEN_INFO), Err(Errno::EFAULT));
});

case!(lesson_r17_a_stranger_freezes, ["IOCTL-FREEZE", "FORK-1"], pair, |t, (server, client)| {
    // A child of somebody who has nothing to do with it, on an inherited descriptor: it can be no
    // thread of the descriptor's process.
    let opened = t.opened();
    let child = opened.used_by(Rc::new(opened.actor.fork()));
    let freezer = Freezer::by(child, t.pid_to_freeze(&server.actor));
    assert_eq!(freezer.freeze(0), Ok(()));
    refuses(&client, 0);
    assert_eq!(freezer.info(), Ok((1, 0)));
    assert_eq!(freezer.thaw(), Ok(()));
    answers(&server, &client);
});

case!(lesson_r22_waits_for_a_call_being_served, ["FRZ-2", "FRZ-6", "TXN-24"], pair, |t, (server, client)| {
    let freezer = Freezer::of(t, &server);
    server.free(&client.call(&server, 0, 0, &empty()));
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN), "a call is being served");
    if t.upstream() {
        // It fails at once however long one would wait.
        t.known_difference(Driver::Upstream, "does not wait for a call being served", false);
        return;
    }
    freezer.start(LONG);
    server.answer(&client, &empty());
    assert_eq!(freezer.finish(), Ok(()));
    refuses(&client, 0);
});

case!(refuses_calls_while_it_waits, ["FRZ-5"], pair, |t, (server, client)| {
    let (other, freezer) = (t.client(), Freezer::of(t, &server));
    client.send_call(0, 0, &empty());
    freezer.start(LONG);
    refuses(&other, 0);
    assert_eq!(tell(&other, b"for later"), Return::TransactionPendingFrozen);
    freezer.port.actor.expect_blocked();
    server.free(&server.wait_call());
    server.reply(&empty());
    freezer.port.actor.expect_blocked();
    hear(&server, b"for later");
    client.wait_reply();
    assert_eq!(freezer.finish(), Ok(()));
});

case!(gives_up_in_time, ["FRZ-2", "FRZ-5"], pair, |t, (server, client)| {
    let (other, freezer) = (t.client(), Freezer::of(t, &server));
    client.call(&server, 0, 0, &empty());
    assert_eq!(freezer.freeze(20), Err(Errno::EAGAIN));
    server.answer(&client, &empty());
    answers(&server, &other);
    assert_eq!(freezer.info(), Ok((0, 0)));
});

case!(does_not_wait_without_a_timeout, ["FRZ-2", "TXN-24"], |t| {
    let (server, client, freezer) = freezable_pair(t);
    let call = client.call(&server, 0, 0, &empty());
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    assert_eq!(freezer.info(), Ok((2, 0)));
    server.answer(&client, &empty());
    assert_eq!(freezer.freeze(0), Ok(()), "an unfreed buffer is no transaction");
    server.free(&call);
});

case!(interrupted, ["FRZ-2", "FRZ-5"], pair, |t, (server, client)| {
    let (other, freezer) = (t.client(), Freezer::of(t, &server));
    client.send_call(0, 0, &empty());
    freezer.start(LONG);
    freezer.port.actor.interrupt();
    assert_eq!(freezer.finish(), Err(Errno::EINTR));
    finish(&server, &client, &server.wait_call());
    answers(&server, &other);
});

case!(restarts_after_a_signal, ["FRZ-2"], freezable_pair, |t, (server, client, freezer)| {
    freezer.port.actor.restart_calls();
    let call = client.call(&server, 0, 0, &empty());
    freezer.start(LONG);
    for _ in 0..3 {
        freezer.port.actor.interrupt();
        freezer.port.actor.expect_blocked();
        refuses(&t.client(), 0);
    }
    server.free(&call);
    server.reply(&empty());
    assert_eq!(freezer.finish(), Ok(()), "SA_RESTART has it wait on");
    assert_eq!(freezer.port.actor.signals(), 3);
    client.wait_reply();
    refuses(&client, 0);
});

case!(call_that_nobody_has_read, ["FRZ-2", "TXN-24"], freezable_pair, |t, (server, client, freezer)| {
    client.send_call(0, 0, &empty());
    assert_eq!(freezer.info(), Ok((2, 0)));
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    freezer.start(LONG);
    server.free(&server.wait_call());
    freezer.port.actor.expect_blocked();
    server.reply(&empty());
    assert_eq!(freezer.finish(), Ok(()));
    client.wait_reply();
});

case!(oneway_counts_until_it_is_read, ["TXN-24"], freezable_pair, |t, (server, client, freezer)| {
    tell(&client, b"one");
    tell(&client, b"two");
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    assert_eq!(freezer.info(), Ok((2, 0)));
    freezer.start(LONG);
    let one = server.wait_call();
    freezer.port.actor.expect_blocked();
    server.free(&one);
    let two = server.wait_call();
    assert_eq!(freezer.finish(), Ok(()), "read, though not freed");
    server.free(&two);
});

case!(reply_counts_until_it_is_read, ["TXN-24"], pair, |t, (server, client)| {
    let freezer = Freezer::of(t, &client);
    client.send_call(0, 0, &empty());
    assert_eq!(freezer.info(), Ok((2, 0)), "a thread has a call");
    server.wait_call();
    server.reply(&bytes(b"an answer"));
    assert_eq!(freezer.info(), Ok((2, 0)), "a reply is on its way");
    freezer.start(LONG);
    let reply = client.wait_reply();
    assert_eq!(freezer.finish(), Ok(()));
    client.consume(&reply, b"an answer");
});

/// `outer` calls `middle`, which calls the manager `inner` and waits. Gives the call that it serves.
fn chain(inner: &Port, middle: &Port, outer: &Port) -> BinderTransactionData {
    let handle = give_in_a_call(inner, middle, FlatBinderObject::binder(0x10, 0));
    middle.settle_counts();

    inner.free(&outer.call(inner, 0, 0, &empty()));
    let reply = inner.answer(outer, &object(FlatBinderObject::strong_handle(handle)));
    let served = outer.call(middle, outer.object(&reply).handle(), 0, &empty());
    middle.start_call(0, 0, &empty());
    served
}

case!(reply_passes_while_it_waits, ["TXN-14", "TXN-24"], trio, |t, (inner, middle, outer)| {
    let freezer = Freezer::of(t, &middle);
    chain(&inner, &middle, &outer);
    inner.free(&inner.wait_call());
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    freezer.start(LONG);
    let reply = inner.answer(&middle, &bytes(b"for one that is being frozen"));
    assert_eq!(middle.data(&reply), b"for one that is being frozen");
    freezer.port.actor.expect_blocked();
    middle.answer(&outer, &empty());
    assert_eq!(freezer.finish(), Ok(()));
});

case!(own_calls_are_not_waited_for, ["FRZ-2"], pair, |t, (server, client)| {
    let freezer = Freezer::of(t, &client);
    server.free(&client.send_call_to(&server, 0, 0, &empty()));
    assert_eq!(freezer.freeze(LONG), Err(Errno::EAGAIN), "at once");
    server.answer(&client, &empty());
    assert_eq!(freezer.freeze(0), Ok(()));
});

case!(call_back_into_the_frozen, ["FRZ-4", "TXN-11"], pair, |t, (server, client)| {
    let freezer = Freezer::frozen(t, &client);
    let call = client.call(&server, 0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    refuses(&server, server.object(&call).handle());
    assert!(client.actor.is_blocked());
    server.answer(&client, &empty());
    assert_eq!(freezer.info(), Ok((1, 0)));
});

/// The time for a freezer to wait for an event that must wake it. C does not wake it at the end of
/// a thread or a process: there the freezer checks again when its time is over.
pub(super) fn if_woken(t: &Stage) -> u32 {
    if t.driver == Driver::Rust {
        LONG
    } else {
        1500
    }
}

case!(serving_thread_exits, ["TXN-24", "TREL-1"], pair, |t, (server, client)| {
    let (helper, freezer) = (server.looper(), Freezer::of(t, &server));
    client.call(&helper, 0, 0, &empty());
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    freezer.start(if_woken(t));
    helper.ioctl(BINDER_THREAD_EXIT, 0i32).expect("exit");
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    assert_eq!(freezer.finish(), Ok(()));
    refuses(&client, 0);
});

case!(serving_process_dies, ["FRZ-7", "TXN-24", "REL-2"], freezable_pair, |t, (server, client, freezer)| {
    client.call(&server, 0, 0, &empty());
    freezer.start(if_woken(t));
    server.kill_serving(&client);
    assert_eq!(freezer.finish(), Ok(()), "nothing is left that would not be at rest");
    freezer.wait_gone();
});

case!(process_dies_while_it_is_frozen, ["FRZ-7", "FRZ-4"], freezable_pair, |t, (server, client, freezer)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    tell(&client, b"never read");
    tell(&client, b"nor this");
    server.kill();
    freezer.wait_gone();
    let refused = client.refused(&client.place(0, 0, &empty()));
    assert_eq!(refused, Return::DeadReply, "dead rather than frozen");
});

case!(caller_dies_while_served, ["TXN-24", "TREL-1"], freezable_pair, |t, (server, client, freezer)| {
    client.call(&server, 0, 0, &empty());
    client.kill();
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    freezer.start(LONG);
    server.reply(&empty());
    assert_eq!(freezer.finish(), Ok(()));
});

case!(failed_reply_ends_the_call, ["TXN-24", "TXN-25"], freezable_pair, |t, (server, client, freezer)| {
    client.call(&server, 0, 0, &empty());
    freezer.start(LONG);
    server.reply_with(&BinderTransactionData { buffer: 0x10, data_size: 8, ..server.place(0, 0, &empty()) });
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    assert_eq!(freezer.finish(), Ok(()));
    assert_eq!(Freezer::of(t, &client).freeze(0), Ok(()), "a reply that failed does not count either");
});

case!(failed_call_counts_no_more, ["TXN-24"], |t| {
    let (server, client) = (t.manager_with(8192), t.client());
    let freezer = Freezer::of(t, &server);
    for oneway in [0, TransactionFlags::ONE_WAY.bits()] {
        let unreadable = BinderTransactionData { buffer: 0x10, data_size: 8, ..client.place(0, 0, &empty()) };
        let too_much = BinderTransactionData { data_size: 1 << 20, ..client.place(0, 0, &empty()) };
        for mut call in [unreadable, too_much] {
            call.flags |= oneway;
            assert_eq!(client.refused(&call), Return::FailedReply);
        }
    }
    assert_eq!(freezer.info(), Ok((0, 0)));
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(Freezer::of(t, &client).freeze(0), Ok(()));
});

case!(unmapped_while_queued, ["TXN-24"], freezable_pair, |t, (server, client, freezer)| {
    client.send_call(0, 0, &empty());
    server.unmap();
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    server.serve(&client);
    assert_eq!(freezer.freeze(0), Ok(()));
    let refused = client.refused(&client.place(0, 0, &empty()));
    assert_eq!(refused, Return::DeadReply, "there is no space: that is found out first");
});

/// One process that manages two devices, and a client of each.
fn two_devices(t: &Stage) -> [(Port, Port); 2] {
    let binder = t.manager();
    let device = t.device("hwbinder");
    let hwbinder = t.client_at(&device, Rc::new(binder.actor.thread()));
    hwbinder.set_context_manager().expect("manage");
    hwbinder.enter_looper();
    let clients = (t.client(), t.client_at(&device, Rc::new(Actor::new())));
    [(binder, clients.0), (hwbinder, clients.1)]
}

case!(all_devices_of_the_pid, ["FRZ-1"], two_devices, |t, devices| {
    let freezer = Freezer::frozen(t, &devices[0].0);
    for (_, client) in &devices {
        refuses(client, 0);
    }
    assert_eq!(freezer.thaw(), Ok(()));
    for (server, client) in &devices {
        answers(server, client);
        // Each device has counts of its own.
        assert_eq!(freezer.freeze(0), Ok(()));
        refuses(client, 0);
        assert_eq!(freezer.info(), Ok((1, 0)));
        tell(client, b"x");
        assert_eq!(freezer.info(), Ok((3, 1)));
        assert_eq!(freezer.thaw(), Ok(()));
        assert_eq!(freezer.info(), Ok((2, 0)));
        hear(server, b"x");
        assert_eq!(freezer.info(), Ok((0, 0)));
    }
});

case!(lesson_c19_all_devices_or_none, ["FRZ-1"], two_devices, |t, devices| {
    let freezer = Freezer::of(t, &devices[0].0);
    for busy in [0, 1] {
        let (server, client) = &devices[busy];
        client.call(server, 0, 0, &empty());
        assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
        server.answer(client, &empty());
        // C leaves those frozen that come before the busy one in its list.
        let (server, client) = &devices[1 - busy];
        client.start_call(0, 0, &empty());
        let why = "one device stays frozen where another could not be";
        if t.known_difference(Driver::C, why, client.actor.is_blocked()) {
            server.serve(client);
        } else {
            assert_eq!(client.wait_refusal(), Return::FrozenReply);
        }
        assert_eq!(freezer.thaw(), Ok(()));
    }
});

case!(
    lesson_c19_waits_for_what_came_while_it_waited,
    ["FRZ-1", "FRZ-2", "TXN-24"],
    two_devices,
    |t, devices| {
        let freezer = Freezer::of(t, &devices[0].0);
        for busy in [0, 1] {
            let ((server, client), (idle, other)) = (&devices[busy], &devices[1 - busy]);
            client.call(server, 0, 0, &empty());
            freezer.start(LONG);
            tell(other, b"x");
            server.reply(&empty());
            client.wait_reply();
            // C has frozen those that come before the busy one in its list.
            let why = "one device is frozen before another is idle";
            t.known_difference(Driver::C, why, freezer.port.actor.is_blocked());
            hear(idle, b"x");
            assert_eq!(freezer.finish(), Ok(()));
            assert_eq!(freezer.thaw(), Ok(()));
        }
    }
);

// A thaw notifies the holders of the first device before it thaws the second: time for a rival.
case!(lesson_c19_one_freezes_all_and_another_thaws_all, ["FRZ-1", "FRZ-3"], two_devices, |t, devices| {
    let (freezer, rival) = (Freezer::of(t, &devices[0].0), Freezer::of(t, &devices[0].0));
    let (server, holder) = (&devices[0].0, t.client());
    for node in 1..=64u64 {
        let handle = give_in_a_reply(server, &holder, FlatBinderObject::binder(node << 4, node));
        holder.send(|c| c.request_freeze(handle, node));
    }
    server.settle_counts();
    let mut alike = true;
    for _ in 0..40 {
        assert_eq!(freezer.freeze(0), Ok(()));
        rival.begin(false, 0);
        assert!(matches!(freezer.freeze(0), Ok(()) | Err(Errno::EAGAIN)));
        assert_eq!(rival.finish(), Ok(()));
        let frozen =
            devices.each_ref().map(|(_, client)| tell(client, b"x") == Return::TransactionPendingFrozen);
        alike &= frozen[0] == frozen[1];
        assert_eq!(freezer.thaw(), Ok(()));
        for (server, _) in &devices {
            hear(server, b"x");
        }
    }
    t.ours_always("one device is frozen and another is not, after both requests", alike);
});

case!(frozen_again_with_work_pending, ["FRZ-2"], freezable_pair, |t, (server, client, freezer)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    tell(&client, b"x");
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    assert_eq!(freezer.info(), Ok((2, 0)));
    hear(&server, b"x");
    answers(&server, &client);
});

case!(two_freezers, ["FRZ-2"], pair, |t, (server, client)| {
    let (one, two) = (Freezer::of(t, &server), Freezer::of(t, &server));
    client.call(&server, 0, 0, &empty());
    one.start(LONG);
    two.start(LONG);
    server.reply(&empty());
    assert_eq!(one.finish(), Ok(()));
    assert_eq!(two.finish(), Ok(()));
    client.wait_reply();
    refuses(&client, 0);
});

case!(one_of_two_freezers_gives_up, ["FRZ-2"], pair, |t, (server, client)| {
    let (one, two) = (Freezer::of(t, &server), Freezer::of(t, &server));
    let other = t.client();
    client.call(&server, 0, 0, &empty());
    one.start(t.patience_for_ours().as_millis() as u32);
    assert_eq!(two.freeze(1), Err(Errno::EAGAIN));
    one.port.actor.expect_blocked();
    server.reply(&empty());
    assert_eq!(one.finish(), Ok(()));
    client.wait_reply();
    other.start_call(0, 0, &empty());
    // In C the one that gives up thaws the process; the other one returns only after its timeout.
    let why = "a process is thawed by one freezer and another believes it frozen";
    if t.known_difference(Driver::C, why, !other.actor.is_blocked()) {
        assert_eq!(other.wait_refusal(), Return::FrozenReply);
    } else {
        server.wait_call();
        server.reply(&empty());
    }
});

case!(thawed_while_freezing, ["FRZ-3"], pair, |t, (server, client)| {
    let (freezer, rival) = (Freezer::of(t, &server), Freezer::of(t, &server));
    client.call(&server, 0, 0, &empty());
    freezer.start(2000);
    assert_eq!(rival.thaw(), Ok(()));
    // C keeps the freezer waiting, and returns in the end that the process is frozen.
    let why = "a freezer does not notice that somebody thaws the process";
    let noticed = t.known_difference(Driver::C, why, !freezer.port.actor.is_blocked());
    server.answer(&client, &empty());
    let wanted = if noticed { Err(Errno::EAGAIN) } else { Ok(()) };
    assert_eq!(freezer.finish(), wanted);
    answers(&server, &client);
});

case!(itself, ["FRZ-1"], pair, |t, (server, client)| {
    let helper = server.thread();
    let freezer = Freezer::by(helper, t.pid_to_freeze(&server.actor));
    assert_eq!(freezer.freeze(LONG), Ok(()));
    refuses(&client, 0);
    assert_eq!(freezer.thaw(), Ok(()));
    answers(&server, &client);
});

case!(a_hundred_times, ["FRZ-2", "FRZ-3", "TXN-24"], freezable_pair, |t, (server, client, freezer)| {
    for round in 0..100 {
        server.free(&client.call(&server, 0, 0, &empty()));
        if round % 2 == 0 {
            freezer.start(LONG);
            server.reply(&empty());
            assert_eq!(freezer.finish(), Ok(()));
            client.wait_reply();
        } else {
            server.answer(&client, &empty());
            assert_eq!(freezer.freeze(0), Ok(()));
        }
        refuses(&client, 0);
        assert_eq!(freezer.thaw(), Ok(()));
    }
});
