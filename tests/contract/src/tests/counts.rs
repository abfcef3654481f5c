// SPDX-License-Identifier: GPL-2.0
//! The four count commands on handles: what they need, and what they cannot do.

use super::*;

/// A holder with one strong count on the owner's node.
fn held(t: &Stage) -> (Port, Port, Port, u32) {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x10, 0x20), &holder);
    (manager, owner, holder, handle)
}

/// Returns whether a call of the handle is possible at all.
fn callable(holder: &Port, owner: &Port, handle: u32) -> bool {
    holder.start_call(handle, 0, &empty());
    if !holder.actor.is_blocked() {
        assert_eq!(holder.wait_refusal(), Return::FailedReply);
        return false;
    }
    finish(owner, holder, &owner.wait_call());
    true
}

/// A holder with one weak count and nothing else.
fn held_weakly(t: &Stage) -> (Port, Port, Port, u32) {
    let (manager, owner, holder, handle) = held(t);
    assert!(callable(&holder, &owner, handle));
    holder.send(|c| c.increfs(handle).release(handle));
    (manager, owner, holder, handle)
}

/// Somebody else who holds the node strongly, so that it is for the handle alone that it cannot be used.
fn another_holder(t: &Stage, manager: &Port, owner: &Port) -> Port {
    let another = t.client();
    introduce(manager, owner, FlatBinderObject::binder(0x10, 0x20), &another);
    owner.settle_counts();
    another
}

case!(weak_handle_cannot_turn_strong, ["NODE-9", "TXN-7"], |t| {
    let (manager, owner, holder, handle) = held_weakly(t);
    assert_eq!(owner.answer_counts().len(), 1, "nobody holds it strongly");
    let _another = another_holder(t, &manager, &owner);
    holder.send(|c| c.acquire(handle));
    assert!(!callable(&holder, &owner, handle));
    assert_eq!(owner.drain(), []);
    // The handle is unchanged.
    holder.send(|c| c.decrefs(handle));
    assert_eq!(owner.drain(), []);
    holder.send(|c| c.acquire(handle).increfs(handle));
    assert!(!callable(&holder, &owner, handle));
});

case!(weak_handle_cannot_be_called, ["TXN-7"], held_weakly, |t, (manager, owner, holder, handle)| {
    assert_eq!(owner.answer_counts().len(), 1, "nobody holds it strongly");
    let _another = another_holder(t, &manager, &owner);
    assert_eq!(holder.refused(&holder.place(handle, 0, &empty())), Return::FailedReply);
    let is_invalid = holder.extended_error() == failed(Errno::EINVAL);
    t.known_difference(Driver::Upstream, "another errno for a weak handle", is_invalid);
});

case!(weak_handle_cannot_be_sent_strongly, ["NODE-9"], held_weakly, |t, (manager, owner, holder, handle)| {
    assert_eq!(owner.answer_counts().len(), 1, "nobody holds it strongly");
    let _another = another_holder(t, &manager, &owner);
    let strong = object(FlatBinderObject::strong_handle(handle));
    assert_eq!(holder.refused(&holder.place(0, 0, &strong)), Return::FailedReply);
    // Weakly it can.
    holder.start_call(0, 0, &object(FlatBinderObject::weak_handle(handle)));
    assert_eq!(manager.object(&manager.wait_call()).kind, ObjectType::WEAK_HANDLE);
    manager.answer(&holder, &empty());
});

case!(weak_count_needs_a_handle, ["NODE-9"], held, |t, (_manager, owner, holder, handle)| {
    holder.send(|c| c.increfs(handle + 1).acquire(handle + 1).increfs(NO_HANDLE));
    assert!(!callable(&holder, &owner, handle + 1));
});

case!(below_zero_is_ignored, ["NODE-9"], held, |t, (_manager, owner, holder, handle)| {
    // One strong count, no weak one.
    holder.send(|c| c.decrefs(handle).decrefs(handle));
    assert!(callable(&holder, &owner, handle));
    holder.send(|c| c.increfs(handle).release(handle).release(handle).release(handle));
    // The weak count is still there.
    let seen = owner.answer_counts();
    assert!(!seen.iter().any(|item| matches!(item, Return::Decrefs(_))), "{seen:?}");
    holder.send(|c| c.decrefs(handle).decrefs(handle).release(handle));
    let seen = owner.answer_counts();
    assert!(seen.iter().any(|item| matches!(item, Return::Decrefs(_))), "{seen:?}");
});

case!(last_count_frees_the_handle, ["NODE-10"], held, |t, (manager, owner, holder, handle)| {
    holder.send(|c| c.release(handle));
    assert!(!callable(&holder, &owner, handle));
    let other = FlatBinderObject::binder(0x100, 0);
    assert_eq!(introduce(&manager, &owner, other, &holder), handle, "free handles are used again");
});

case!(weak_count_keeps_the_handle, ["NODE-10", "NODE-9"], |t| {
    let (manager, owner, holder, handle) = held_weakly(t);
    assert_ne!(introduce(&manager, &owner, FlatBinderObject::binder(0x100, 0), &holder), handle);
    // If the node is sent strongly again, its handle stays, and is strong.
    assert_eq!(introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0x20), &holder), handle);
    owner.settle_counts();
    assert!(callable(&holder, &owner, handle));
});

case!(counts_of_the_dead, ["NODE-12"], held, |t, (_manager, owner, holder, handle)| {
    owner.kill();
    assert_eq!(holder.refused(&holder.place(handle, 0, &empty())), Return::DeadReply);
    holder.send(|c| c.increfs(handle).acquire(handle).release(handle).decrefs(handle));
    assert_eq!(holder.refused(&holder.place(handle, 0, &empty())), Return::DeadReply);
    holder.send(|c| c.release(handle));
    assert_eq!(holder.refused(&holder.place(handle, 0, &empty())), Return::FailedReply, "now it is unknown");
});

case!(many_counts, ["NODE-13"], held, |t, (_manager, owner, holder, handle)| {
    let (mut up, mut down) = (Commands::new(), Commands::new());
    for _ in 0..5000 {
        up.acquire(handle).increfs(handle);
        down.release(handle).decrefs(handle);
    }
    holder.write(&up);
    holder.write(&down);
    assert_eq!(owner.answer_counts(), []);
    assert!(callable(&holder, &owner, handle));
    holder.send(|c| c.release(handle));
    let seen = owner.answer_counts();
    assert!(matches!(seen[..], [Return::Release(_), Return::Decrefs(_)]), "{seen:?}");
});

/// The end of the driver's counts near their limits: see its `numbers.rs`.
const MOST_NEAR_LIMITS: usize = 1 << 16;

/// Writes the same commands again and again, many at a time.
fn repeat(port: &Port, times: usize, build: impl Fn(&mut Commands) -> &mut Commands) {
    for written in (0..times).step_by(1000) {
        let mut commands = Commands::new();
        for _ in written..times.min(written + 1000) {
            build(&mut commands);
        }
        port.write(&commands);
    }
}

case!(a_full_count_is_not_taken, ["NODE-9"], |t| {
    t.needs("a driver whose numbers are near their ends", t.is_near_limits());
    let (_manager, owner, holder, handle) = held(t);
    repeat(&holder, MOST_NEAR_LIMITS + 5, |c| c.acquire(handle).increfs(handle));
    repeat(&holder, MOST_NEAR_LIMITS - 1, |c| c.release(handle).decrefs(handle));
    assert_eq!(owner.answer_counts(), []);
    assert!(callable(&holder, &owner, handle));
    // Only counts that were taken can be given back: these are the last.
    holder.send(|c| c.release(handle).decrefs(handle));
    let seen = owner.answer_counts();
    assert!(matches!(seen[..], [Return::Release(_), Return::Decrefs(_)]), "{seen:?}");
});

case!(in_one_stream, ["NODE-10", "WR-2"], held, |t, (_manager, owner, holder, handle)| {
    // Everything after the last count is about a handle that is no more.
    holder.send(|c| c.release(handle).acquire(handle).increfs(handle).release(handle));
    let seen = owner.answer_counts();
    assert!(matches!(seen[..], [Return::Release(_), Return::Decrefs(_)]), "{seen:?}");
    assert!(!callable(&holder, &owner, handle));
});

case!(from_two_threads, ["NODE-9"], held, |t, (_manager, owner, holder, handle)| {
    let other = holder.thread();
    other.send(|c| c.acquire(handle));
    holder.send(|c| c.release(handle));
    assert!(callable(&holder, &owner, handle));
    other.send(|c| c.release(handle));
    assert!(!callable(&other, &owner, handle));
});
