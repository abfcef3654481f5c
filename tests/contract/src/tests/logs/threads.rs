// SPDX-License-Identifier: GPL-2.0
//! Threads: what state they are in, and what calls they make and serve.

use super::*;
use binder_logs::{BufferState, Held, Looper, Role};

case!(looper_states, ["LOG-2", "LOOP-1"], Logs::of, |t, logs| {
    let (manager, client) = (t.client(), t.client());
    let looper = |port: &Port| logs.thread(port).looper;
    known(&client);
    assert_eq!(looper(&client), Looper::empty());
    client.park();
    assert_eq!(looper(&client), Looper::WAITING);
    client.interrupt_wait();
    assert_eq!(looper(&client), Looper::empty());
    manager.enter_looper();
    assert_eq!(looper(&manager), Looper::ENTERED);
    manager.park();
    assert_eq!(looper(&manager), Looper::ENTERED | Looper::WAITING);
    manager.interrupt_wait();
    manager.send(|c| c.exit_looper());
    assert_eq!(looper(&manager), Looper::ENTERED | Looper::EXITED);
    // The driver has not requested this thread.
    let helper = manager.registered();
    assert_eq!(looper(&helper), Looper::REGISTERED | Looper::INVALID);
});

case!(looper_that_was_asked_for, ["LOG-2", "LOOP-1", "LOOP-3"], logged_pair, |t, (logs, manager, client)| {
    manager.ioctl(BINDER_SET_MAX_THREADS, 1u32).expect("a limit");
    client.round_trip(0, &manager, &empty(), &empty());
    let asked = manager.passed();
    assert!(asked.is_empty() || asked == [Return::SpawnLooper]);
    let helper = manager.registered();
    assert_eq!(logs.thread(&helper).looper, Looper::REGISTERED);
    helper.send(|c| c.enter_looper());
    assert_eq!(logs.thread(&helper).looper, Looper::REGISTERED | Looper::ENTERED | Looper::INVALID);
});

case!(looper_of_one_who_polls, ["LOG-2", "LOOP-1"], logged_client, |t, (logs, client)| {
    assert_eq!(client.poll(0), 0);
    assert_eq!(logs.thread(&client).looper, Looper::POLL);
});

case!(need_return, ["LOG-2", "REL-1"], logged_client, |t, (logs, client)| {
    known(&client);
    assert!(!logs.thread(&client).need_return);
    let again = client.actor.number(Op::Duplicate { slot: client.slot }).expect("duplicate");
    client.actor.number(Op::Close { slot: again as usize }).expect("close");
    until("a flush has every thread return", || logs.thread(&client).need_return.then_some(()));
    assert_eq!(client.read_once(), []);
    assert!(!logs.thread(&client).need_return);
    // Any other ioctl is a return as well.
    let again = client.actor.number(Op::Duplicate { slot: client.slot }).expect("duplicate");
    client.actor.number(Op::Close { slot: again as usize }).expect("close");
    until("a flush has every thread return", || logs.thread(&client).need_return.then_some(()));
    assert_eq!(client.ioctl(BINDER_VERSION, 0i32), Ok(8));
    assert!(!logs.thread(&client).need_return);
    client.nonblocking(true);
    assert_eq!(client.raw(WriteReadOp { room: ROOM, ..Default::default() }).errno, Errno::EAGAIN);
});

case!(thread_that_has_exited_is_gone, ["LOG-2", "TREL-1"], logged_client, |t, (logs, client)| {
    let helper = client.thread();
    [&client, &helper].into_iter().for_each(known);
    assert_eq!(logs.process(&client).threads.len(), 2);
    helper.ioctl(BINDER_THREAD_EXIT, 0i32).expect("exit");
    assert_eq!(only(logs.process(&client).threads).id, t.task_of(&client).thread);
});

case!(call_being_served, ["LOG-3", "LOG-6"], logged_pair, |t, (logs, server, client)| {
    let data = client.place_flagged(0, 0xabc, &bytes(b"some data"), TransactionFlags::ACCEPT_FDS);
    client.call_with(&server, &data);

    let sent = only(logs.thread(&client).stack);
    assert_eq!(sent.role, Role::Outgoing);
    let (from, to) = (t.task_of(&client), t.task_of(&server));
    assert_eq!((sent.transaction.from, sent.transaction.to), (from, to));
    assert_eq!((sent.transaction.code, sent.transaction.flags), (0xabc, 0x10));
    assert_eq!((sent.transaction.is_async, sent.transaction.is_reply), (false, Some(false)));
    assert_eq!(sent.transaction.held, Held::Elsewhere, "the buffer is the server's");
    assert!((0..60_000).contains(&sent.transaction.elapsed_ms));
    let alone = only(logs.file_of(&client)).threads.remove(0).stack.remove(0).transaction;
    assert_eq!((alone.id, alone.to), (sent.transaction.id, to), "its own file has the thread, too");

    let served = only(logs.thread(&server).stack);
    assert_eq!(served.role, Role::Incoming);
    let node = Some(logs.node(&server, 0).id);
    let held = Held::Here { node, data_size: 9, offsets_size: 0, offset: Some(0) };
    assert_eq!(served.transaction.held, held);
    let (elapsed_ms, address) = (sent.transaction.elapsed_ms, sent.transaction.address);
    assert_eq!(address, served.transaction.address);
    let seen = binder_logs::Transaction { held: Held::Elsewhere, elapsed_ms, ..served.transaction };
    assert_eq!(seen, sent.transaction, "both ends show one call");

    let buffer = only(logs.process(&server).buffers);
    assert_eq!((buffer.id, buffer.state), (Some(sent.transaction.id), BufferState::Active));
    assert_eq!((buffer.offset, buffer.data_size), (0, 9));
    assert_eq!((buffer.offsets_size, buffer.extra_size), (Some(0), Some(0)));
    server.answer(&client, &empty());
    assert_eq!((logs.thread(&client).stack, logs.thread(&server).stack), (vec![], vec![]));
});

case!(buffer_that_was_given_back, ["LOG-3", "LOG-6"], logged_pair, |t, (logs, server, client)| {
    server.free(&client.call(&server, 0, 0, &bytes(b"short-lived")));
    assert_eq!(only(logs.thread(&server).stack).transaction.held, Held::Free);
    assert_eq!(logs.process(&server).buffers, []);
    server.answer(&client, &empty());
});

case!(buffer_that_is_kept, ["LOG-6"], logged_pair, |t, (logs, server, client)| {
    let mut parcel = bytes(&[0; 40]);
    parcel.object(&FlatBinderObject::binder(0x10, 0));
    let call = client.call(&server, 0, 0, &parcel);
    server.answer(&client, &bytes(b"answer"));
    let buffer = only(logs.process(&server).buffers);
    assert_eq!((buffer.state, buffer.data_size, buffer.offsets_size), (BufferState::Delivered, 64, Some(8)));
    let answer = only(logs.process(&client).buffers);
    assert_eq!((answer.state, answer.data_size), (BufferState::Delivered, 6));
    assert!(answer.id > buffer.id);
    server.free(&call);
    assert_eq!(logs.process(&server).buffers, []);
    let _ = client.answer_counts();
});

case!(nested_calls, ["LOG-3", "TXN-11"], Logs::of, |t, logs| {
    let (_manager, a, b, on_b, on_a) = couple(t);
    a.call(&b, on_b, 1, &empty());
    b.call(&a, on_a, 2, &empty());
    let stack = |port: &Port| {
        let stack = logs.thread(port).stack.into_iter();
        stack.map(|entry| (entry.role, entry.transaction.code, entry.transaction.to)).collect::<Vec<_>>()
    };
    let (at_a, at_b) = (t.task_of(&a), t.task_of(&b));
    assert_eq!(stack(&a), [(Role::Incoming, 2, at_a), (Role::Outgoing, 1, at_b)]);
    assert_eq!(stack(&b), [(Role::Outgoing, 2, at_a), (Role::Incoming, 1, at_b)]);
    a.answer(&b, &empty());
    assert_eq!(stack(&a), [(Role::Outgoing, 1, at_b)]);
    assert_eq!(stack(&b), [(Role::Incoming, 1, at_b)]);
    b.answer(&a, &empty());
});

case!(caller_that_is_gone, ["LOG-3", "TREL-1"], logged_pair, |t, (logs, server, client)| {
    client.call(&server, 0, 7, &empty());
    let from = t.task_of(&client);
    client.kill();
    until("its process is freed", || {
        let gone = logs.state().processes.iter().all(|process| process.pid != from.process);
        gone.then_some(())
    });
    let served = only(logs.thread(&server).stack).transaction;
    assert_eq!((served.from, served.to), (from, t.task_of(&server)), "the log names the sender");
    server.reply(&empty());
});

case!(nice_value, ["LOG-3", "TXN-28"], logged_pair, |t, (logs, server, client)| {
    let set = |nice| {
        // SAFETY: no memory is involved.
        let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, client.actor.tid() as libc::id_t, nice) };
        Errno::result(result).expect("set a nice value");
    };
    for nice in [-3, 5] {
        set(nice);
        client.call(&server, 0, 0, &empty());
        assert_eq!(only(logs.thread(&server).stack).transaction.priority, Some(i64::from(nice)));
        server.answer(&client, &empty());
    }
});

case!(idle_processes_have_no_transactions, ["LOG-9"], logged_pair, |t, (logs, server, client)| {
    server.park();
    assert_eq!((logs.transactions(&server), logs.transactions(&client)), (None, None));
    server.interrupt_wait();
});

case!(transactions_name_who_has_any, ["LOG-9"], logged_pair, |t, (logs, server, client)| {
    let (_idle, helper) = (client.thread(), server.looper());
    helper.park();
    client.start_blocking_call(0, 0, &empty());
    helper.wait_call();
    let calling = logs.transactions(&client).expect("it calls");
    let thread = only(calling.threads);
    assert_eq!(thread.id, t.task_of(&client).thread, "the idle one is left out");
    assert_eq!(only(thread.stack).role, Role::Outgoing);
    assert!(calling.nodes.is_empty() && calling.references.is_empty());
    let serving = logs.transactions(&server).expect("it serves");
    assert_eq!(only(serving.threads).id, t.task_of(&helper).thread);
    assert_eq!((serving.nodes, serving.buffers.len()), (vec![], 1));
    helper.answer(&client, &empty());
});
