// SPDX-License-Identifier: GPL-2.0
//! Wake-ups when the command comes from another thread than the one that waits: each in a read, in
//! `poll` and in `epoll_wait`.

use super::*;

case!(refusal_when_the_server_dies, ["TREL-1", "POLL-2"], |t| woken(t, called, Port::kill, |told| *told
    == REFUSED));

const COOKIE: u64 = 0x77;
const ID: BinderPtrCookie = BinderPtrCookie { ptr: 0x10, cookie: 0x20 };
const NODE: FlatBinderObject = FlatBinderObject::binder(ID.ptr, ID.cookie);
const PATIENCE_MS: u16 = 60_000;

/// The ways in which a thread waits for something to read.
#[derive(Clone, Copy, Debug)]
enum Way {
    Read,
    Poll,
    Epoll,
}

/// Each way in turn.
const WAYS: [Way; 3] = [Way::Read, Way::Poll, Way::Epoll];

impl Way {
    /// Has the thread wait; nothing is there yet.
    #[track_caller]
    fn begin(self, port: &Port) {
        let (slot, timeout_ms) = (port.slot, PATIENCE_MS);
        match self {
            Way::Read => port.start_read(),
            Way::Poll => port.actor.start(Op::Poll { slot, timeout_ms }),
            Way::Epoll => {
                let set = port.epoll(false);
                port.actor.start(Op::EpollWait { set, timeout_ms });
            }
        }
        port.actor.expect_blocked();
    }

    /// The thread has been woken; all that it reads.
    #[track_caller]
    fn end(self, port: &Port) -> Vec<Return> {
        let mut told = Vec::new();
        match self {
            Way::Read => told = port.finish_read(),
            Way::Poll | Way::Epoll => {
                let Answer::Number(events) = port.actor.finish() else { panic!("no events") };
                assert_ne!(events & libc::POLLIN as u64, 0, "{events:#x}");
            }
        }
        told.extend(port.drain());
        told
    }
}

/// A thread of the pool waits, in each way; something happens, and it reads exactly this.
#[track_caller]
fn woken<Scene>(
    t: &Stage,
    scene: impl Fn(&Stage, Port) -> (Port, Scene),
    event: impl Fn(&Scene),
    told: impl Fn(&[Return]) -> bool,
) {
    for way in WAYS {
        let manager = t.manager();
        let (waiting, scene) = scene(t, manager.clone());
        // C queues a node's notification whenever a count goes down, even with nothing to return.
        assert_eq!(waiting.drain(), []);
        way.begin(&waiting);
        event(&scene);
        let items = way.end(&waiting);
        assert!(told(&items), "{way:?}: {items:?}");
        // The next round needs another manager; this one may have died already.
        let _ = kill(Pid::from_raw(manager.actor.pid()), Signal::SIGKILL);
    }
}

/// The processes of a holder of an owner's node.
struct Held {
    owner: Port,
    /// A thread of the holder that is not in the pool.
    stranger: Port,
    handle: u32,
    freezer: Freezer,
}

/// A holder, whose thread of the pool will wait, and the other actors.
fn held(t: &Stage, manager: Port) -> (Port, Held) {
    let (owner, holder) = (t.server(), t.server());
    let handle = introduce_counted(&manager, &owner, NODE, &holder);
    let (stranger, freezer) = (holder.thread(), Freezer::of(t, &owner));
    (holder, Held { owner, stranger, handle, freezer })
}

impl Held {
    fn end_owner(&self) {
        self.owner.kill();
        self.freezer.wait_gone();
    }
}

/// The scene after one more step.
fn after(
    scene: impl Fn(&Stage, Port) -> (Port, Held),
    prepare: impl Fn(&Port, &Held),
) -> impl Fn(&Stage, Port) -> (Port, Held) {
    move |t, manager| {
        let (holder, held) = scene(t, manager);
        prepare(&holder, &held);
        (holder, held)
    }
}

case!(death_withdrawn, ["DN-3", "DN-4", "POLL-4"], |t| {
    let scene = after(held, |_, held| held.stranger.send(|c| c.request_death(held.handle, COOKIE)));
    let event = |held: &Held| held.stranger.send(|c| c.clear_death(held.handle, COOKIE));
    woken(t, scene, event, |told| *told == [ClearDone(COOKIE)]);
});

case!(death_confirmed_that_was_withdrawn, ["DN-3", "DN-4", "POLL-4"], |t| {
    let scene = after(held, |holder, held| {
        held.stranger.send(|c| c.request_death(held.handle, COOKIE));
        held.end_owner();
        assert_eq!(holder.read_once(), [DeadBinder(COOKIE)]);
        held.stranger.send(|c| c.clear_death(held.handle, COOKIE));
    });
    let event = |held: &Held| held.stranger.send(|c| c.dead_binder_done(COOKIE));
    woken(t, scene, event, |told| *told == [ClearDone(COOKIE)]);
});

case!(death_of_the_dead_requested, ["DN-1", "POLL-4"], |t| {
    let scene = after(held, |_, held| held.end_owner());
    let event = |held: &Held| held.stranger.send(|c| c.request_death(held.handle, COOKIE));
    woken(t, scene, event, |told| *told == [DeadBinder(COOKIE)]);
});

case!(death_of_the_owner, ["DN-2", "POLL-4"], |t| {
    let scene = after(held, |_, held| held.stranger.send(|c| c.request_death(held.handle, COOKIE)));
    woken(t, scene, Held::end_owner, |told| *told == [DeadBinder(COOKIE)]);
});

/// A holder with a freeze link, which has read the first state.
fn linked(t: &Stage, manager: Port) -> (Port, Held) {
    let (holder, held) = held(t, manager);
    held.stranger.send(|c| c.request_freeze(held.handle, COOKIE));
    assert_eq!(holder.read_once(), [notification(COOKIE, 0)]);
    (holder, held)
}

/// That holder after it has confirmed the state.
fn listening(t: &Stage, manager: Port) -> (Port, Held) {
    let (holder, held) = linked(t, manager);
    held.stranger.send(|c| c.freeze_done(COOKIE));
    (holder, held)
}

case!(freeze_requested, ["FRZN-1", "POLL-4"], |t| {
    let event = |held: &Held| held.stranger.send(|c| c.request_freeze(held.handle, COOKIE));
    woken(t, held, event, |told| *told == [notification(COOKIE, 0)]);
});

case!(freeze_withdrawn, ["FRZN-4", "POLL-4"], |t| {
    let event = |held: &Held| held.stranger.send(|c| c.clear_freeze(held.handle, COOKIE));
    woken(t, listening, event, |told| *told == [cleared(COOKIE)]);
});

case!(freeze_confirmed_that_has_changed, ["FRZN-2", "FRZN-3", "POLL-4"], |t| {
    let scene = after(linked, |_, held| assert_eq!(held.freezer.freeze(0), Ok(())));
    let event = |held: &Held| held.stranger.send(|c| c.freeze_done(COOKIE));
    woken(t, scene, event, |told| *told == [notification(COOKIE, 1)]);
});

case!(freeze_confirmed_that_was_withdrawn, ["FRZN-4", "POLL-4"], |t| {
    let scene = after(linked, |_, held| held.stranger.send(|c| c.clear_freeze(held.handle, COOKIE)));
    let event = |held: &Held| held.stranger.send(|c| c.freeze_done(COOKIE));
    woken(t, scene, event, |told| *told == [cleared(COOKIE)]);
});

case!(frozen_and_thawed, ["FRZN-2", "POLL-4"], |t| {
    let event = |held: &Held| assert_eq!(held.freezer.freeze(0), Ok(()));
    woken(t, listening, event, |told| *told == [notification(COOKIE, 1)]);
    let scene = after(listening, |holder, held| {
        assert_eq!(held.freezer.freeze(0), Ok(()));
        assert_eq!(holder.read_once(), [notification(COOKIE, 1)]);
        held.stranger.send(|c| c.freeze_done(COOKIE));
    });
    let event = |held: &Held| assert_eq!(held.freezer.thaw(), Ok(()));
    woken(t, scene, event, |told| *told == [notification(COOKIE, 0)]);
});

/// An owner whose node the manager got in a call that has not been freed. The owner has confirmed
/// its counts or not.
fn given(
    t: &Stage,
    manager: Port,
    node: FlatBinderObject,
    confirmed: bool,
) -> (Port, (Port, Port, BinderTransactionData)) {
    let owner = t.server();
    let stranger = owner.thread();
    let call = owner.call(&manager, 0, 0, &object(node));
    owner.free(&manager.answer(&owner, &empty()));
    owner.ignore_passed();
    if confirmed {
        stranger.confirm(ID);
    }
    (owner, (manager, stranger, call))
}

const LET_GO: [Return; 2] = [Return::Release(ID), Return::Decrefs(ID)];

case!(buffer_freed_that_held_the_node, ["NODE-7", "OBJ-11", "POLL-4"], |t| {
    let scene = |t: &Stage, manager| given(t, manager, NODE, true);
    woken(t, scene, |(manager, _, call)| manager.free(call), |told| *told == LET_GO);
    let weak = FlatBinderObject::weak_binder(ID.ptr, ID.cookie);
    let scene = |t: &Stage, manager| given(t, manager, weak, true);
    woken(t, scene, |(manager, _, call)| manager.free(call), |told| *told == LET_GO[1..]);
});

case!(counts_confirmed_that_nobody_needs, ["NODE-8", "NODE-7", "POLL-4"], |t| {
    let scene = |t: &Stage, manager: Port| {
        let (owner, (manager, stranger, call)) = given(t, manager, NODE, false);
        manager.free(&call);
        stranger.send(|c| c.increfs_done(ID.ptr, ID.cookie));
        (owner, stranger)
    };
    let event = |stranger: &Port| stranger.send(|c| c.acquire_done(ID.ptr, ID.cookie));
    woken(t, scene, event, |told| *told == LET_GO);
    // The weak count alone, after the strong one.
    let scene = |t: &Stage, manager: Port| {
        let (owner, (manager, stranger, call)) = given(t, manager, NODE, false);
        manager.free(&call);
        stranger.send(|c| c.acquire_done(ID.ptr, ID.cookie));
        assert_eq!(owner.read_once(), LET_GO[..1]);
        (owner, stranger)
    };
    let event = |stranger: &Port| stranger.send(|c| c.increfs_done(ID.ptr, ID.cookie));
    woken(t, scene, event, |told| *told == LET_GO[1..]);
});

/// An owner whose node another process holds by one handle, and that process.
fn owned(t: &Stage, manager: Port, weakly: bool) -> (Port, (Port, u32)) {
    let (owner, holder) = (t.server(), t.client());
    let handle = introduce_counted(&manager, &owner, NODE, &holder);
    if weakly {
        holder.send(|c| c.increfs(handle).release(handle));
        assert_eq!(owner.read_once(), LET_GO[..1]);
    }
    (owner, (holder, handle))
}

case!(handle_released, ["NODE-7", "POLL-4"], |t| {
    let event = |(holder, handle): &(Port, u32)| holder.send(|c| c.release(*handle));
    woken(t, |t, manager| owned(t, manager, false), event, |told| *told == LET_GO);
    let scene = |t: &Stage, manager: Port| {
        let (owner, (holder, handle)) = owned(t, manager, false);
        holder.send(|c| c.increfs(handle));
        (owner, (holder, handle))
    };
    woken(t, scene, event, |told| *told == LET_GO[..1]);
});

case!(weak_handle_released, ["NODE-7", "POLL-4"], |t| {
    let event = |(holder, handle): &(Port, u32)| holder.send(|c| c.decrefs(*handle));
    woken(t, |t, manager| owned(t, manager, true), event, |told| *told == LET_GO[1..]);
});

case!(holder_dies, ["NODE-7", "REL-2", "POLL-4"], |t| {
    // C releases a strong handle in two steps, between which the owner may read.
    woken(t, |t, manager| owned(t, manager, true), |(holder, _)| holder.kill(), |told| *told == LET_GO[1..]);
});

// An owner with a buffer in which a handle has come home that nobody has any more.
case!(own_buffer_freed_that_held_the_node, ["NODE-7", "OBJ-11", "POLL-4"], |t| {
    let scene = |t: &Stage, manager: Port| {
        let (owner, (manager, stranger, call)) = given(t, manager, NODE, true);
        let handle = manager.object(&call).handle();
        owner.call(&manager, 0, 0, &empty());
        let reply = manager.answer(&owner, &object(FlatBinderObject::strong_handle(handle)));
        manager.free(&call);
        (owner, (manager, stranger, reply))
    };
    let event = |(_, stranger, reply): &(Port, Port, BinderTransactionData)| stranger.free(reply);
    woken(t, scene, event, |told| *told == LET_GO);
});

fn is_call(told: &[Return], length: u64) -> bool {
    matches!(told, [Return::Transaction(call)] if call.data_size == length)
}

case!(next_oneway_call, ["TXN-22", "POLL-4"], |t| {
    let scene = |t: &Stage, server: Port| {
        let client = t.client();
        let stranger = server.thread();
        client.tell(0, 0, &bytes(b"1"));
        client.tell(0, 0, &bytes(b"22"));
        let first = server.wait_call();
        (server, (stranger, first, client))
    };
    let event = |(stranger, first, _): &(Port, BinderTransactionData, Port)| stranger.free(first);
    woken(t, scene, event, |told| is_call(told, 2));
});

/// A file that nobody has room for.
pub(super) fn file(port: &Port) -> Parcel {
    let (ours, _) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    let mut parcel = crate::sg::SgParcel::new();
    parcel.fd(port.actor.give(&ours));
    parcel.parcel
}

pub(super) fn oneway_file(client: &Port) {
    client.tell(0, 0, &file(client));
}

case!(next_oneway_call_after_one_that_is_undeliverable, ["TXN-22", "TXN-27"], |t| {
    let (server, client) = (t.file_manager(), t.client());
    let other = server.looper();
    oneway_file(&client);
    client.tell(0, 0, &bytes(b"22"));
    server.actor.limit_files(0);
    // The thread that finds the file undeliverable reads the work behind it.
    let items = other.read_once();
    assert!(is_call(&items, 2), "{items:?}");
    assert_eq!(server.drain(), []);
});

case!(call, ["TXN-21", "POLL-4"], |t| {
    let scene = |t: &Stage, server: Port| (server, t.client());
    woken(t, scene, |client| client.start_call(0, 0, &bytes(b"22")), |told| is_call(told, 2));
});

case!(oneway_call, ["TXN-21", "POLL-4"], |t| {
    let scene = |t: &Stage, server: Port| (server, t.client());
    woken(t, scene, |client| client.tell(0, 0, &bytes(b"22")), |told| is_call(told, 2));
});

/// A client that has made a call and waits, and the server that serves it.
fn called(t: &Stage, server: Port) -> (Port, Port) {
    let client = t.client();
    client.send_call_to(&server, 0, 0, &empty());
    (client, server)
}

case!(reply, ["TXN-17", "POLL-2"], |t| {
    let answered = |told: &[Return]| matches!(told, [Return::TransactionComplete, Return::Reply(_)]);
    woken(t, called, |server| server.reply(&empty()), answered);
});

const REFUSED: [Return; 2] = [Return::TransactionComplete, Return::DeadReply];

case!(refusal_when_the_server_exits, ["TREL-1", "POLL-2"], |t| {
    let event = |server: &Port| assert_eq!(server.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    woken(t, called, event, |told| *told == REFUSED);
});

case!(refusal_of_what_is_undeliverable, ["TXN-28", "POLL-2"], |t| {
    let scene = |t: &Stage, server: Port| {
        let client = t.client();
        client.send_call(0, 0, &empty());
        (client, server)
    };
    let event = |server: &Port| unwritable_read(server);
    woken(t, scene, event, |told| *told == [Return::TransactionComplete, Return::FailedReply]);
});

/// A read whose buffer cannot be written beyond `BR_NOOP`.
#[track_caller]
pub(super) fn unwritable_read(port: &Port) {
    let args =
        WriteReadOp { room: 512, read_buffer: Some(BAD_ADDRESS), read_consumed: 4, ..Default::default() };
    assert_eq!(port.raw(args).errno, Errno::EFAULT);
}

case!(call_back, ["TXN-11", "POLL-2"], |t| {
    let scene = |t: &Stage, server: Port| {
        let client = t.client();
        let handle = server.object(&client.send_call_to(&server, 0, 0, &object(NODE))).handle();
        (client, (server, handle))
    };
    let event = |(server, handle): &(Port, u32)| server.start_call(*handle, 0, &bytes(b"22"));
    woken(t, scene, event, |told| {
        matches!(told, [Return::Increfs(_), Return::Acquire(_), rest @ ..]
        if rest.first() == Some(&Return::TransactionComplete) && is_call(&rest[1..], 2))
    });
});
