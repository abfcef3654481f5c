// SPDX-License-Identifier: GPL-2.0
//! Threads that leave, poll or make calls of their own with work unread.
//!
//! A thread that waits is woken for work and has no room to read it. Our driver has given it the
//! work by then; in C any thread may still take it.

use super::*;
use crate::cast::{INHERIT_RT, NO_MINIMUM};
use crate::scheduling::Schedule::{Fifo, Nice};

case!(exit_with_a_death, ["TREL-2", "DN-2"], |t| DEATH.outlives_the_thread(t));
case!(exit_with_a_withdrawn_death, ["TREL-2", "DN-3"], |t| WITHDRAWN_DEATH.outlives_the_thread(t));
case!(exit_with_a_freeze_notification, ["TREL-2", "FRZN-2"], |t| FROZEN.outlives_the_thread(t));
case!(exit_with_a_withdrawn_freeze_link, ["TREL-2", "FRZN-4"], |t| WITHDRAWN_FREEZE.outlives_the_thread(t));
case!(exit_with_a_release, ["TREL-2", "NODE-7"], |t| RELEASED.outlives_the_thread(t));
case!(exit_with_a_weak_release, ["TREL-2", "NODE-7"], |t| RELEASED_WEAKLY.outlives_the_thread(t));
case!(call_with_node_updates, ["TXN-10", "LOOP-9", "NODE-7"], |t| call_with(t, &RELEASED));
case!(call_with_a_freeze_notification, ["TXN-10", "LOOP-9", "FRZN-2"], |t| call_with(t, &WITHDRAWN_FREEZE));
case!(call_with_a_death, ["TXN-10", "LOOP-9", "DN-2"], |t| call_with(t, &WITHDRAWN_DEATH));

const COOKIE: u64 = 0x99;
const ID: BinderPtrCookie = BinderPtrCookie { ptr: 0x10, cookie: 0x20 };

/// A process that holds the manager's handle 0 and has a node that the manager holds, with a thread of the
/// pool beside its first one.
struct Scene {
    manager: Port,
    /// Another thread of the manager's process.
    second: Port,
    freezer: Freezer,
    port: Port,
    thread: Port,
    /// The manager's handle on the node.
    handle: u32,
}

fn scene(t: &Stage) -> Scene {
    let (manager, port) = (t.manager(), t.server());
    port.send(|c| c.acquire(0));
    let handle = give_in_a_call(&manager, &port, FlatBinderObject::binder(ID.ptr, ID.cookie));
    port.settle_counts();
    let (thread, freezer) = (port.looper(), Freezer::of(t, &manager));
    let second = manager.thread();
    Scene { manager, second, freezer, port, thread, handle }
}

/// An event that the thread has to read, and its returns.
struct Event {
    name: &'static str,
    prepare: fn(&Scene),
    happen: fn(&Scene),
    told: fn(&[Return]) -> bool,
}

const DEATH: Event = Event {
    name: "a death",
    prepare: |s| {
        s.manager.send(|c| c.release(s.handle));
        assert_eq!(s.port.read_once(), [Return::Release(ID), Return::Decrefs(ID)]);
        s.port.send(|c| c.request_death(0, COOKIE));
    },
    happen: |s| {
        s.manager.kill();
        s.freezer.wait_gone();
    },
    told: |told| *told == [DeadBinder(COOKIE)],
};

const WITHDRAWN_DEATH: Event = Event {
    name: "a death link that was withdrawn",
    prepare: |s| s.port.send(|c| c.request_death(0, COOKIE)),
    // By a thread outside of the pool, for whichever comes.
    happen: |s| s.port.thread().send(|c| c.clear_death(0, COOKIE)),
    told: |told| *told == [ClearDone(COOKIE)],
};

const FROZEN: Event = Event {
    name: "freezing",
    prepare: |s| {
        s.port.send(|c| c.request_freeze(0, COOKIE));
        assert_eq!(s.port.read_once(), [notification(COOKIE, 0)]);
        s.port.send(|c| c.freeze_done(COOKIE));
    },
    happen: |s| assert_eq!(s.freezer.freeze(0), Ok(())),
    told: |told| *told == [notification(COOKIE, 1)],
};

const WITHDRAWN_FREEZE: Event = Event {
    name: "a freeze link that was withdrawn",
    prepare: FROZEN.prepare,
    happen: |s| s.port.thread().send(|c| c.clear_freeze(0, COOKIE)),
    told: |told| *told == [cleared(COOKIE)],
};

const RELEASED: Event = Event {
    name: "the last counts",
    prepare: |_| (),
    happen: |s| s.manager.send(|c| c.release(s.handle)),
    told: |told| *told == [Return::Release(ID), Return::Decrefs(ID)],
};

const RELEASED_WEAKLY: Event = Event {
    name: "the last weak count",
    prepare: |s| {
        s.manager.send(|c| c.increfs(s.handle).release(s.handle));
        assert_eq!(s.port.read_once(), [Return::Release(ID)]);
    },
    happen: |s| s.manager.send(|c| c.decrefs(s.handle)),
    told: |told| *told == [Return::Decrefs(ID)],
};

const CALL: Event = Event {
    name: "a call",
    prepare: |_| (),
    happen: |s| s.manager.start_call(s.handle, 7, &bytes(b"call")),
    told: |told| matches!(told, [Return::Transaction(call)] if call.code == 7 && call.data_size == 4),
};

const ONEWAY: Event = Event {
    name: "a oneway call",
    prepare: |_| (),
    happen: |s| s.manager.tell(s.handle, 0, &bytes(b"one")),
    told: |told| matches!(told, [Return::Transaction(call)] if call.data_size == 3),
};

const ALL: [Event; 8] =
    [DEATH, WITHDRAWN_DEATH, FROZEN, WITHDRAWN_FREEZE, RELEASED, RELEASED_WEAKLY, CALL, ONEWAY];

impl Event {
    /// The thread has been woken for it, and was not able to read.
    #[track_caller]
    fn unread(&self, t: &Stage) -> Scene {
        let scene = scene(t);
        (self.prepare)(&scene);
        scene.thread.park_without_room();
        (self.happen)(&scene);
        scene.thread.expect_no_room();
        scene
    }

    /// Another thread of the process reads of it, once, after the thread has left.
    #[track_caller]
    fn outlives_the_thread(&self, t: &Stage) {
        let scene = self.unread(t);
        exit(&scene.thread);
        let told = scene.port.drain();
        assert!((self.told)(&told), "{}: {told:?}", self.name);
        assert_eq!(scene.thread.drain(), []);
    }
}

/// Ends the manager, so that there can be another one.
fn end(scene: &Scene) {
    let _ = kill(Pid::from_raw(scene.manager.actor.pid()), Signal::SIGKILL);
}

case!(exit_with_a_call, ["TREL-2", "TREL-1"], |t| {
    let scene = CALL.unread(t);
    exit(&scene.thread);
    assert_eq!(scene.manager.wait_refusal(), Return::DeadReply);
    assert_eq!(scene.port.drain(), []);
    // The next one is for the others, and has all the space.
    scene.manager.start_call(scene.handle, 0, &bytes(&vec![1; SPACE]));
    let fits = scene.manager.actor.is_blocked();
    if t.known_difference(Driver::C, "the space of an unread call is lost when the thread exits", fits) {
        scene.port.serve(&scene.manager);
    } else {
        assert_eq!(scene.manager.wait_refusal(), Return::FailedReply);
    }
});

case!(exit_with_a_oneway_call, ["TREL-2", "TXN-22"], |t| {
    let scene = ONEWAY.unread(t);
    scene.manager.tell(scene.handle, 0, &bytes(b"next"));
    exit(&scene.thread);
    // The first call is lost, or another thread reads it; the next one arrives in any case.
    let mut heard = Vec::new();
    for _ in 0..2 {
        for item in scene.port.drain() {
            let Return::Transaction(call) = item else { panic!("{item:?}") };
            heard.push(scene.port.data(&call));
            scene.port.free(&call);
        }
    }
    let goes_on = heard.last().is_some_and(|last| last == b"next");
    t.known_difference(Driver::C, "a oneway call that a thread leaves unread stops its node", goes_on);
    assert!(heard.len() <= 2, "{heard:?}");
});

// Another thread that waits takes the remaining work.
case!(exit_wakes_who_waits, ["TREL-2", "POLL-4"], |t| {
    for event in [DEATH, WITHDRAWN_DEATH, FROZEN, WITHDRAWN_FREEZE, RELEASED, RELEASED_WEAKLY] {
        let scene = event.unread(t);
        scene.port.start_read();
        exit(&scene.thread);
        let mut told = scene.port.finish_read();
        told.extend(scene.port.drain());
        assert!((event.told)(&told), "{}: {told:?}", event.name);
        end(&scene);
    }
});

case!(exit_of_one_who_was_made_urgent, ["TREL-1", "TXN-31"], |t| {
    // Real-time ones are raised by who calls, before they have read of the call.
    let real_time = (Fifo(20), INHERIT_RT | NO_MINIMUM);
    for (caller, minimum) in [(Nice(-10), 19), (Nice(5), 19), (Nice(0), 0), real_time] {
        let scene = scene(t);
        let node = FlatBinderObject::binder(0x50, 0).with_flags(ObjectFlags::from_bits_retain(minimum));
        let handle = give_in_a_call(&scene.manager, &scene.port, node);
        scene.port.settle_counts();
        scene.thread.park_without_room();
        scene.manager.actor.set_schedule(caller);
        scene.manager.start_call(handle, 0, &empty());
        scene.thread.expect_no_room();
        if caller == real_time.0 {
            t.ours_alone("no inheritance", scene.thread.actor.schedule() == caller);
        }
        exit(&scene.thread);
        assert_eq!(scene.manager.wait_refusal(), Return::DeadReply);
        assert_eq!(scene.thread.actor.schedule(), Nice(0), "called at {caller:?}");
        end(&scene);
    }
});

case!(read_with_room_after_all, ["WR-8"], |t| {
    for event in ALL {
        let scene = event.unread(t);
        let told = scene.thread.read_once();
        assert!((event.told)(&told), "{}: {told:?}", event.name);
        assert_eq!(scene.port.drain(), [], "{}", event.name);
        end(&scene);
    }
});

case!(poll_tells_of_it, ["WR-8", "POLL-2"], |t| {
    for event in ALL {
        let scene = event.unread(t);
        assert_eq!(scene.thread.poll(0), libc::POLLIN as u64, "{}", event.name);
        let told = scene.thread.read_once();
        assert!((event.told)(&told), "{}: {told:?}", event.name);
        // Once it serves a call, what comes for the process is not for it.
        assert_eq!(scene.thread.poll(0), 0, "{}", event.name);
        end(&scene);
    }
});

// A thread that has something unread is not free for what comes next.
case!(others_take_what_comes_next, ["POLL-3", "TXN-21"], |t| {
    let scene = CALL.unread(t);
    assert_eq!(scene.second.call(&scene.port, scene.handle, 8, &empty()).code, 8);
    let told = scene.thread.read_once();
    assert!((CALL.told)(&told), "{told:?}");
    scene.thread.answer(&scene.manager, &empty());
    scene.port.answer(&scene.second, &empty());
});

/// A thread makes a call with this unread. It reads of the event once: before the call's outcome if
/// it has been given the work, else afterwards.
fn call_with(t: &Stage, event: &Event) {
    let scene = event.unread(t);
    scene.thread.send_call(0, 0, &empty());
    scene.manager.wait_call();
    scene.manager.reply(&empty());
    let told = scene.thread.drain();
    let is_of_call = |item: &Return| matches!(item, Return::TransactionComplete | Return::Reply(_));
    let of_call: Vec<Return> = told.iter().copied().filter(is_of_call).collect();
    assert!(matches!(of_call[..], [Return::TransactionComplete, Return::Reply(_)]), "{told:?}");
    let of_event: Vec<Return> = told.iter().copied().filter(|item| !is_of_call(item)).collect();
    assert!((event.told)(&of_event), "{}: {told:?}", event.name);
    assert_eq!(scene.port.drain(), [], "{}", event.name);
}

case!(call_with_a_call_unread, ["TXN-10"], |t| {
    let scene = CALL.unread(t);
    scene.thread.send(|c| c.free_buffer(0));
    let call = scene.thread.place(0, 0, &empty());
    assert_eq!(scene.thread.try_write(&stream(|c| c.transaction(&call))).errno, Errno::from_raw(0));
    let errno = if t.upstream() { Errno::EINVAL } else { Errno::EPROTO };
    assert_eq!(scene.thread.extended_error(), super::failed(errno));
    // The call comes first, for it was there first.
    let told = scene.thread.read_once();
    assert!((CALL.told)(&told), "{told:?}");
    assert_eq!(scene.thread.read_once(), [Return::FailedReply]);
    scene.thread.answer(&scene.manager, &empty());
});

case!(call_with_a_reply_unread, ["TXN-10", "WR-8"], pair, |t, (manager, client)| {
    client.send_call_to(&manager, 0, 0, &empty());
    manager.reply(&bytes(b"answer"));
    // There is room for the completion, and not for the reply.
    let outcome = client.raw(WriteReadOp { room: 80, ..Default::default() });
    assert_eq!(outcome.returns(), [Return::Noop, Return::TransactionComplete]);
    let commands = stream(|c| c.transaction(&client.place(0, 1, &empty())));
    assert_eq!(client.try_write(&commands).errno, Errno::from_raw(0));
    let is_refused = client.extended_error() == super::failed(Errno::EPROTO);
    if !t.known_difference(Driver::Upstream, "the call is made", is_refused) {
        return;
    }
    // Its completion is its refusal, which comes after the reply to the first one.
    client.forgets_completions();
    let told = client.read_once();
    let [Return::Reply(reply)] = told[..] else { panic!("{told:?}") };
    assert_eq!(client.data(&reply), b"answer");
    assert_eq!(client.read_once(), [Return::FailedReply]);
    assert_eq!(manager.drain(), []);
});

case!(oneway_call_with_a_call_unread, ["TXN-10", "TXN-16"], |t| {
    let scene = CALL.unread(t);
    scene.thread.send(|c| c.transaction(&scene.thread.place_oneway(0, 0, &bytes(b"o"))));
    let told = scene.thread.read_once();
    assert!((CALL.told)(&told), "{told:?}");
    assert_eq!(scene.thread.read_once(), [Return::TransactionComplete]);
    scene.thread.answer(&scene.manager, &empty());
    assert_eq!(scene.manager.wait_call().data_size, 1);
});

case!(call_with_a_oneway_call_unread, ["TXN-10"], |t| {
    let scene = ONEWAY.unread(t);
    let commands = stream(|c| c.transaction(&scene.thread.place(0, 0, &empty())));
    assert_eq!(scene.thread.try_write(&commands).errno, Errno::from_raw(0));
    // If the thread was given it, it is a call that was there first; else the thread is free to make its own.
    if scene.thread.extended_error() == super::NO_ERROR {
        scene.manager.wait_call();
        scene.manager.reply(&empty());
        let told = scene.thread.drain();
        assert!(matches!(told[..2], [Return::TransactionComplete, Return::Reply(_)]), "{told:?}");
    } else {
        let told = scene.thread.read_once();
        assert!((ONEWAY.told)(&told), "{told:?}");
        assert_eq!(scene.thread.read_once(), [Return::FailedReply]);
    }
});

case!(death_with_everything_unread, ["REL-2", "TREL-1"], |t| {
    for event in ALL {
        let scene = event.unread(t);
        scene.port.kill();
        if event.name == CALL.name {
            assert_eq!(scene.manager.wait_refusal(), Return::DeadReply);
        }
        end(&scene);
    }
    // The next processes find everything in order.
    let (manager, client) = (t.manager(), t.client());
    client.round_trip(0, &manager, &empty(), &empty());
});

/// A call of a's to b, and in its course one of b's to a, which a serves when b dies.
fn ended(t: &Stage) -> (Port, Port) {
    let (manager, a, b, on_b, on_a) = couple(t);
    a.call(&b, on_b, 1, &empty());
    b.call(&a, on_a, 2, &empty());
    let freezer = Freezer::of(t, &b);
    b.kill();
    freezer.wait_gone();
    (manager, a)
}

case!(exit_after_the_outer_call_has_ended, ["TREL-1", "TXN-26"], ended, |t, (manager, a)| {
    exit(&a);
    assert_eq!(a.drain(), []);
    a.round_trip(0, &manager, &empty(), &empty());
    assert_eq!(a.drain(), []);
});

case!(exit_with_the_outer_calls_end_unread, ["TREL-1", "TXN-26"], ended, |t, (manager, a)| {
    a.send(|c| c.reply(&a.place(0, 0, &empty())));
    exit(&a);
    assert_eq!(a.drain(), []);
    a.round_trip(0, &manager, &empty(), &empty());
    assert_eq!(a.drain(), []);
});

// The error goes with the thread, and the thread with the error: our driver prints leaks at unload.
case!(death_with_an_error_unread, ["TREL-1", "REL-2"], Stage::manager, |t, manager| {
    let port = t.client();
    for _ in 0..3 {
        // There is no call to reply to.
        port.send(|c| c.reply(&port.place(0, 0, &empty())));
        exit(&port);
        port.round_trip(0, &manager, &empty(), &empty());
    }
    port.send(|c| c.reply(&port.place(0, 0, &empty())));
    port.kill();
});
