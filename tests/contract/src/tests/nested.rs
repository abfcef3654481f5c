// SPDX-License-Identifier: GPL-2.0
//! Calls within calls: they come to the thread that waits for them.

use super::*;

/// A manager and two processes that hold each other's nodes: (manager, a, b, a's handle on b, b's on a).
pub fn couple(t: &Stage) -> (Port, Port, Port, u32, u32) {
    let (manager, a, b) = (t.manager(), t.server(), t.server());
    let on_b = introduce(&manager, &b, FlatBinderObject::binder(0xb0, 0xb1), &a);
    let on_a = introduce_counted(&manager, &a, FlatBinderObject::binder(0xa0, 0xa1), &b);
    b.settle_counts();
    (manager, a, b, on_b, on_a)
}

case!(call_back_reaches_the_waiting_thread, ["TXN-11", "TXN-21"], |t| {
    let (_manager, a, b, on_b, on_a) = couple(t);
    // Other threads of the pool wait, too; the call back is not for them.
    let idle = [a.looper(), a.looper()];
    idle.iter().for_each(Port::park);
    a.call(&b, on_b, 1, &bytes(b"outer"));
    let inner = b.call(&a, on_a, 2, &bytes(b"inner"));
    assert_eq!((inner.code, a.data(&inner).as_slice(), inner.target), (2, &b"inner"[..], 0xa0));
    assert!(idle.iter().all(|port| port.actor.is_blocked()));
    a.free(&inner);
    assert_eq!(b.data(&a.answer(&b, &bytes(b"inner answer"))), b"inner answer");
    assert_eq!(a.data(&b.answer(&a, &bytes(b"outer answer"))), b"outer answer");
});

case!(completion_comes_before_the_call_back, ["TXN-18", "TXN-11"], |t| {
    let (_manager, a, b, on_b, on_a) = couple(t);
    a.call(&b, on_b, 1, &empty());
    b.start_call(on_a, 2, &empty());
    let items = a.finish_raw().returns();
    assert!(matches!(items[..], [_, Return::TransactionComplete, Return::Transaction(_)]), "{items:?}");
    a.answer(&b, &empty());
    b.answer(&a, &empty());
});

case!(chain_of_three, ["TXN-11"], couple, |t, (manager, a, b, on_b, _)| {
    assert_eq!(a.call(&b, on_b, 1, &bytes(b"1")).sender_pid, a.actor.pid());
    assert_eq!(b.call(&manager, 0, 2, &bytes(b"2")).sender_pid, b.actor.pid());
    assert_eq!(b.data(&manager.answer(&b, &bytes(b"3"))), b"3");
    assert_eq!(a.data(&b.answer(&a, &bytes(b"4"))), b"4");
});

case!(call_back_along_a_chain, ["TXN-11"], couple, |t, (manager, a, b, on_b, _)| {
    // a calls b, b calls the manager, the manager calls a: that is the thread which waits for b.
    let on_a = give_in_a_call(&manager, &a, FlatBinderObject::binder(0xa0, 0xa1));

    let idle = a.parked_looper();
    a.call(&b, on_b, 1, &empty());
    b.call(&manager, 0, 2, &empty());
    let innermost = manager.call(&a, on_a, 3, &empty());
    assert_eq!((innermost.code, innermost.sender_pid), (3, manager.actor.pid()));
    assert!(idle.actor.is_blocked());
    assert_eq!(manager.data(&a.answer(&manager, &bytes(b"from a"))), b"from a");
    assert_eq!(b.data(&manager.answer(&b, &bytes(b"from the manager"))), b"from the manager");
    assert_eq!(a.data(&b.answer(&a, &bytes(b"from b"))), b"from b");
});

case!(deep_recursion, ["TXN-11", "TXN-12"], couple, |t, (_manager, a, b, on_b, on_a)| {
    let depth = 40;
    for level in 0..depth {
        let (caller, callee, handle) = if level % 2 == 0 { (&a, &b, on_b) } else { (&b, &a, on_a) };
        let call = caller.call(callee, handle, level, &bytes(&level.to_ne_bytes()));
        assert_eq!(call.code, level);
        callee.free(&call);
    }
    for level in (0..depth).rev() {
        let (caller, callee) = if level % 2 == 0 { (&a, &b) } else { (&b, &a) };
        caller.consume(&callee.answer(caller, &bytes(&level.to_ne_bytes())), level.to_ne_bytes());
    }
});

case!(strangers_calls_go_to_the_pool, ["TXN-11", "POLL-3"], couple, |t, (manager, a, b, on_b, _)| {
    let stranger = t.client();
    let helper = b.looper();
    // b serves a's call; the manager, who is not in that chain, calls b.
    a.call(&b, on_b, 1, &empty());
    let on_b = introduce(&manager, &helper, FlatBinderObject::binder(0xb0, 0xb1), &stranger);
    assert_eq!(stranger.call(&helper, on_b, 2, &empty()).code, 2);
    b.answer(&a, &empty());
    helper.answer(&stranger, &empty());
});

case!(answers_go_in_order, ["TXN-12", "TXN-13"], couple, |t, (_manager, a, b, on_b, on_a)| {
    a.call(&b, on_b, 1, &empty());
    b.call(&a, on_a, 2, &empty());
    // A reply of a answers the inner call.
    assert_eq!(b.data(&a.answer(&b, &bytes(b"inner"))), b"inner");
    // Its own call is the top of its stack again: nothing to answer.
    a.start(&stream(|c| c.reply(&a.place(0, 0, &empty()))));
    assert_eq!(a.wait_refusal(), Return::FailedReply);
    assert_eq!(a.data(&b.answer(&a, &bytes(b"outer"))), b"outer");
});

case!(waiting_thread_is_the_innermost, ["TXN-11"], couple, |t, (_manager, a, b, on_b, on_a)| {
    // Two threads of a are in the same chain; a call back goes to the one that called last.
    let second = a.looper();
    a.call(&b, on_b, 1, &empty());
    let b2 = b.looper();
    second.call(&b2, on_b, 2, &empty());
    assert_eq!(b2.call(&second, on_a, 3, &empty()).code, 3);
    assert!(a.actor.is_blocked());
    assert_eq!(b.call(&a, on_a, 4, &empty()).code, 4);
    second.answer(&b2, &empty());
    b2.answer(&second, &empty());
    a.answer(&b, &empty());
    b.answer(&a, &empty());
});

case!(call_back_while_own_calls_are_unread, ["TXN-10", "TXN-11"], |t| {
    let (_manager, a, b, on_b, on_a) = couple(t);
    a.send_call_to(&b, on_b, 1, &empty());
    b.start_blocking_call(on_a, 2, &empty());
    // a has a call back waiting that it has not read: no new call before that.
    a.try_write(&stream(|c| c.transaction(&a.place(on_b, 3, &empty()))));
    let errno = if t.upstream() { Errno::EINVAL } else { Errno::EPROTO };
    assert_eq!(a.extended_error(), failed(errno));
    let drained = a.drain();
    assert!(drained.contains(&Return::FailedReply), "{drained:?}");
    let mut calls = drained.iter().filter(|item| matches!(item, Return::Transaction(_)));
    assert!(calls.next().is_some(), "{drained:?}");
    a.answer(&b, &empty());
    b.answer(&a, &empty());
});

case!(serving_thread_may_call_others, ["TXN-10"], couple, |t, (manager, a, b, on_b, _)| {
    a.call(&b, on_b, 1, &empty());
    for i in 0..5u8 {
        b.round_trip(0, &manager, &bytes(&[i]), &bytes(&[i, i]));
    }
    b.answer(&a, &empty());
});

case!(failed_reply_to_who_has_a_call_back_unread, ["TXN-25", "TXN-11"], |t| {
    let (manager, a, b, on_b, _) = couple(t);
    let back = give_in_a_call(&manager, &a, FlatBinderObject::binder(0xa0, 0xa1));
    a.send_call_to(&b, on_b, 1, &empty());
    b.call(&manager, 0, 2, &empty());
    manager.start_blocking_call(back, 3, &empty());
    manager.kill();
    // A worker of the driver ends the process, some time later.
    let is_told = t.driver != Driver::C || !b.actor.is_blocked();
    let why = "of a chain of calls the end of one thread is told to the last caller";
    if !t.known_difference(Driver::C, why, is_told) {
        return;
    }
    assert_eq!(b.wait_refusal(), Return::DeadReply);
    let unreadable = BinderTransactionData { data_size: 8, buffer: BAD_ADDRESS, ..b.place(0, 0, &empty()) };
    assert_eq!(b.try_write(&stream(|c| c.reply(&unreadable))).errno, Errno::from_raw(0));
    assert!(b.drain().contains(&Return::TransactionComplete));
    // a reads of it only after it has replied to the call back.
    let is_told = a.extended_error() == failed(Errno::EFAULT);
    t.known_difference(Driver::Upstream, "the caller is not told why", is_told);
});
