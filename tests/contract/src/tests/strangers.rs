// SPDX-License-Identifier: GPL-2.0
//! Threads in every looper state poll and send commands. The state matters for the choice of a
//! thread for work, and for nothing else.

use super::*;

const IN: u64 = libc::POLLIN as u64;
const PATIENCE_MS: u16 = 60_000;

/// The commands that lead a thread to its looper state.
const STATES: [(&str, &[u32]); 7] = [
    ("no looper", &[]),
    ("entered", &[codes::BC_ENTER_LOOPER]),
    ("registered without a request", &[codes::BC_REGISTER_LOOPER]),
    ("registered and entered", &[codes::BC_REGISTER_LOOPER, codes::BC_ENTER_LOOPER]),
    ("entered and registered", &[codes::BC_ENTER_LOOPER, codes::BC_REGISTER_LOOPER]),
    ("exited", &[codes::BC_ENTER_LOOPER, codes::BC_EXIT_LOOPER]),
    ("exited without entering", &[codes::BC_EXIT_LOOPER]),
];

/// A new thread of the manager's in that state.
fn thread_in(manager: &Port, path: &[u32]) -> Port {
    let thread = manager.thread();
    let mut commands = Commands::new();
    for code in path {
        commands.command(*code, &[0u8; 0]);
    }
    thread.write(&commands);
    thread
}

case!(poll_in_every_looper_state, ["POLL-2", "POLL-3", "LOOP-4"], pair, |t, (manager, client)| {
    for (state, path) in STATES {
        let thread = thread_in(&manager, path);
        assert_eq!(thread.poll(0), 0, "{state}: idle");
        // Own work.
        leave_refusal(&thread);
        assert_eq!(thread.poll(0), IN, "{state}: own work");
        assert_eq!(thread.drain(), [Return::FailedReply], "{state}");
        assert_eq!(thread.poll(0), 0, "{state}: read");
        // Work of the process.
        client.start_call(0, 0, &empty());
        assert_eq!(thread.poll(PATIENCE_MS), IN, "{state}: work of the process");
        manager.wait_call();
        assert_eq!(thread.poll(0), 0, "{state}: taken by another");
        client.free(&manager.answer(&client, &empty()));
        thread.actor.start(Op::EndThread);
    }
});

case!(epoll_in_every_looper_state, ["POLL-1", "POLL-4", "LOOP-4"], pair, |t, (manager, client)| {
    for (state, path) in STATES {
        let thread = thread_in(&manager, path);
        let set = thread.epoll(false);
        let wait = Op::EpollWait { set, timeout_ms: PATIENCE_MS };
        thread.actor.start(wait.clone());
        thread.actor.expect_blocked();
        client.start_call(0, 0, &empty());
        assert!(matches!(thread.actor.finish(), Answer::Number(IN)), "{state}");
        manager.wait_call();
        assert_eq!(thread.epoll_wait(set, 0), 0, "{state}");
        client.free(&manager.answer(&client, &empty()));
        assert_eq!(thread.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    }
});

case!(poll_while_serving_and_calling, ["POLL-3", "POLL-2"], |t| {
    let (manager, a, b) = (t.manager(), t.server(), t.server());
    let on_b = introduce_counted(&manager, &b, FlatBinderObject::binder(0xb0, 0), &a);
    a.call(&manager, 0, 1, &empty());
    // The manager serves, a calls: neither takes work of its process.
    manager.send(|c| c.transaction(&manager.place_oneway(super::NO_HANDLE, 0, &empty())));
    assert_eq!(manager.poll(0), IN, "its own error");
    assert_eq!(manager.drain(), [Return::FailedReply]);
    let other = t.client();
    other.start_blocking_call(0, 2, &empty());
    assert_eq!(manager.poll(0), 0, "serving");
    assert_eq!(manager.thread().poll(0), IN, "another thread");
    a.free(&manager.answer(&a, &empty()));
    assert_eq!(manager.poll(0), IN, "done");
    manager.serve(&other);
    // Waiting for a reply: nothing until it is there.
    a.send_call(on_b, 3, &empty());
    assert_eq!(a.poll(0), 0, "calling");
    b.wait_call();
    b.reply(&empty());
    assert_eq!(a.poll(PATIENCE_MS), IN, "replied");
    a.wait_reply();
});

case!(own_oneway_completion_wakes_epoll, ["POLL-5"], pair, |t, (manager, client)| {
    let set = client.epoll(false);
    assert_eq!(client.epoll_wait(set, 0), 0);
    client.send(|c| c.transaction(&client.place_oneway(0, 0, &empty())));
    assert_eq!(client.epoll_wait(set, PATIENCE_MS), IN);
    assert_eq!(client.drain(), [Return::TransactionComplete]);
    assert_eq!(client.epoll_wait(set, 0), 0);
    manager.free(&manager.wait_call());
});

case!(every_poller_may_take_the_work, ["POLL-4", "LOOP-9"], pair, |t, (manager, client)| {
    let pollers = [manager.looper(), manager.looper(), manager.looper()];
    for poller in &pollers {
        poller.actor.start(Op::Poll { slot: poller.slot, timeout_ms: PATIENCE_MS });
        poller.actor.expect_blocked();
    }
    client.start_call(0, 6, &empty());
    for poller in &pollers {
        assert!(matches!(poller.actor.finish(), Answer::Number(IN)));
    }
    assert_eq!(pollers[1].wait_call().code, 6);
    assert_eq!(pollers[0].drain(), []);
    assert_eq!(pollers[2].poll(0), 0);
    pollers[1].answer(&client, &empty());
});

case!(counts_by_a_thread_outside_the_pool, ["WR-5", "NODE-9", "NODE-8"], |t| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0x20), &holder);
    let stranger = holder.thread();
    stranger.send(|c| c.increfs(handle).acquire(handle).decrefs(handle).increfs(handle));
    holder.send(|c| c.release(handle));
    stranger.send(|c| c.release(handle));
    // Of the strong counts none is left, of the weak ones one.
    assert_eq!(holder.refused(&holder.place(handle, 0, &empty())), Return::FailedReply);
    stranger.send(|c| c.decrefs(handle).decrefs(handle).release(handle));
    // The owner's thread outside the pool answers for it.
    let _ = owner.answer_counts_by(&owner.thread());
    owner.expect_forgotten();
});

case!(buffers_freed_outside_the_pool, ["OBJ-12"], |t| {
    let (manager, client) = (t.manager_with(page()), t.client());
    let stranger = manager.thread();
    for _ in 0..3 {
        stranger.free(&client.call(&manager, 0, 0, &bytes(&vec![1; page()])));
        client.free(&manager.answer(&client, &empty()));
    }
});

case!(calls_outside_the_pool, ["TXN-12", "TXN-21"], pair, |t, (manager, client)| {
    let stranger = client.thread();
    stranger.round_trip(0, &manager, &bytes(b"from"), &bytes(b"outside"));
    // A reply without a call, from a thread that is in no pool either.
    stranger.try_write(&stream(|c| c.reply(&stranger.place(0, 0, &empty()))));
    assert_eq!(stranger.drain(), [Return::FailedReply]);
    // It is called back in spite of that: it waits.
    let call = stranger.call(&manager, 0, 0, &object(FlatBinderObject::binder(0x30, 0)));
    assert_eq!(manager.call(&stranger, manager.object(&call).handle(), 4, &empty()).code, 4);
    stranger.answer(&manager, &empty());
    manager.answer(&stranger, &empty());
});

case!(pool_commands_in_any_order, ["LOOP-2", "LOOP-3", "LOOP-4", "WR-5"], pair, |t, (manager, client)| {
    let codes = [codes::BC_ENTER_LOOPER, codes::BC_REGISTER_LOOPER, codes::BC_EXIT_LOOPER];
    for number in 0..27 {
        let path = [codes[number % 3], codes[number / 3 % 3], codes[number / 9]];
        let thread = thread_in(&manager, &path);
        assert_eq!(thread.drain(), [], "{path:x?}");
        assert_eq!(thread.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    }
    client.round_trip(0, &manager, &empty(), &empty());
});

case!(every_command_before_the_space_is_mapped, ["WR-5", "MMAP-7"], |t| {
    let (manager, port) = (t.manager(), t.opened());
    port.send(|c| c.increfs(0).acquire(0).release(0).decrefs(0).acquire(7).release(7).free_buffer(0));
    port.send(|c| c.increfs_done(1, 2).acquire_done(1, 2).enter_looper().exit_looper());
    assert_eq!(port.drain(), []);
    // A oneway call needs no space of its sender; a call's reply does.
    port.send(|c| c.transaction(&port.place_oneway(0, 0, &empty())));
    assert_eq!(port.drain(), [Return::TransactionComplete]);
    manager.free(&manager.wait_call());
    port.call(&manager, 0, 0, &empty());
    manager.reply(&empty());
    assert!(matches!(port.wait_refusal(), Return::DeadReply | Return::FailedReply));
});

case!(exit_with_a_oneway_completion_unread, ["TREL-1"], pair, |t, (manager, client)| {
    client.send(|c| c.transaction(&client.place_oneway(0, 0, &empty())));
    assert_eq!(client.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    assert_eq!(client.drain(), []);
    manager.free(&manager.wait_call());
    client.round_trip(0, &manager, &empty(), &empty());
});

case!(exit_under_epoll_with_work, ["POLL-6", "TREL-1"], pair, |t, (manager, client)| {
    for code in 0..10 {
        let thread = manager.looper();
        let set = thread.epoll(false);
        client.start_call(0, code, &empty());
        assert_eq!(thread.epoll_wait(set, PATIENCE_MS), IN);
        assert_eq!(thread.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
        assert_eq!(thread.epoll_wait(set, 0), IN, "still to be read");
        assert_eq!(manager.wait_call().code, code);
        client.free(&manager.answer(&client, &empty()));
        thread.actor.start(Op::EndThread);
    }
});

case!(sender_user_across_user_namespaces, ["TXN-4"], |t| {
    kernel_namespaces::need(CloneFlags::CLONE_NEWUSER);
    let (server, client) = (t.manager(), t.client());
    client.actor.number(Op::SetUser { uid: 1000 }).expect("become another user");
    assert_eq!(client.call(&server, 0, 0, &empty()).sender_euid, 1000);
    assert_eq!(server.answer(&client, &empty()).sender_euid, 0, "root, in the caller's namespace");
    let flags = CloneFlags::CLONE_NEWUSER.bits();
    server.actor.number(Op::Unshare { flags }).expect("a user namespace");
    assert_eq!(client.call(&server, 0, 0, &empty()).sender_euid, u32::MAX, "no user of the namespace");
    server.reply(&empty());
    // The other way round: the reply comes from someone who is root where the client is.
    assert_eq!(client.wait_reply().sender_euid, 0);
});
