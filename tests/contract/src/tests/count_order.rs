// SPDX-License-Identifier: GPL-2.0
//! The order of count notifications over several threads of an owner: one thread has read the weak
//! ones, or not yet; another needs the strong ones; the first exits in between.

use super::*;
use binder_sys::Return::{Acquire, Decrefs, Increfs, Release, TransactionComplete as Complete};

pub(super) const ID: BinderPtrCookie = BinderPtrCookie { ptr: 0x1230, cookie: 0x4560 };
const OTHER: BinderPtrCookie = BinderPtrCookie { ptr: 0x10, cookie: 0x11 };

pub(super) const LOST: &str = "count requests queued to a thread are lost when it exits";

fn strong(id: BinderPtrCookie) -> FlatBinderObject {
    FlatBinderObject::binder(id.ptr, id.cookie)
}

fn weak(id: BinderPtrCookie) -> FlatBinderObject {
    FlatBinderObject::weak_binder(id.ptr, id.cookie)
}

/// An owner's threads, and the manager that gets their nodes.
struct Scene {
    manager: Port,
    x: Port,
    y: Port,
    z: Port,
}

fn scene(t: &Stage) -> Scene {
    let (manager, x) = (t.manager(), t.server());
    let (y, z) = (x.looper(), x.looper());
    Scene { manager, x, y, z }
}

fn oneway(sender: &Port, objects: &[FlatBinderObject]) -> BinderTransactionData {
    sender.place_oneway(0, 0, &parcel_of(objects.iter().copied()))
}

impl Scene {
    /// A thread sends objects and reads nothing; the manager has them from now on.
    fn sends_all(&self, sender: &Port, objects: &[FlatBinderObject]) -> BinderTransactionData {
        sender.send(|c| c.transaction(&oneway(sender, objects)));
        self.manager.wait_call()
    }

    fn sends(&self, sender: &Port, object: FlatBinderObject) -> BinderTransactionData {
        self.sends_all(sender, &[object])
    }

    /// The manager keeps the objects of a call, and its node is ready for the next call.
    fn keeps(&self, call: &BinderTransactionData) -> u32 {
        let object = self.manager.object(call);
        match object.kind == ObjectType::HANDLE {
            true => self.manager.send(|c| c.acquire(object.handle())),
            false => self.manager.send(|c| c.increfs(object.handle())),
        }
        self.manager.free(call);
        object.handle()
    }
}

fn exit(port: &Port) {
    super::exit(port);
    port.enter_looper();
}

case!(weak_told_to_one_strong_to_another, ["NODE-6", "NODE-7"], scene, |t, s| {
    let handle = s.keeps(&s.sends(&s.x, weak(ID)));
    assert_eq!(s.x.drain(), [Increfs(ID), Complete]);
    // Not confirmed, and not returned again.
    let call = s.sends(&s.y, strong(ID));
    assert_eq!(s.y.drain(), [Acquire(ID), Complete]);
    s.z.confirm(ID);
    s.manager.free(&call);
    assert_eq!(s.z.drain(), [Release(ID)]);
    s.manager.send(|c| c.decrefs(handle));
    assert_eq!(s.x.drain(), [Decrefs(ID)]);
});

case!(weak_unread_by_one_strong_to_another, ["NODE-6", "NODE-7"], scene, |t, s| {
    s.keeps(&s.sends(&s.x, weak(ID)));
    s.sends(&s.y, strong(ID));
    assert_eq!(s.y.drain(), [Increfs(ID), Acquire(ID), Complete], "the thread that needs it reads both");
    assert_eq!(s.x.drain(), [Complete]);
});

case!(strong_unread_by_one_weak_to_another, ["NODE-6", "NODE-7"], scene, |t, s| {
    s.keeps(&s.sends(&s.x, strong(ID)));
    s.sends(&s.y, weak(ID));
    assert_eq!(s.y.drain(), [Complete]);
    assert_eq!(s.x.drain(), [Increfs(ID), Acquire(ID), Complete]);
});

case!(strong_unread_by_one_strong_to_another, ["NODE-6", "NODE-7"], scene, |t, s| {
    s.keeps(&s.sends(&s.x, strong(ID)));
    // The manager's handle is strong already, so nothing is needed of the node.
    s.sends(&s.y, strong(ID));
    assert_eq!(s.y.drain(), [Complete]);
    assert_eq!(s.x.drain(), [Increfs(ID), Acquire(ID), Complete]);
});

case!(goes_from_hand_to_hand, ["NODE-7"], scene, |t, s| {
    s.keeps(&s.sends(&s.x, weak(ID)));
    s.keeps(&s.sends(&s.y, strong(ID)));
    s.keeps(&s.sends(&s.z, strong(ID)));
    s.keeps(&s.sends(&s.x, weak(ID)));
    assert_eq!(s.x.drain(), [Complete, Complete]);
    assert_eq!(s.z.drain(), [Complete]);
    assert_eq!(s.y.drain(), [Increfs(ID), Acquire(ID), Complete], "the first who needed it strongly");
});

case!(weak_unread_by_one_that_exits, ["NODE-7", "TREL-2"], scene, |t, s| {
    s.keeps(&s.sends(&s.x, weak(ID)));
    exit(&s.x);
    s.sends(&s.y, strong(ID));
    assert_eq!(s.y.drain(), [Increfs(ID), Acquire(ID), Complete]);
    assert_eq!(s.x.drain(), []);
});

case!(strong_unread_by_one_that_exits, ["NODE-7", "TREL-2"], scene, |t, s| {
    s.keeps(&s.sends(&s.x, strong(ID)));
    exit(&s.x);
    s.sends(&s.y, weak(ID));
    let mut told = s.y.drain();
    told.sort_by_key(|item| *item == Complete);
    // Any thread may read what the exited one left: y before its own completion or after it.
    t.known_difference(Driver::C, LOST, told == [Increfs(ID), Acquire(ID), Complete]);
    assert_eq!(s.x.drain(), []);
});

case!(from_hand_to_hand_and_the_last_exits, ["NODE-7", "TREL-2"], scene, |t, s| {
    s.keeps(&s.sends(&s.x, weak(ID)));
    s.keeps(&s.sends(&s.y, strong(ID)));
    exit(&s.y);
    s.sends(&s.z, strong(ID));
    let mut told = s.z.drain();
    told.sort_by_key(|item| *item == Complete);
    t.known_difference(Driver::C, LOST, told == [Increfs(ID), Acquire(ID), Complete]);
    assert_eq!(s.x.drain(), [Complete]);
    assert_eq!(s.y.drain(), []);
});

case!(weak_told_to_one_that_exits, ["NODE-8", "TREL-2"], scene, |t, s| {
    let handle = s.keeps(&s.sends(&s.x, weak(ID)));
    assert_eq!(s.x.drain(), [Increfs(ID), Complete]);
    exit(&s.x);
    s.manager.send(|c| c.decrefs(handle));
    assert_eq!(s.y.drain(), [], "the count was read, and is not confirmed");
    s.y.send(|c| c.increfs_done(ID.ptr, ID.cookie));
    assert_eq!(s.y.drain(), [Decrefs(ID)]);
});

case!(sent_and_let_go_unread, ["NODE-6", "NODE-5"], scene, |t, s| {
    s.manager.free(&s.sends(&s.x, strong(ID)));
    assert_eq!(s.x.drain(), [Complete], "nothing is left to read");
    assert_eq!(s.x.node_debug_info(0).ptr, 0);
    assert_eq!(s.y.drain(), []);
    // It can come to life again.
    s.sends(&s.y, strong(BinderPtrCookie { cookie: 1, ..ID }));
    let new = BinderPtrCookie { cookie: 1, ..ID };
    assert_eq!(s.y.drain(), [Increfs(new), Acquire(new), Complete]);
});

case!(sent_weakly_and_let_go_unread, ["NODE-6", "NODE-5"], scene, |t, s| {
    s.manager.free(&s.sends(&s.x, weak(ID)));
    s.manager.free(&s.sends(&s.y, strong(ID)));
    assert_eq!(s.x.drain(), [Complete]);
    assert_eq!(s.y.drain(), [Complete]);
    assert_eq!(s.x.node_debug_info(0).ptr, 0);
});

// The owner has read nothing of the node, so nothing of it is left: its pointer is free again.
case!(let_go_with_what_was_to_be_told, ["NODE-1", "NODE-5", "NODE-6"], scene, |t, s| {
    s.manager.free(&s.sends(&s.x, strong(ID)));
    assert_eq!(s.x.node_debug_info(0).ptr, 0);
    let new = BinderPtrCookie { cookie: 1, ..ID };
    s.keeps(&s.sends(&s.y, weak(new)));
    assert_eq!(s.y.drain(), [Increfs(new), Complete], "it reads of its own object, not of the other");
    assert_eq!(s.x.drain(), [Complete]);
});

// After the sender has exited there is nothing to read.
case!(let_go_after_the_sender_has_exited, ["NODE-6", "TREL-2"], scene, |t, s| {
    let call = s.sends(&s.x, strong(ID));
    exit(&s.x);
    s.manager.free(&call);
    assert_eq!(s.y.node_debug_info(0).ptr, 0);
    assert_eq!(s.y.poll(0), 0);
    assert_eq!(s.y.drain(), []);
});

/// The manager has the node strongly by one call, which is returned; the owner has confirmed it.
fn told(t: &Stage) -> (Scene, BinderTransactionData) {
    let s = scene(t);
    let call = s.sends(&s.x, strong(ID));
    assert_eq!(s.x.drain(), [Increfs(ID), Acquire(ID), Complete]);
    s.x.confirm(ID);
    (s, call)
}

case!(released_and_sent_again_unread, ["NODE-6", "NODE-7"], told, |t, (s, call)| {
    s.manager.free(&call);
    let call = s.sends(&s.y, strong(ID));
    assert_eq!(s.y.drain(), [Complete], "the owner has its counts already");
    assert_eq!(s.x.drain(), []);
    s.manager.free(&call);
    assert_eq!(s.x.drain(), [Release(ID), Decrefs(ID)]);
});

case!(released_and_sent_again_weakly_unread, ["NODE-6", "NODE-7"], told, |t, (s, call)| {
    s.manager.free(&call);
    let call = s.sends(&s.y, weak(ID));
    let mut items = s.y.drain();
    items.sort_by_key(|item| *item == Complete);
    assert_eq!(items, [Release(ID), Complete]);
    s.manager.free(&call);
    assert_eq!(s.x.drain(), [Decrefs(ID)]);
});

case!(released_to_one_and_sent_again_by_another, ["NODE-6", "NODE-7"], told, |t, (s, call)| {
    let handle = s.keeps(&call);
    s.manager.send(|c| c.increfs(handle).release(handle));
    assert_eq!(s.x.drain(), [Release(ID)]);
    let call = s.sends(&s.y, strong(ID));
    assert_eq!(s.y.drain(), [Acquire(ID), Complete]);
    s.manager.send(|c| c.decrefs(handle));
    s.manager.free(&call);
    assert_eq!(s.z.drain(), [], "requested, and not confirmed");
    s.z.send(|c| c.acquire_done(ID.ptr, ID.cookie));
    assert_eq!(s.x.drain(), [Release(ID), Decrefs(ID)]);
});

case!(only_the_strong_count_is_confirmed, ["NODE-8"], scene, |t, s| {
    let call = s.sends(&s.x, strong(ID));
    assert_eq!(s.x.drain(), [Increfs(ID), Acquire(ID), Complete]);
    s.manager.free(&call);
    s.y.send(|c| c.acquire_done(ID.ptr, ID.cookie));
    assert_eq!(s.x.drain(), [Release(ID)]);
    s.y.send(|c| c.acquire_done(ID.ptr, ID.cookie));
    assert_eq!(s.x.drain(), [], "there is no such request any more");
    s.y.send(|c| c.increfs_done(ID.ptr, ID.cookie));
    assert_eq!(s.x.drain(), [Decrefs(ID)]);
});

case!(only_the_weak_count_is_confirmed, ["NODE-8"], scene, |t, s| {
    let call = s.sends(&s.x, strong(ID));
    assert_eq!(s.x.drain(), [Increfs(ID), Acquire(ID), Complete]);
    s.manager.free(&call);
    s.y.send(|c| c.increfs_done(ID.ptr, ID.cookie).increfs_done(ID.ptr, ID.cookie));
    assert_eq!(s.x.drain(), []);
    s.y.send(|c| c.acquire_done(ID.ptr, ID.cookie));
    assert_eq!(s.x.drain(), [Release(ID), Decrefs(ID)]);
});

case!(confirmed_by_another_than_was_told, ["NODE-8"], scene, |t, s| {
    let call = s.sends(&s.x, strong(ID));
    assert_eq!(s.x.drain(), [Increfs(ID), Acquire(ID), Complete]);
    exit(&s.x);
    // A thread outside the pool, which has read no return before.
    s.x.thread().confirm(ID);
    s.manager.free(&call);
    assert_eq!(s.z.drain(), [Release(ID), Decrefs(ID)]);
});

case!(updates_of_two_nodes_keep_their_order, ["NODE-6", "NODE-7"], scene, |t, s| {
    s.keeps(&s.sends(&s.x, strong(ID)));
    s.keeps(&s.sends(&s.x, weak(OTHER)));
    assert_eq!(s.x.drain(), [Increfs(ID), Acquire(ID), Complete, Increfs(OTHER), Complete]);
    // Now another thread takes the first of them away.
    let first = BinderPtrCookie { ptr: 0x2000, cookie: 1 };
    let second = BinderPtrCookie { ptr: 0x3000, cookie: 2 };
    s.keeps(&s.sends(&s.x, weak(first)));
    s.keeps(&s.sends(&s.x, strong(second)));
    s.keeps(&s.sends(&s.y, strong(first)));
    assert_eq!(s.x.drain(), [Complete, Increfs(second), Acquire(second), Complete]);
    assert_eq!(s.y.drain(), [Increfs(first), Acquire(first), Complete]);
});

case!(several_nodes_in_one_call, ["NODE-6", "NODE-7"], scene, |t, s| {
    let (third, fourth) = (BinderPtrCookie { ptr: 0x2000, cookie: 1 }, BinderPtrCookie { ptr: 8, cookie: 2 });
    s.sends_all(&s.x, &[weak(ID), strong(OTHER), weak(third), strong(ID), strong(fourth), weak(OTHER)]);
    // A node that is sent weakly and then strongly is announced at the strong object's place.
    let mut told = s.x.drain();
    assert_eq!(told.pop(), Some(Complete));
    assert_eq!(told[..3], [Increfs(OTHER), Acquire(OTHER), Increfs(third)]);
    assert_eq!(told[3..], [Increfs(ID), Acquire(ID), Increfs(fourth), Acquire(fourth)]);
});

case!(updates_come_before_a_refusal, ["NODE-7", "TXN-19"], scene, |t, s| {
    let parcel = parcel_of([strong(ID), FlatBinderObject { kind: 1, ..strong(OTHER) }]);
    s.x.send_call(0, 0, &parcel);
    assert_eq!(s.x.drain(), [Return::FailedReply], "nobody got the node, so nothing is returned of it");
    assert_eq!(s.x.node_debug_info(0).ptr, 0);
    // If the manager holds the node weakly, the owner reads the weak count alone.
    s.keeps(&s.sends(&s.x, weak(ID)));
    s.x.send_call(0, 0, &parcel);
    // The failed strong object has moved the notification behind the first completion.
    assert_eq!(s.x.drain(), [Complete, Increfs(ID), Return::FailedReply]);
});
