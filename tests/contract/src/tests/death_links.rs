// SPDX-License-Identifier: GPL-2.0
//! Death links: a process requests death notifications, clears them, and confirms deaths.
//!
//! Each test has an owner with two nodes. A watcher has a link to the second. An owner's nodes die
//! in the order of their pointers: when the watcher reads of the second death, all returns about
//! the first node have been queued.

use super::faults::{faulty, sweep};
use super::*;
use Step::{Clear, Cleared, Dead, Done, Drop, Kill, Request, Silent, ThreeCleared, TwoDead};

// When the owner has died, the link is still there.
case!(link_fires_once, ["DN-5"], |t| play(
    t,
    &[Request, Kill, Dead, Done, Silent, Request, Silent, Clear, Cleared]
));
case!(dead_owner_is_told_at_once, ["DN-1", "NODE-12"], |t| play(
    t,
    &[Kill, Silent, Request, Dead, Clear, Silent, Done, Cleared]
));
case!(cleared_while_alive, ["DN-3"], |t| play(t, &[Request, Clear, Cleared, Kill, Silent]));
case!(cleared_twice, ["DN-3"], |t| play(t, &[Request, Clear, Clear, Cleared, Clear, Silent]));
case!(cleared_while_queued, ["DN-3"], |t| play(
    t,
    &[Request, Kill, Clear, Dead, Done, Cleared, Done, Silent]
));
case!(cleared_while_unconfirmed, ["DN-3"], |t| play(
    t,
    &[Request, Kill, Dead, Clear, Silent, Clear, Silent, Done, Cleared]
));
// The notification of the second request comes at once.
case!(cleared_after_done, ["DN-3", "DN-5"], |t| play(
    t,
    &[Request, Kill, Dead, Done, Silent, Clear, Cleared, Request, Dead]
));
case!(done_before_it_was_read, ["DN-2"], |t| play(
    t,
    &[Request, Done, Kill, Done, Clear, Dead, Done, Cleared]
));
case!(done_twice, ["DN-2"], |t| play(t, &[Request, Kill, Dead, Done, Done, Clear, Cleared, Done, Silent]));
case!(requested_again_while_alive, ["DN-3", "DN-1"], |t| play(
    t,
    &[Request, Clear, Request, Clear, Request, Clear, Request, ThreeCleared, Kill, Dead]
));
// The first confirmation is of the cleared one.
case!(requested_again_while_queued, ["DN-3", "DN-1"], |t| play(
    t,
    &[Request, Kill, Clear, Request, TwoDead, Done, Cleared, Done, Silent, Clear, Cleared]
));
case!(requested_again_while_unconfirmed, ["DN-3", "DN-1", "DN-2"], |t| play(
    t,
    &[Request, Kill, Dead, Clear, Request, Dead, Done, Cleared, Done, Silent]
));
case!(handle_dropped_while_alive, ["NODE-10", "DN-6"], |t| play(
    t,
    &[Request, Drop, Kill, Silent, Clear, Done, Silent]
));
case!(handle_dropped_while_unconfirmed, ["NODE-10", "DN-6"], |t| play(
    t,
    &[Request, Kill, Dead, Drop, Done, Clear, Silent]
));
case!(handle_dropped_after_clear, ["NODE-10", "DN-3"], |t| play(t, &[Request, Clear, Drop, Cleared]));
// When the handle goes, the link is not the handle's any more.
case!(handle_dropped_before_the_clear_is_confirmed, ["NODE-10", "DN-3"], |t| play(
    t,
    &[Request, Kill, Clear, Drop, Dead, Done, Cleared]
));

/// The cookie of the watcher's link.
const WATCHED: u64 = 0xdead_0000;

/// The cookie of the holder's link.
const COOKIE: u64 = 0x1122_3344_5566_7788;
const OTHER_COOKIE: u64 = 0x77;

/// The events of a holder's link.
enum Step {
    Request,
    Clear,
    Done,
    /// The holder gives back its only count on the handle.
    Drop,
    /// The owner dies.
    Kill,
    /// The holder reads one notification of the death, and nothing else; or two.
    Dead,
    TwoDead,
    /// The holder reads one confirmation that the link is cleared, and nothing else; or three.
    Cleared,
    ThreeCleared,
    /// The holder reads nothing.
    Silent,
}

fn play(t: &Stage, steps: &[Step]) {
    let scene = scene(t);
    for (at, step) in steps.iter().enumerate() {
        let told = |items: &[Return]| assert_eq!(scene.holder.drain(), *items, "step {at}");
        match step {
            Request => scene.request(),
            Clear => scene.clear(),
            Done => scene.done(),
            Drop => scene.drop_handle(),
            Kill => scene.kill_owner(),
            Dead => told(&[DeadBinder(COOKIE)]),
            TwoDead => told(&[DeadBinder(COOKIE); 2]),
            Cleared => told(&[ClearDone(COOKIE)]),
            ThreeCleared => told(&[ClearDone(COOKIE); 3]),
            Silent => told(&[]),
        }
    }
}

struct Scene {
    manager: Port,
    owner: Port,
    holder: Port,
    /// On the owner's node 0x10.
    handle: u32,
    watcher: Port,
}

/// A holder with one strong count on the owner's node, and no link yet.
fn scene(t: &Stage) -> Scene {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0), &holder);
    let watcher = watch(t, &manager, &owner);
    Scene { manager, owner, holder, handle, watcher }
}

/// The scene with a link.
fn requested(t: &Stage) -> Scene {
    let scene = scene(t);
    scene.request();
    scene
}

/// Somebody with a link to the owner's last node.
fn watch(t: &Stage, manager: &Port, owner: &Port) -> Port {
    let watcher = t.client();
    let handle = introduce(manager, owner, FlatBinderObject::binder(u64::MAX, 0), &watcher);
    watcher.send(|c| c.request_death(handle, WATCHED));
    watcher
}

impl Scene {
    fn kill_owner(&self) {
        self.owner.kill();
        self.watcher.wait_for(DeadBinder(WATCHED));
    }

    fn request(&self) {
        self.holder.send(|c| c.request_death(self.handle, COOKIE));
    }

    fn clear(&self) {
        self.holder.send(|c| c.clear_death(self.handle, COOKIE));
    }

    fn done(&self) {
        self.holder.send(|c| c.dead_binder_done(COOKIE));
    }

    /// Gives back the only count on the handle.
    fn drop_handle(&self) {
        self.holder.send(|c| c.release(self.handle));
    }

    /// A link whose death has been read and not confirmed.
    fn told(t: &Stage) -> Self {
        let scene = scene(t);
        scene.request();
        scene.kill_owner();
        assert_eq!(scene.holder.drain(), [DeadBinder(COOKIE)]);
        scene
    }
}

/// Nothing is there to be read.
#[track_caller]
fn silent(port: &Port) {
    assert_eq!(port.drain(), []);
}

case!(owner_dies, ["DN-2", "NODE-12"], requested, |t, scene| {
    silent(&scene.holder);
    scene.kill_owner();
    assert_eq!(scene.holder.drain(), [DeadBinder(COOKIE)]);
    scene.done();
    silent(&scene.holder);
    // The handle is still there.
    assert_eq!(scene.holder.refused(&scene.holder.place(scene.handle, 0, &empty())), Return::DeadReply);
});

case!(owner_closes, ["DN-2", "REL-3"], requested, |t, scene| {
    scene.owner.give_up();
    scene.holder.wait_for(DeadBinder(COOKIE));
    scene.done();
    silent(&scene.holder);
});

case!(weak_handle_is_enough, ["DN-1"], scene, |t, scene| {
    let handle = scene.handle;
    scene.holder.send(|c| c.increfs(handle).release(handle).request_death(handle, COOKIE));
    scene.kill_owner();
    assert_eq!(scene.holder.drain(), [DeadBinder(COOKIE)]);
});

case!(unknown_handles_and_cookies_are_ignored, ["DN-1", "DN-2", "DN-3", "WR-5"], scene, |t, scene| {
    scene.holder.send(|c| c.request_death(NO_HANDLE, 1).request_death(0, 2));
    scene.holder.send(|c| c.clear_death(NO_HANDLE, 1).clear_death(0, 2));
    scene.holder.send(|c| c.clear_death(scene.handle, 3).dead_binder_done(4));
    scene.kill_owner();
    silent(&scene.holder);
});

case!(second_request_is_ignored, ["DN-1"], requested, |t, scene| {
    scene.holder.send(|c| c.request_death(scene.handle, 2));
    scene.holder.send(|c| c.clear_death(scene.handle, 2));
    silent(&scene.holder);
    scene.kill_owner();
    assert_eq!(scene.holder.drain(), [DeadBinder(COOKIE)]);
    scene.holder.send(|c| c.dead_binder_done(2).dead_binder_done(COOKIE));
    silent(&scene.holder);
});

case!(wrong_cookie_clears_nothing, ["DN-3"], requested, |t, scene| {
    scene.holder.send(|c| c.clear_death(scene.handle, COOKIE + 1));
    silent(&scene.holder);
    scene.kill_owner();
    assert_eq!(scene.holder.drain(), [DeadBinder(COOKIE)]);
});

case!(done_with_another_cookie, ["DN-2", "DN-3"], Scene::told, |t, scene| {
    for cookie in [0, COOKIE - 1, COOKIE + 1, u64::MAX] {
        scene.holder.send(|c| c.dead_binder_done(cookie));
    }
    scene.clear();
    assert_eq!(scene.holder.drain(), [], "it is not confirmed");
    scene.done();
    assert_eq!(scene.holder.drain(), [ClearDone(COOKIE)]);
});

case!(same_cookie_for_two_nodes, ["DN-2"], scene, |t, scene| {
    let second = introduce(&scene.manager, &scene.owner, FlatBinderObject::binder(0x20, 0), &scene.holder);
    scene.request();
    scene.holder.send(|c| c.request_death(second, COOKIE));
    scene.kill_owner();
    assert_eq!(scene.holder.drain(), [DeadBinder(COOKIE), DeadBinder(COOKIE)]);
    scene.holder.send(|c| c.clear_death(second, COOKIE));
    silent(&scene.holder);
    // The first death that was read is the first that is confirmed, not the cleared one.
    scene.done();
    silent(&scene.holder);
    scene.done();
    assert_eq!(scene.holder.drain(), [ClearDone(COOKIE)]);
    scene.clear();
    assert_eq!(scene.holder.drain(), [ClearDone(COOKIE)]);
});

case!(every_cookie_is_fine, ["DN-2", "DN-3"], scene, |t, scene| {
    let cookies = [0, 1, u64::from(u32::MAX), 1 << 32, u64::MAX, 1 << 63];
    let handles: Vec<u32> = (0..cookies.len() as u64)
        .map(|i| FlatBinderObject::binder(0x100 + i, 0))
        .map(|node| introduce(&scene.manager, &scene.owner, node, &scene.holder))
        .collect();
    for (handle, cookie) in handles.iter().zip(cookies) {
        scene.holder.send(|c| c.request_death(*handle, cookie));
    }
    scene.kill_owner();
    assert_eq!(scene.holder.drain(), cookies.map(DeadBinder));
    for (handle, cookie) in handles.iter().zip(cookies).rev() {
        scene.holder.send(|c| c.dead_binder_done(cookie).clear_death(*handle, cookie));
        assert_eq!(scene.holder.drain(), [ClearDone(cookie)]);
    }
});

case!(handle_dropped_while_queued, ["NODE-10", "DN-6", "POLL-2"], requested, |t, scene| {
    scene.kill_owner();
    assert_eq!(scene.holder.poll(4000), 1);
    scene.drop_handle();
    assert_eq!(scene.holder.poll(0), 0);
    silent(&scene.holder);
});

case!(new_handle_new_link, ["NODE-10", "DN-6"], scene, |t, scene| {
    let node = FlatBinderObject::binder(0x10, 0);
    scene.request();
    for i in 0..10 {
        scene.drop_handle();
        let handle = introduce(&scene.manager, &scene.owner, node, &scene.holder);
        assert_eq!(handle, scene.handle);
        scene.holder.send(|c| c.request_death(handle, i));
    }
    scene.kill_owner();
    assert_eq!(scene.holder.drain(), [DeadBinder(9)]);
});

/// A holder with links to five nodes of one owner, with cookies from 1.
fn five(t: &Stage) -> (Scene, Vec<u32>) {
    let scene = scene(t);
    let handles: Vec<u32> = (1..=5)
        .map(|i| {
            let node = FlatBinderObject::binder(0x100 * i, 0);
            let handle = introduce(&scene.manager, &scene.owner, node, &scene.holder);
            scene.holder.send(|c| c.request_death(handle, i));
            handle
        })
        .collect();
    (scene, handles)
}

case!(one_death_a_read, ["WR-9"], five, |t, (scene, _)| {
    scene.kill_owner();
    for cookie in 1..=5 {
        assert_eq!(scene.holder.read_once(), [DeadBinder(cookie)]);
    }
    silent(&scene.holder);
});

case!(clears_are_batched, ["WR-9"], five, |t, (scene, handles)| {
    scene.holder.send(|c| (1..=4).fold(c, |c, i| c.clear_death(handles[i - 1], i as u64)));
    scene.kill_owner();
    // They do not end a read, and a death behind them does.
    let expected = [ClearDone(1), ClearDone(2), ClearDone(3), ClearDone(4), DeadBinder(5)];
    assert_eq!(scene.holder.read_once(), expected);
});

case!(waiting_thread_is_woken, ["DN-2"], requested, |t, scene| {
    scene.holder.park();
    scene.kill_owner();
    scene.holder.wait_for(DeadBinder(COOKIE));
    scene.done();
    scene.clear();
    assert_eq!(scene.holder.drain(), [ClearDone(COOKIE)]);
});

case!(deaths_are_for_whoever_comes, ["DN-2"], five, |t, (scene, _)| {
    let other = scene.holder.looper();
    scene.kill_owner();
    assert_eq!(other.read_once(), [DeadBinder(1)]);
    assert_eq!(scene.holder.read_once(), [DeadBinder(2)]);
    assert_eq!(other.drain(), [3, 4, 5].map(DeadBinder));
    // Any thread may confirm any death that has been read.
    scene.holder.send(|c| c.dead_binder_done(5).dead_binder_done(1));
    other.send(|c| c.dead_binder_done(2).clear_death(NO_HANDLE, 1));
    silent(&other);
});

case!(death_is_readable, ["DN-2", "POLL-2"], requested, |t, scene| {
    assert_eq!(scene.holder.poll(0), 0);
    scene.owner.kill();
    assert_eq!(scene.holder.poll(4000), 1);
    assert_eq!(scene.holder.read_once(), [DeadBinder(COOKIE)]);
    assert_eq!(scene.holder.poll(0), 0);
    scene.clear();
    assert_eq!(scene.holder.poll(0), 0);
    scene.done();
    assert_eq!(scene.holder.poll(4000), 1);
    assert_eq!(scene.holder.read_once(), [ClearDone(COOKIE)]);
    assert_eq!(scene.holder.poll(0), 0);
});

case!(thread_in_a_call_is_not_told, ["DN-2", "LOOP-9"], scene, |t, scene| {
    let other = scene.holder.looper();
    scene.request();
    scene.holder.ignore_passed();
    let call = scene.holder.call(&scene.manager, 0, 0, &empty());
    scene.kill_owner();
    // The thread waits for a reply, and for nothing else.
    scene.holder.actor.expect_blocked();
    assert_eq!(other.read_once(), [DeadBinder(COOKIE)]);
    scene.manager.free(&call);
    scene.manager.answer(&scene.holder, &empty());
    assert_eq!(scene.holder.passed(), [Return::TransactionComplete]);
    silent(&scene.holder);
});

case!(refused_caller_is_told_next, ["DN-2", "LOOP-9"], requested, |t, scene| {
    scene.holder.call(&scene.owner, scene.handle, 0, &empty());
    scene.kill_owner();
    assert_eq!(scene.holder.wait_refusal(), Return::DeadReply);
    scene.holder.wait_for(DeadBinder(COOKIE));
    scene.done();
    silent(&scene.holder);
});

case!(clear_done_goes_to_the_looper_that_asks, ["DN-4"], scene, |t, scene| {
    let (first, second) = (scene.holder.looper(), scene.holder.looper());
    scene.request();
    first.send(|c| c.clear_death(scene.handle, COOKIE));
    silent(&scene.holder);
    silent(&second);
    assert_eq!(first.drain(), [ClearDone(COOKIE)]);
});

case!(clear_done_for_others_goes_to_all, ["DN-4"], scene, |t, scene| {
    let looper = scene.holder.looper();
    scene.request();
    scene.clear();
    assert_eq!(looper.drain(), [ClearDone(COOKIE)]);
    silent(&scene.holder);
    // A thread that waits is woken for it.
    scene.request();
    looper.park();
    scene.clear();
    looper.wait_for(ClearDone(COOKIE));
    silent(&scene.holder);
});

case!(clear_done_goes_to_the_looper_that_confirms, ["DN-4", "DN-3"], Scene::told, |t, scene| {
    let (first, second) = (scene.holder.looper(), scene.holder.looper());
    first.send(|c| c.clear_death(scene.handle, COOKIE));
    silent(&first);
    second.send(|c| c.dead_binder_done(COOKIE));
    silent(&first);
    silent(&scene.holder);
    assert_eq!(second.drain(), [ClearDone(COOKIE)]);
});

case!(lesson_r02_everything_from_outside_of_the_pool, ["DN-1", "DN-2", "DN-3", "DN-4"], scene, |t, scene| {
    let stranger = scene.holder.thread();
    let second = introduce(&scene.manager, &scene.owner, FlatBinderObject::binder(0x20, 0), &scene.holder);
    // Clear before the death, after it, and before and after DONE; never from a looper.
    stranger.send(|c| c.request_death(scene.handle, 1).clear_death(scene.handle, 1));
    assert_eq!(scene.holder.drain(), [ClearDone(1)]);
    stranger.send(|c| c.request_death(scene.handle, 2).request_death(second, 3));
    scene.kill_owner();
    assert_eq!(scene.holder.drain(), [DeadBinder(2), DeadBinder(3)]);
    stranger.send(|c| c.clear_death(scene.handle, 2).dead_binder_done(2));
    assert_eq!(scene.holder.drain(), [ClearDone(2)]);
    stranger.send(|c| c.dead_binder_done(3).clear_death(second, 3));
    assert_eq!(scene.holder.drain(), [ClearDone(3)]);
    stranger.send(|c| c.request_death(second, 4).release(second));
    silent(&scene.holder);
    silent(&stranger);
});

case!(lesson_r11_c16_thread_exit_with_a_clear_unread, ["TREL-2"], scene, |t, scene| {
    let looper = scene.holder.looper();
    scene.request();
    looper.send(|c| c.clear_death(scene.handle, COOKIE));
    exit(&looper);
    let why = "what a thread was to hear of a clear is lost when it exits";
    t.known_difference(Driver::C, why, scene.holder.drain() == [ClearDone(COOKIE)]);
});

case!(lesson_r11_c16_thread_exit_with_a_death_unread, ["TREL-2", "DN-2"], scene, |t, scene| {
    let looper = scene.holder.looper();
    scene.request();
    // The thread is woken for the death, and has no room to read of it.
    looper.park_without_room();
    scene.kill_owner();
    looper.expect_no_room();
    exit(&looper);
    assert_eq!(scene.holder.drain(), [DeadBinder(COOKIE)]);
});

case!(holder_dies_first, ["REL-2", "DN-2"], requested, |t, scene| {
    scene.holder.kill();
    scene.kill_owner();
});

case!(holder_dies_with_everything_unread, ["REL-2", "DN-3"], five, |t, (scene, handles)| {
    let looper = scene.holder.looper();
    looper.send(|c| c.clear_death(handles[0], 1));
    scene.holder.send(|c| c.clear_death(handles[1], 2));
    scene.kill_owner();
    // Left: a clear on a thread, another on the process, a death that was read, one that was read
    // and cleared, and one that is queued.
    assert_eq!(scene.holder.wait("a death", |item| Some(*item)), Return::Noop);
    scene.holder.wait_for(ClearDone(2));
    scene.holder.wait_for(DeadBinder(3));
    scene.holder.wait_for(DeadBinder(4));
    scene.holder.send(|c| c.clear_death(handles[3], 4).request_death(handles[0], 6));
    scene.holder.kill();
});

case!(two_opens_are_two_holders, ["DN-2"], scene, |t, scene| {
    let other = t.client_by(scene.holder.actor.clone());
    let handle = introduce(&scene.manager, &scene.owner, FlatBinderObject::binder(0x10, 0), &other);
    scene.request();
    other.send(|c| c.request_death(handle, COOKIE));
    other.send(|c| c.clear_death(handle, COOKIE));
    assert_eq!(other.drain(), [ClearDone(COOKIE)]);
    scene.kill_owner();
    silent(&other);
    assert_eq!(scene.holder.drain(), [DeadBinder(COOKIE)]);
});

case!(manager_dies, ["CTX-5", "DN-2"], pair, |t, (manager, client)| {
    client.send(|c| c.acquire(0).request_death(0, COOKIE));
    manager.kill();
    client.wait_for(DeadBinder(COOKIE));
    // Handle 0 is still the dead one's, for counts and links.
    let second = t.manager();
    client.send(|c| c.dead_binder_done(COOKIE).clear_death(0, COOKIE).request_death(0, 2));
    assert_eq!(client.drain(), [ClearDone(COOKIE), DeadBinder(2)]);
    drop(second);
});

case!(hundreds_of_holders_of_one_node, ["DN-2", "REL-2"], Stage::manager, |t, manager| {
    let first = t.opened();
    let mut holders = vec![first];
    for i in 1..300 {
        let last = &holders[i - 1];
        // A new process from time to time; opens of one process are different holders, too.
        holders.push(if i % 30 == 0 { t.opened() } else { t.open_by(last.actor.clone()) });
    }
    for (i, holder) in holders.iter().enumerate() {
        holder.send(|c| c.increfs(0).request_death(0, i as u64));
    }
    for (i, holder) in holders.iter().enumerate() {
        match i % 5 {
            0 => holder.send(|c| c.clear_death(0, i as u64)),
            1 => holder.send(|c| c.decrefs(0)),
            _ => (),
        }
    }
    manager.kill();
    for (i, holder) in holders.iter().enumerate() {
        match i % 5 {
            0 => assert_eq!(holder.drain(), [ClearDone(i as u64)]),
            1 => (),
            _ => holder.wait_for(DeadBinder(i as u64)),
        }
    }
    for holder in &holders {
        silent(holder);
    }
});

case!(hundreds_of_nodes_of_one_owner, ["DN-2", "REL-2"], scene, |t, scene| {
    let (owner, manager) = (&scene.owner, &scene.manager);
    let parcel = parcel_of((1..=500).map(|i| FlatBinderObject::binder(0x1000 + i * 16, 0)));
    let call = owner.call(manager, 0, 0, &parcel);
    let handles: Vec<u32> = manager.objects(&call).iter().map(FlatBinderObject::handle).collect();
    for handle in &handles {
        manager.send(|c| c.acquire(*handle).request_death(*handle, u64::from(*handle)));
    }
    manager.free(&call);
    manager.reply(&empty());
    scene.kill_owner();
    for handle in handles {
        let told = manager.wait("a death", |item| matches!(item, DeadBinder(_)).then_some(*item));
        assert_eq!(told, DeadBinder(u64::from(handle)));
    }
    silent(manager);
});

case!(in_one_stream, ["DN-1", "DN-3", "WR-2"], scene, |t, scene| {
    let handle = scene.handle;
    let mut commands = Commands::new();
    for i in 0..200 {
        commands.request_death(handle, i).dead_binder_done(i).clear_death(handle, i);
    }
    scene.holder.write(&commands);
    assert!(scene.holder.drain().into_iter().eq((0..200).map(ClearDone)));
});

case!(memory_runs_out, ["DN-1", "WR-2"], scene, |t, scene| {
    let other = introduce(&scene.manager, &scene.owner, FlatBinderObject::binder(0x11, 0), &scene.holder);
    let (mut attempts, mut errors) = (0, 0);
    sweep(t, |nth| {
        attempts += 1;
        // Our driver keeps the memory of a cleared link for the next request: this is the next.
        scene.holder.send(|c| c.request_death(other, OTHER_COOKIE));
        let mut commands = Commands::new();
        let request = commands.request_death(scene.handle, COOKIE).len() as u64;
        let all = commands.clear_death(scene.handle, COOKIE).len() as u64;
        let args = WriteReadOp::of(&commands);
        let (answer, is_hit) = faulty(&scene.holder, nth, Op::WriteRead { slot: scene.holder.slot, args });
        let Answer::WriteRead { errno, write_consumed, .. } = answer else { panic!("{answer:?}") };
        let said = scene.holder.drain();
        errors += u32::from(said == [Return::Error]);
        let consumed = match said[..] {
            // The write stops, and there is no link.
            [Return::Error] => request,
            [ClearDone(COOKIE)] => all,
            [] => 0,
            _ => panic!("{said:?}"),
        };
        // A command that cannot be read has no effect; one whose result cannot be written has.
        assert!(errno == 0 && write_consumed == consumed || errno == libc::EFAULT && write_consumed == 0);
        scene.holder.send(|c| c.clear_death(other, OTHER_COOKIE));
        assert_eq!(scene.holder.drain(), [ClearDone(OTHER_COOKIE)]);
        is_hit
    });
    assert!(errors > 0 || attempts == 0, "memory never ran out");
    scene.request();
    scene.kill_owner();
    assert_eq!(scene.holder.drain(), [DeadBinder(COOKIE)]);
});

case!(payload_cut_off, ["WR-4"], scene, |t, scene| {
    for build in [
        |c: &mut Commands| c.request_death(1, COOKIE).len(),
        |c: &mut Commands| c.clear_death(1, COOKIE).len(),
        |c: &mut Commands| c.dead_binder_done(COOKIE).len(),
    ] {
        let mut commands = Commands::new();
        let length = build(&mut commands);
        let write_size = Some(length as u64 - 1);
        let outcome = scene.holder.raw(WriteReadOp { write_size, ..WriteReadOp::of(&commands) });
        // Drivers differ in whether the size bounds a payload (lesson C17).
        let is_refused = outcome.errno == Errno::EFAULT && outcome.write_consumed == 0;
        t.known_difference(Driver::C, "a payload may lie beyond the size of the write buffer", is_refused);
    }
});
