// SPDX-License-Identifier: GPL-2.0
//! The pool: when the driver requests a thread, and which thread it wakes.

use super::*;
use crate::port::Outcome;

/// A manager from which the driver may request so many threads.
fn manager_with_pool(t: &Stage, threads: u32) -> Port {
    let manager = t.manager();
    manager.ioctl(BINDER_SET_MAX_THREADS, threads).expect("set the limit");
    manager
}

/// Has the thread serve one call; whether it was asked to spawn another.
fn serve_one(server: &Port, client: &Port) -> bool {
    client.start_blocking_call(0, 0, &empty());
    let outcome = server.raw(WriteReadOp { room: ROOM, ..Default::default() });
    let asked = asks(&outcome);
    assert!(outcome.returns().iter().any(|item| matches!(item, Return::Transaction(_))));
    server.answer(client, &empty());
    // The reply's completion may carry the request as well.
    asked | server.passed().contains(&Return::SpawnLooper)
}

/// Returns whether a read requests a thread, which it does in place of its `BR_NOOP`.
fn asks(outcome: &Outcome) -> bool {
    let items = outcome.returns();
    assert!(!items[1..].contains(&Return::SpawnLooper), "only the first item: {items:?}");
    items[0] == Return::SpawnLooper
}

case!(first_read_of_a_new_thread, ["IOCTL-3"], Stage::client, |t, port| {
    let thread = port.used_by(Rc::new(port.actor.thread()));
    thread.start_read();
    if !thread.actor.is_blocked() {
        // In C the first read of a thread may return at once, but never the second.
        assert_eq!(thread.finish_raw().returns(), [Return::Noop]);
        thread.park();
    }
    thread.interrupt_wait();
});

case!(none_is_asked_for_by_default, ["LOOP-5", "IOCTL-SET_MAX_THREADS"], pair, |t, (manager, client)| {
    for _ in 0..3 {
        assert!(!serve_one(&manager, &client));
    }
});

case!(one_is_asked_for_when_none_waits, ["LOOP-5", "WR-10"], |t| {
    let (manager, client) = (manager_with_pool(t, 1), t.client());
    assert!(serve_one(&manager, &client));
});

case!(asked_for_once_until_registered, ["LOOP-5"], |t| {
    let (manager, client) = (manager_with_pool(t, 4), t.client());
    assert!(serve_one(&manager, &client));
    for _ in 0..3 {
        assert!(!serve_one(&manager, &client), "the request is outstanding");
    }
    manager.registered();
    assert!(serve_one(&manager, &client), "registered, and not waiting: another one");
});

case!(asked_for_up_to_the_limit, ["LOOP-5", "LOOP-3"], |t| {
    let (manager, client) = (manager_with_pool(t, 2), t.client());
    for round in 0..2 {
        assert!(serve_one(&manager, &client), "thread {round}");
        manager.thread().send(|c| c.register_looper());
    }
    assert!(!serve_one(&manager, &client));
});

case!(not_asked_for_while_another_waits, ["LOOP-5"], |t| {
    let (manager, client) = (manager_with_pool(t, 4), t.client());
    let helper = manager.parked_looper();
    client.start_call(0, 1, &empty());
    // The helper takes the call. Nobody waits then, so the helper is asked; the manager is not yet.
    let outcome = helper.finish_raw();
    assert!(outcome.returns().iter().any(|item| matches!(item, Return::Transaction(_))));
    assert!(asks(&outcome));
    helper.answer(&client, &empty());
    let third = manager.registered();
    third.park();
    assert!(!serve_by(&manager, &helper), "the third waits");
});

/// Makes the thread read without work, and returns whether the driver requested another thread.
fn serve_by(_manager: &Port, reader: &Port) -> bool {
    reader.start(&stream(|c| c.transaction(&reader.place(super::NO_HANDLE, 0, &empty()))));
    asks(&reader.finish_raw())
}

case!(not_asked_for_by_a_stranger_to_the_pool, ["LOOP-5"], |t| {
    let manager = manager_with_pool(t, 4);
    let stranger = manager.thread();
    assert!(!serve_by(&manager, &stranger), "not in the pool");
    assert!(serve_by(&manager, &manager), "in the pool");
});

case!(unasked_registration_does_not_count, ["LOOP-3"], |t| {
    let (manager, client) = (manager_with_pool(t, 1), t.client());
    manager.thread().send(|c| c.register_looper());
    assert!(serve_one(&manager, &client), "the limit has not been reached");
});

case!(registering_after_entering_is_misuse, ["LOOP-2", "LOOP-3", "LOOP-4"], |t| {
    let (manager, client) = (manager_with_pool(t, 1), t.client());
    assert!(serve_one(&manager, &client));
    let helper = manager.thread();
    helper.send(|c| c.enter_looper().register_looper().enter_looper());
    // A thread that entered by itself does not answer the request, except in upstream's driver.
    let answered = {
        manager.thread().send(|c| c.register_looper());
        serve_one(&manager, &client)
    };
    assert!(!answered, "the limit of one has been reached");
    helper.send(|c| c.exit_looper());
});

// A read that cannot be written requests no thread.
case!(asked_for_again_when_nothing_could_be_told, ["LOOP-5", "WR-10"], |t| {
    let manager = manager_with_pool(t, 1);
    leave_refusal(&manager);
    let nowhere = WriteReadOp { room: ROOM, read_buffer: Some(BAD_ADDRESS), ..Default::default() };
    assert_eq!(manager.raw(nowhere).errno, Errno::EFAULT);
    assert!(serve_by(&manager, &manager));
});

// All can be written but the first code, in whose place the request goes.
case!(asked_for_again_when_that_could_not_be_told, ["LOOP-5", "WR-10"], |t| {
    let manager = manager_with_pool(t, 1);
    let gone = manager.arena.reserve(3 * page()).next_multiple_of(page() as u64);
    manager.actor.number(Op::Unmap { address: gone, length: page() }).expect("unmap");
    leave_refusal(&manager);
    let args = WriteReadOp {
        read_buffer: Some(gone + page() as u64 - 4),
        read_size: Some(ROOM as u64),
        read_consumed: 4,
        ..Default::default()
    };
    assert_eq!(manager.raw(args).errno, Errno::EFAULT);
    let is_asked = serve_by(&manager, &manager);
    t.ours_alone("a request that could not be told is never made again", is_asked);
});

// A thread registers unasked while another one is about to return a request, which fails in the
// end. In between a third thread has returned one more. That request stays.
case!(another_is_asked_for_while_a_request_is_told, ["LOOP-5", "WR-10"], |t| {
    let manager = manager_with_pool(t, 3);
    let absent = gaps::absent(t, &manager, 2);
    absent.provide(1, &[]);
    let (early, third) = (manager.thread(), manager.looper());
    leave_refusal(&manager);
    manager.start_raw(WriteReadOp {
        read_buffer: Some(absent.start + page() as u64 - 4),
        read_size: Some(ROOM as u64),
        read_consumed: 4,
        ..Default::default()
    });
    assert_eq!(absent.wait(), 0);
    early.send(|c| c.register_looper());
    assert!(serve_by(&manager, &third), "the first request is answered");
    absent.withhold(0, &early.actor);
    assert_eq!(manager.finish_raw().errno, Errno::EFAULT);
    assert!(!serve_by(&manager, &third), "the second is not");
    early.thread().send(|c| c.register_looper());
    assert!(serve_by(&manager, &third), "now it is");
});

/// A manager that replies with a missing page while no other thread waits, and that may have one
/// thread more: the manager, that page, another thread of the pool, and the client.
fn replying_without_others(t: &Stage) -> Option<(Port, Absent, Port, Port)> {
    let (manager, client) = (t.manager(), t.client());
    // Our driver keeps the memory of a completion for the next, and queues that before the copy.
    client.round_trip(0, &manager, &empty(), &empty());
    manager.ioctl(BINDER_SET_MAX_THREADS, 1u32).expect("set the limit");
    let absent = gaps::absent(t, &manager, 1);
    let other = manager.parked_looper();
    manager.park();
    client.start_blocking_call(0, 0, &empty());
    let is_newest_woken = !manager.actor.is_blocked();
    if !t.known_difference(Driver::Upstream, "another waiter than the newest is woken", is_newest_woken) {
        return None;
    }
    assert!(!asks(&manager.finish_raw()), "another one waits");
    other.interrupt_wait();
    manager.start(&stream(|c| c.reply(&gaps::of_page(&absent, 0, 0))));
    assert_eq!(absent.wait(), 0);
    Some((manager, absent, other, client))
}

case!(not_asked_for_before_a_reply_is_copied, ["LOOP-5", "WR-10"], |t| {
    let Some((manager, absent, other, client)) = replying_without_others(t) else { return };
    let next = t.client();
    next.start_blocking_call(0, 0, &empty());
    let taken = other.raw(WriteReadOp { room: ROOM, ..Default::default() });
    assert!(asks(&taken), "none has been requested");
    absent.provide(0, b"reply");
    assert!(!asks(&manager.finish_raw()), "one has been requested");
    client.wait_reply();
});

case!(not_asked_for_if_another_waits_when_a_reply_is_copied, ["LOOP-5", "WR-10"], |t| {
    let Some((manager, absent, other, client)) = replying_without_others(t) else { return };
    other.park();
    absent.provide(0, b"reply");
    assert!(!asks(&manager.finish_raw()), "another one waits");
    client.wait_reply();
    other.interrupt_wait();
});

case!(raised_limit_takes_effect, ["LOOP-5", "IOCTL-SET_MAX_THREADS"], |t| {
    let (manager, client) = (manager_with_pool(t, 0), t.client());
    assert!(!serve_one(&manager, &client));
    manager.ioctl(BINDER_SET_MAX_THREADS, 1u32).expect("set the limit");
    assert!(serve_one(&manager, &client));
});

case!(newest_waiter_is_woken, ["LOOP-6", "TXN-21"], pair, |t, (manager, client)| {
    let helpers = [manager.looper(), manager.looper(), manager.looper()];
    for helper in &helpers {
        helper.park();
    }
    client.start_blocking_call(0, 0, &empty());
    let taken = helpers.iter().rposition(|helper| !helper.actor.is_blocked()).expect("one has woken up");
    t.known_difference(Driver::Upstream, "another waiter than the newest is woken", taken == 2);
    helpers[taken].wait_call();
    helpers[taken].reply(&empty());
    client.wait_reply();
});

// A thread that stops waiting, first, last or in between, leaves the others in their order.
case!(lesson_s07_a_waiter_leaves_from_between_others, ["LOOP-6", "lesson S07"], |t| {
    let (manager, client) = (t.manager(), t.client());
    for leaving in 0..3 {
        let mut helpers = vec![manager.looper(), manager.looper(), manager.looper()];
        for helper in &helpers {
            helper.park();
        }
        let left = helpers.remove(leaving);
        left.interrupt_wait();
        while let Some(newest) = helpers.pop() {
            client.start_blocking_call(0, 0, &empty());
            if newest.actor.is_blocked() {
                t.known_difference(Driver::Upstream, "another waiter than the newest is woken", false);
                return;
            }
            newest.serve(&client);
        }
    }
});

case!(exited_threads_are_not_replaced, ["LOOP-5"], |t| {
    let (manager, client) = (manager_with_pool(t, 1), t.client());
    assert!(serve_one(&manager, &client));
    assert_eq!(manager.registered().ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    assert!(!serve_one(&manager, &client), "the limit counts lifetime registrations");
});
