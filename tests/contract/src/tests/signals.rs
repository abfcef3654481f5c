// SPDX-License-Identifier: GPL-2.0
//! Signals: they end a wait, and lose nothing.

use super::*;

case!(wait_for_work_ends, ["WR-7", "LOOP-8"], pair, |t, (server, client)| {
    server.park();
    server.interrupt_wait();
    client.round_trip(0, &server, &empty(), &empty());
});

case!(wait_for_a_reply_ends_and_resumes, ["WR-7", "TXN-18"], pair, |t, (server, client)| {
    client.start_call(0, 0, &empty());
    for _ in 0..3 {
        client.actor.expect_blocked();
        client.interrupt_wait();
        client.start_read();
    }
    server.wait_call();
    assert_eq!(client.data(&server.answer(&client, &bytes(b"in the end"))), b"in the end");
});

case!(reply_during_the_interruption, ["WR-7", "TXN-21"], pair, |t, (server, client)| {
    client.call(&server, 0, 0, &empty());
    client.actor.expect_blocked();
    client.interrupt_wait();
    assert_eq!(client.data(&server.answer(&client, &bytes(b"meanwhile"))), b"meanwhile");
});

case!(call_back_during_the_interruption, ["TXN-11", "TXN-21"], manager_and_server, |t, (server, client)| {
    let call = client.call(&server, 0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    let handle = server.object(&call).handle();
    client.actor.expect_blocked();
    client.interrupt_wait();
    server.start_blocking_call(handle, 7, &empty());
    assert_eq!(client.wait_call().code, 7);
    client.answer(&server, &empty());
    server.answer(&client, &empty());
});

case!(storm, ["WR-7", "TXN-21"], pair, |t, (server, client)| {
    for i in 0..80u32 {
        server.start_read();
        if i % 2 == 0 {
            server.actor.interrupt();
        }
        client.start_call(0, i, &bytes(&i.to_ne_bytes()));
        client.actor.interrupt();
        let outcome = server.finish_raw();
        let taken = outcome.returns().iter().find_map(call_of);
        // The client may be cut off before or after its call is out; it then reads on.
        let call = taken.unwrap_or_else(|| server.wait_call());
        assert_eq!(call.code, i);
        server.free(&call);
        server.reply(&bytes(&i.to_ne_bytes()));
        let outcome = client.finish_raw();
        let done = outcome.returns().iter().find_map(|item| match item {
            Return::Reply(reply) => Some(*reply),
            _ => None,
        });
        client.consume(&done.unwrap_or_else(|| client.wait_reply()), i.to_ne_bytes());
    }
});

// The thread wakes up by itself between being chosen for the call and having it.
case!(storm_on_who_is_being_made_more_urgent, ["WR-7", "TXN-21", "TXN-31"], pair, |t, (server, client)| {
    client.actor.set_schedule(Nice(-10));
    for code in 0..t.tries(300) {
        server.park();
        client.start_call(0, code, &empty());
        while !server.actor.answered(Duration::ZERO) {
            server.actor.interrupt();
        }
        let taken = server.finish_raw().returns().iter().find_map(call_of);
        let call = taken.unwrap_or_else(|| server.wait_call());
        assert_eq!(call.code, code);
        finish(&server, &client, &call);
    }
});

case!(interrupted_waiter_is_no_longer_chosen, ["TXN-21", "LOOP-6"], pair, |t, (server, client)| {
    let helper = server.looper();
    server.park();
    helper.park();
    // The newest waiter would be chosen; it leaves.
    helper.interrupt_wait();
    assert_eq!(client.call(&server, 0, 5, &empty()).code, 5);
    server.answer(&client, &empty());
});

case!(reads_do_not_restart, ["WR-7", "LOOP-8"], pair, |t, (server, client)| {
    server.actor.restart_calls();
    for signals in 1..=3 {
        server.park();
        // SA_RESTART has no effect on it.
        server.interrupt_wait();
        assert_eq!(server.actor.signals(), signals);
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(written_commands_do_not_restart, ["WR-1", "WR-7", "TXN-18"], pair, |t, (server, client)| {
    client.actor.restart_calls();
    for code in 0..3 {
        client.start_blocking_call(0, code, &bytes(b"once"));
        let outcome = client.interrupt_wait();
        let call = stream(|c| c.transaction(&BinderTransactionData::default()));
        assert_eq!(outcome.write_consumed as usize, call.len());
        assert_eq!(server.wait_call().code, code);
        client.free(&server.answer(&client, &empty()));
    }
    assert_eq!((server.drain(), client.drain()), (vec![], vec![]), "nothing was sent twice");
});

case!(counts_do_not_restart, ["WR-1", "WR-7"], trio, |t, (manager, server, client)| {
    let handle = introduce(&manager, &server, FlatBinderObject::binder(0x10, 0x11), &client);
    client.actor.restart_calls();
    let commands = stream(|c| c.acquire(handle));
    client.start(&commands);
    client.actor.expect_blocked();
    assert_eq!(client.interrupt_wait().write_consumed as usize, commands.len());
    // Two counts, not three: two releases free the handle.
    client.send(|c| c.release(handle).release(handle));
    assert_eq!(client.refused(&client.place(handle, 0, &empty())), Return::FailedReply);
});
