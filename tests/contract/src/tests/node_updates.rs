// SPDX-License-Identifier: GPL-2.0
//! Count notifications of an owner whose threads send one node, read them or not, and end.

use super::count_order::{ID, LOST};
use super::*;

const WEAK: FlatBinderObject = FlatBinderObject::weak_binder(ID.ptr, ID.cookie);
const STRONG: FlatBinderObject = FlatBinderObject::binder(ID.ptr, ID.cookie);
/// The returns that the owner reads: both counts of the strong node, and the completion of its call.
const TOLD: [Return; 3] = [Return::Increfs(ID), Return::Acquire(ID), Return::TransactionComplete];

/// Writes a oneway call to the context manager and reads nothing.
#[track_caller]
fn tell(sender: &Port, parcel: &Parcel) {
    sender.send(|c| c.transaction(&sender.place_oneway(0, 0, parcel)));
}

/// An owner of two threads, and a manager to send to.
fn owner_of_two(t: &Stage) -> (Port, Port, Port) {
    let (manager, first) = (t.manager(), t.server());
    let second = first.looper();
    (manager, first, second)
}

case!(weak_unread_then_strong_by_another, ["NODE-6", "NODE-7"], |t| {
    let (_manager, first, second) = owner_of_two(t);
    tell(&first, &object(WEAK));
    tell(&second, &object(STRONG));
    assert_eq!(second.drain(), TOLD, "the thread that makes it strong reads of it first");
    assert_eq!(first.drain(), [Return::TransactionComplete]);
});

case!(weak_read_then_strong_by_another, ["NODE-6", "NODE-7"], |t| {
    let (_manager, first, second) = owner_of_two(t);
    tell(&first, &object(WEAK));
    assert_eq!(first.drain(), [Return::Increfs(ID), Return::TransactionComplete]);
    tell(&second, &object(STRONG));
    assert_eq!(second.drain(), [Return::Acquire(ID), Return::TransactionComplete]);
    assert_eq!(first.drain(), []);
});

case!(strong_unread_then_strong_by_another, ["NODE-7"], owner_of_two, |t, (_manager, first, second)| {
    tell(&first, &object(STRONG));
    tell(&second, &object(STRONG));
    assert_eq!(second.drain(), [Return::TransactionComplete], "the receiver has it already");
    assert_eq!(first.drain(), TOLD, "the thread that made it strong reads of it");
});

case!(strong_unread_then_weak_by_another, ["NODE-6", "NODE-7"], |t| {
    let (_manager, first, second) = owner_of_two(t);
    tell(&first, &object(STRONG));
    tell(&second, &object(WEAK));
    assert_eq!(second.drain(), [Return::TransactionComplete]);
    assert_eq!(first.drain(), TOLD);
});

case!(weak_then_strong_by_the_same, ["NODE-6", "NODE-7"], owner_of_two, |t, (_manager, first, second)| {
    let other = BinderPtrCookie { ptr: 0x10, cookie: 0x20 };
    tell(&first, &parcel_of([WEAK, FlatBinderObject::weak_binder(other.ptr, other.cookie), STRONG]));
    let told =
        [Return::Increfs(other), Return::Increfs(ID), Return::Acquire(ID), Return::TransactionComplete];
    assert_eq!(first.drain(), told, "what turns strong moves behind the others");
    assert_eq!(second.drain(), []);
});

case!(weak_unread_and_the_thread_gone_then_strong, ["NODE-7", "TREL-2"], |t| {
    let (_manager, first, second) = owner_of_two(t);
    tell(&first, &object(WEAK));
    assert_eq!(first.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    tell(&second, &object(STRONG));
    t.known_difference(Driver::C, LOST, second.drain() == TOLD);
    assert_eq!(first.drain(), []);
});

// An unread `BR_RELEASE` waits for the first thread that reads. Sending the node again cancels it.
case!(release_unread_then_strong_again, ["NODE-6", "NODE-7"], owner_of_two, |t, (manager, first, second)| {
    let handle = give_in_a_call(&manager, &first, STRONG);
    assert_eq!(first.answer_counts(), TOLD);
    manager.send(|c| c.increfs(handle).release(handle));
    tell(&second, &object(STRONG));
    assert_eq!(second.drain(), [Return::TransactionComplete], "it has been in use all along");
    assert_eq!(first.drain(), []);
    // After it was read, the owner gets `BR_ACQUIRE` again, before its thread's other returns.
    manager.free(&manager.wait_call());
    assert_eq!(first.drain(), [Return::Release(ID)]);
    tell(&second, &object(STRONG));
    assert_eq!(second.drain(), [Return::Acquire(ID), Return::TransactionComplete]);
});

// Names of nodes that come again must not make one of two.
case!(lesson_s01_each_handle_is_of_its_own_node, ["NODE-2"], manager_and_server, |t, (manager, owner)| {
    const NODES: u64 = 600;
    let parcel = parcel_of((1..=NODES).map(|ptr| FlatBinderObject::binder(ptr * 16, ptr)));
    let call = owner.call(&manager, 0, 0, &parcel);
    let handles: Vec<u32> = manager.objects(&call).iter().map(FlatBinderObject::handle).collect();
    assert_eq!(handles.iter().collect::<BTreeSet<_>>().len() as u64, NODES, "one handle for two nodes");
    manager.answer(&owner, &empty());
    owner.settle_counts();
    for at in [0, 255, 256, 257, 512, NODES as usize - 1] {
        let call = manager.call(&owner, handles[at], 0, &empty());
        assert_eq!((call.target, call.cookie), ((at as u64 + 1) * 16, at as u64 + 1));
        finish(&owner, &manager, &call);
    }
});

// Each node's notification moves within a long queue; the cost must not grow with its length.
case!(lesson_s02_nodes_turn_strong_one_by_one, ["NODE-6", "NODE-14"], |t| {
    const NODES: u64 = 20_000;
    let (manager, owner) = (t.manager_with(4 << 20), t.client());
    tell(&owner, &parcel_of((1..=NODES).map(|ptr| FlatBinderObject::weak_binder(ptr * 16, ptr))));
    // Fails when it takes longer than any operation may.
    tell(&owner, &parcel_of((1..=NODES).map(|ptr| FlatBinderObject::binder(ptr * 16, ptr))));
    let seen = owner.drain();
    let id = |ptr| BinderPtrCookie { ptr: ptr * 16, cookie: ptr };
    let updates = (1..=NODES).flat_map(|ptr| [Return::Increfs(id(ptr)), Return::Acquire(id(ptr))]);
    let told: Vec<Return> = [Return::TransactionComplete]
        .into_iter()
        .chain(updates)
        .chain([Return::TransactionComplete])
        .collect();
    assert!(seen == told, "{} items: {:?}, …", seen.len(), &seen[..8.min(seen.len())]);
    drop(manager);
});

// A failed call takes its counts back, also on a node whose owner is dead.
case!(lesson_s10_counts_of_a_dead_node_go_down, ["NODE-12", "IOCTL-GET_NODE_INFO_FOR_REF"], |t| {
    let manager = t.manager();
    let (server, owner) = (t.server(), t.server());
    let target = give_in_a_call(&manager, &server, FlatBinderObject::binder(0x10, 0));
    let handle = give_in_a_call(&manager, &owner, STRONG);
    const DEATH: u64 = 0xdead;
    manager.send(|c| c.request_death(handle, DEATH));
    owner.kill();
    // The C driver ends a killed process in a work queue.
    manager.wait_for(Return::DeadBinder(DEATH));
    manager.send(|c| c.dead_binder_done(DEATH).clear_death(handle, DEATH));
    manager.wait_for(Return::ClearDeathNotificationDone(DEATH));
    let counts = || {
        let info = BinderNodeInfoForRef { handle, ..Default::default() };
        let info = manager.ioctl(BINDER_GET_NODE_INFO_FOR_REF, info).expect("the manager may call it");
        (info.strong_count, info.weak_count)
    };
    let before = counts();
    let parcel = parcel_of([handle, super::NO_HANDLE].map(FlatBinderObject::strong_handle));
    for _ in 0..50 {
        assert_eq!(manager.refused(&manager.place(target, 0, &parcel)), Return::FailedReply);
    }
    assert_eq!(counts(), before);
    t.known_difference(Driver::Upstream, "counts of a dead node are others", before == (1, 0));
    // One more that succeeds, and is given back by its receiver.
    let call = manager.place(target, 0, &object(FlatBinderObject::strong_handle(handle)));
    manager.send(|c| c.transaction(&call));
    let call = server.wait_call();
    t.known_difference(Driver::Upstream, "counts of a dead node are others", counts() == (2, 0));
    finish(&server, &manager, &call);
    assert_eq!(counts(), before);
});

// The owner never gets its own pointer between `BR_RELEASE` and the next `BR_ACQUIRE`. One thread
// of the holder sends the handle home, another gives back the last count.
case!(lesson_s20_a_handle_goes_home_while_it_is_released, ["NODE-11", "NODE-7"], |t| {
    let (owner, holder) = pair(t);
    let other = holder.thread();
    for _ in 0..20 {
        // The owner gives the holder a node, which keeps its name to itself.
        owner.free(&holder.call(&owner, 0, 0, &empty()));
        let reply = owner.answer(&holder, &object(STRONG));
        let handle = holder.object(&reply).handle();
        holder.send(|c| c.increfs(handle).acquire(handle).free_buffer(reply.buffer));
        let _ = owner.answer_counts();
        // Home goes what may not be there any more.
        owner.park();
        let home = holder.place_oneway(0, 0, &object(FlatBinderObject::strong_handle(handle)));
        holder.start_transaction(&home);
        other.send(|c| c.release(handle));
        let mut seen = owner.finish_raw().returns();
        holder.wait("the end of the call", |item| {
            matches!(item, Return::TransactionComplete | Return::FailedReply).then_some(())
        });
        let deadline = Instant::now() + patience();
        loop {
            seen.extend(owner.drain());
            let is_released = seen.iter().any(|item| matches!(item, Return::Release(_)));
            let arrived = seen.iter().find_map(call_of);
            if let Some(call) = arrived {
                let is_told = seen.iter().any(|item| matches!(item, Return::Acquire(_)));
                let why = "a handle that goes home brings a node back into use, untold";
                t.known_difference(Driver::C, why, !is_released || is_told);
                owner.free(&call);
                break;
            }
            if is_released {
                break;
            }
            assert!(Instant::now() < deadline, "neither a call nor a notification: {seen:?}");
        }
        let _ = owner.drain();
        holder.send(|c| c.decrefs(handle));
        let _ = owner.drain();
    }
});

// A node's notifications are queued to a thread that exits, and another thread sends the node
// during that: it reads them before the completion of its call.
case!(lesson_s22_sent_while_the_thread_with_the_updates_ends, ["NODE-7", "TREL-2"], |t| {
    on_the_second_cpu(t);
    // Once, unless the first CPU is given to others after all, which are not to starve.
    let is_held = (0..3).any(|_| send_while_the_thread_with_the_updates_ends(t));
    t.ours_always("a thread that ends is not to keep its CPU", is_held);
});

/// Returns whether the exiting thread was still exiting when the other had sent its call. It is
/// preempted by a caller whose call ends with it: that caller is urgent and keeps the CPU.
fn send_while_the_thread_with_the_updates_ends(t: &Stage) -> bool {
    const SERVICE: FlatBinderObject = FlatBinderObject::binder(0x1240, 0);
    let (manager, ending, caller) = (t.manager(), t.server(), t.client());
    let sender = ending.looper();
    for (port, cpu) in [(&manager, 1), (&ending, 0), (&caller, 0), (&sender, 1)] {
        port.actor.pin(cpu);
    }
    let handle = introduce(&manager, &ending, SERVICE, &caller);
    let count = Count::new(&caller.arena);
    let Count { counter, stop } = count;
    caller.actor.set_schedule(Fifo(20));
    let commands = stream(|c| c.transaction(&caller.place(handle, 0, &empty())));
    let args = WriteReadOp { room: ROOM, ..WriteReadOp::of(&commands) };
    let call = Box::new(Op::WriteRead { slot: caller.slot, args });
    caller.actor.start(Op::SpinAfter { op: call, counter, stop });
    let _ = ending.wait_call();
    tell(&ending, &object(WEAK));
    ending.start_ioctl(BINDER_THREAD_EXIT, 0i32);
    count.wait();
    sender.tell(0, 0, &object(STRONG));
    let is_held = !ending.actor.answered(Duration::ZERO);
    count.stop();
    t.known_difference(Driver::C, LOST, sender.passed() == [Return::Increfs(ID), Return::Acquire(ID)]);
    ending.actor.finish();
    caller.actor.finish();
    for port in [caller, ending, manager] {
        port.kill();
    }
    is_held
}

// A oneway call waits for the one before. When that has ended, the first thread that comes gets it,
// even though another thread sleeps and has been woken for it.
case!(lesson_s25_next_call_is_for_whoever_comes_first, ["TXN-22", "LOOP-6"], on_the_second_cpu, |t, ()| {
    let (server, client) = (t.manager(), t.client());
    let sleeper = server.looper();
    let bystander = Actor::new();
    for (actor, cpu) in [(&*server.actor, 1), (&*client.actor, 1), (&*sleeper.actor, 0), (&bystander, 0)] {
        actor.pin(cpu);
    }
    for word in [b"one", b"two"] {
        tell(&client, &bytes(word));
    }
    let one = server.wait_call();
    assert_eq!(server.data(&one), b"one");
    sleeper.park();
    // From now on the sleeper can be woken, and will not run.
    let count = Count::new(&client.arena);
    bystander.set_schedule(Fifo(20));
    count.begin(&bystander);
    server.start(&stream(|c| c.free_buffer(one.buffer)));
    let is_there = server.actor.answered(patience() / 2);
    count.end(&bystander);
    assert!(is_there, "the call was given to a thread that sleeps");
    server.consume(&server.wait_call(), b"two");
    // Woken for nothing, it sleeps on.
    sleeper.actor.expect_blocked();
    tell(&client, &bytes(b"six"));
    assert_eq!(sleeper.data(&sleeper.wait_call()), b"six");
});

// A thread that is woken for work without room for its return leaves it to another that sleeps.
case!(lesson_s25_work_is_for_another_if_there_is_no_room, ["WR-8", "LOOP-6"], |t| {
    let (manager, (owner, holder)) = (t.manager(), (t.server(), t.server()));
    let cookie = 7;
    let handle = introduce(&manager, &owner, STRONG, &holder);
    holder.send(|c| c.request_death(handle, cookie));
    let other = holder.parked_looper();
    // The last to fall asleep is the first to be woken.
    holder.start_raw(WriteReadOp { room: 4, ..Default::default() });
    holder.actor.expect_blocked();
    owner.kill();
    assert_eq!(holder.finish_raw().returns(), [Return::Noop]);
    let is_told = other.actor.answered(patience() / 2);
    if t.ours_alone("what the first has no room for waits until it comes again", is_told) {
        other.wait_for(Return::DeadBinder(cookie));
    }
});
