// SPDX-License-Identifier: GPL-2.0
//! Freeze notifications: a process is notified when the owner of a node is frozen or thawed.

use super::*;
use std::collections::HashSet;
use std::ops::RangeInclusive;

const COOKIE: u64 = 0x5eed_0000_0001;

/// A manager to be frozen, a holder of handle 0, and one who freezes.
fn cast(t: &Stage) -> (Port, Port, Freezer) {
    let (server, holder) = (t.manager(), t.client());
    holder.send(|c| c.acquire(0));
    let freezer = Freezer::of(t, &server);
    (server, holder, freezer)
}

/// The cast, where the holder has a request and has read the first state.
fn unconfirmed(t: &Stage) -> (Port, Port, Freezer) {
    let (server, holder, freezer) = cast(t);
    holder.send(|c| c.request_freeze(0, COOKIE));
    assert_eq!(holder.drain(), [notification(COOKIE, 0)]);
    (server, holder, freezer)
}

/// That cast after the holder has confirmed the state.
fn linked(t: &Stage) -> (Port, Port, Freezer) {
    let (server, holder, freezer) = unconfirmed(t);
    holder.send(|c| c.freeze_done(COOKIE));
    (server, holder, freezer)
}

/// The holder reads exactly this state, and confirms it.
#[track_caller]
fn hears(holder: &Port, is_frozen: u32) {
    assert_eq!(holder.drain(), [notification(COOKIE, is_frozen)]);
    holder.send(|c| c.freeze_done(COOKIE));
}

#[track_caller]
fn refused(port: &Port, build: impl FnOnce(&mut Commands) -> &mut Commands) {
    let mut commands = Commands::new();
    build(&mut commands);
    // Commands behind it must not be carried out.
    commands.acquire(0).enter_looper();
    let outcome = port.try_write(&commands);
    assert_eq!(outcome.errno, Errno::EINVAL);
    assert_eq!(outcome.write_consumed, 0);
}

case!(told_at_first_and_of_each_change, ["FRZN-1", "FRZN-2", "FRZN-3"], |t| {
    let (_server, holder, freezer) = linked(t);
    assert_eq!(holder.drain(), []);
    for _ in 0..3 {
        assert_eq!(freezer.freeze(0), Ok(()));
        hears(&holder, 1);
        assert_eq!(freezer.thaw(), Ok(()));
        hears(&holder, 0);
    }
    assert_eq!(holder.drain(), []);
});

case!(asked_for_while_frozen, ["FRZN-1"], cast, |t, (_server, holder, freezer)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    holder.send(|c| c.request_freeze(0, COOKIE));
    hears(&holder, 1);
    assert_eq!(freezer.thaw(), Ok(()));
    hears(&holder, 0);
});

case!(weak_handle_is_enough, ["FRZN-1"], pair, |t, (server, holder)| {
    holder.send(|c| c.increfs(0));
    holder.send(|c| c.request_freeze(0, COOKIE));
    hears(&holder, 0);
    assert_eq!(Freezer::of(t, &server).freeze(0), Ok(()));
    hears(&holder, 1);
});

case!(one_a_read, ["WR-9"], linked, |t, (server, holder, _)| {
    let node = FlatBinderObject::binder(0x10, 0);
    let other = {
        server.free(&holder.call(&server, 0, 0, &empty()));
        holder.object(&server.answer(&holder, &object(node))).handle()
    };
    let freezer = Freezer::of(t, &server);
    holder.ignore_passed();
    holder.send(|c| c.request_freeze(other, COOKIE + 1));
    assert_eq!(holder.drain(), [notification(COOKIE + 1, 0)]);
    holder.send(|c| c.freeze_done(COOKIE + 1));
    assert_eq!(freezer.freeze(0), Ok(()));
    let mut heard = Vec::new();
    for _ in 0..2 {
        let items = holder.read_once();
        assert_eq!(items.len(), 1, "a notification ends the read: {items:?}");
        heard.extend(items);
    }
    heard.sort_by_key(|item| matches!(item, Return::FrozenBinder(info) if info.cookie != COOKIE));
    assert_eq!(heard, [notification(COOKIE, 1), notification(COOKIE + 1, 1)]);
});

case!(newest_value_is_read, ["FRZN-2"], cast, |t, (_server, holder, freezer)| {
    holder.send(|c| c.request_freeze(0, COOKIE));
    assert_eq!(freezer.freeze(0), Ok(()));
    hears(&holder, 1);
    assert_eq!(freezer.thaw(), Ok(()));
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(freezer.thaw(), Ok(()));
    hears(&holder, 0);
    assert_eq!(holder.drain(), []);
});

case!(told_again_after_done, ["FRZN-2", "FRZN-3"], unconfirmed, |t, (_server, holder, freezer)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(holder.drain(), [], "not before the first is confirmed");
    holder.send(|c| c.freeze_done(COOKIE));
    hears(&holder, 1);
    refused(&holder, |c| c.freeze_done(COOKIE));
});

case!(changes_while_unconfirmed, ["FRZN-2"], unconfirmed, |t, (_server, holder, freezer)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(freezer.thaw(), Ok(()));
    holder.send(|c| c.freeze_done(COOKIE));
    // There and back again: the state is returned once more, though it equals the last one.
    assert_eq!(holder.drain(), [notification(COOKIE, 0)]);
});

case!(thawing_the_thawed, ["FRZN-2", "FRZ-3"], linked, |t, (_server, holder, freezer)| {
    assert_eq!(freezer.thaw(), Ok(()));
    // C returns the state once more.
    let told = if t.driver == Driver::Rust { vec![] } else { vec![notification(COOKIE, 0)] };
    assert_eq!(holder.drain(), told);
});

case!(withdrawn_while_idle, ["FRZN-4"], linked, |t, (_server, holder, freezer)| {
    holder.send(|c| c.clear_freeze(0, COOKIE));
    assert_eq!(holder.drain(), [cleared(COOKIE)]);
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(holder.drain(), []);
    refused(&holder, |c| c.clear_freeze(0, COOKIE));
});

case!(withdrawn_before_it_is_read, ["FRZN-4"], linked, |t, (_server, holder, freezer)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    holder.send(|c| c.clear_freeze(0, COOKIE));
    assert_eq!(holder.drain(), [cleared(COOKIE)]);
});

case!(withdrawn_before_it_is_confirmed, ["FRZN-4"], unconfirmed, |t, (_server, holder, freezer)| {
    holder.send(|c| c.clear_freeze(0, COOKIE));
    assert_eq!(holder.drain(), []);
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(holder.drain(), []);
    holder.send(|c| c.freeze_done(COOKIE));
    assert_eq!(holder.drain(), [cleared(COOKIE)]);
    refused(&holder, |c| c.freeze_done(COOKIE));
});

case!(asked_for_again_with_the_same_cookie, ["FRZN-3", "FRZN-4"], unconfirmed, |t,
                                                                                (
    _server,
    holder,
    freezer,
)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    holder.send(|c| c.clear_freeze(0, COOKIE).request_freeze(0, COOKIE));
    assert_eq!(holder.drain(), [notification(COOKIE, 1)], "of the new request");
    holder.send(|c| c.freeze_done(COOKIE));
    assert_eq!(holder.drain(), [cleared(COOKIE)], "of the old one");
    holder.send(|c| c.freeze_done(COOKIE));
    assert_eq!(freezer.thaw(), Ok(()));
    hears(&holder, 0);
});

case!(first_told_is_confirmed_first, ["FRZN-3"], trio, |t, (manager, owner, holder)| {
    let other = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0), &holder);
    holder.send(|c| c.acquire(0));
    holder.ignore_passed();
    // One cookie for two requests, whose notifications are read in this order.
    holder.send(|c| c.request_freeze(other, COOKIE));
    assert_eq!(holder.drain(), [notification(COOKIE, 0)]);
    holder.send(|c| c.request_freeze(0, COOKIE));
    assert_eq!(holder.drain(), [notification(COOKIE, 0)]);
    owner.settle_counts();
    assert_eq!(Freezer::of(t, &owner).freeze(0), Ok(()));
    assert_eq!(holder.drain(), []);
    holder.send(|c| c.freeze_done(COOKIE));
    assert_eq!(holder.drain(), [notification(COOKIE, 1)], "the owner's was the first");
});

case!(errors_abort_the_write, ["FRZN-1", "FRZN-3", "FRZN-4", "FRZN-6", "WR-3"], |t| {
    let (_server, holder, _) = cast(t);
    refused(&holder, |c| c.request_freeze(super::NO_HANDLE, COOKIE));
    refused(&holder, |c| c.clear_freeze(super::NO_HANDLE, COOKIE));
    refused(&holder, |c| c.clear_freeze(0, COOKIE));
    refused(&holder, |c| c.freeze_done(COOKIE));
    holder.send(|c| c.request_freeze(0, COOKIE));
    refused(&holder, |c| c.request_freeze(0, COOKIE));
    refused(&holder, |c| c.request_freeze(0, COOKIE + 1));
    refused(&holder, |c| c.clear_freeze(0, COOKIE + 1));
    refused(&holder, |c| c.freeze_done(COOKIE));
    assert_eq!(holder.drain(), [notification(COOKIE, 0)], "which is what remains of all this");
    refused(&holder, |c| c.freeze_done(COOKIE + 1));
    holder.send(|c| c.freeze_done(COOKIE));
    refused(&holder, |c| c.freeze_done(COOKIE));
    // One count on handle 0 is all that was taken.
    holder.send(|c| c.release(0));
    refused(&holder, |c| c.clear_freeze(0, COOKIE));
});

case!(error_skips_the_read, ["FRZN-6", "WR-3"], cast, |t, (_server, holder, _)| {
    holder.send(|c| c.request_freeze(0, COOKIE));
    let mut commands = Commands::new();
    commands.acquire(0);
    let before = commands.len();
    commands.freeze_done(COOKIE).acquire(0);
    holder.start(&commands);
    let outcome = holder.finish_raw();
    assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EINVAL, before as u64));
    assert_eq!(outcome.read_consumed, 0);
    assert_eq!(holder.drain(), [notification(COOKIE, 0)]);
});

case!(handle_goes_before_it_is_read, ["NODE-10", "FRZN-1"], cast, |t, (_server, holder, freezer)| {
    holder.send(|c| c.request_freeze(0, COOKIE).release(0));
    assert_eq!(holder.drain(), []);
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(holder.drain(), []);
    holder.send(|c| c.acquire(0).request_freeze(0, COOKIE));
    hears(&holder, 1);
});

case!(lesson_r09_handle_goes_before_it_is_confirmed, ["NODE-10", "FRZN-3"], |t| {
    let (_server, holder, freezer) = unconfirmed(t);
    holder.send(|c| c.release(0));
    refused(&holder, |c| c.freeze_done(COOKIE));
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(holder.drain(), []);
    holder.write(&stream(|c| c.increfs(0).request_freeze(0, COOKIE)));
    hears(&holder, 1);
});

case!(lesson_r09_the_last_notification_is_the_final_state, ["FRZN-2", "FRZN-3"], |t| {
    let (_server, holder, freezer) = linked(t);
    // Each way to read, confirm or do neither between changes; `told` is the last state read.
    for plan in 0..64u32 {
        let (mut told, mut owes) = (0, false);
        let mut listen = |read: bool, confirm: bool| {
            if read {
                for item in holder.drain() {
                    match item {
                        Return::FrozenBinder(info) if info.cookie == COOKIE => {
                            assert!(!owes, "returned again before it was confirmed");
                            (told, owes) = (info.is_frozen, true);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            if confirm && owes {
                holder.send(|c| c.freeze_done(COOKIE));
                owes = false;
            }
            (told, owes)
        };
        for change in 0..3 {
            let outcome = if change % 2 == 0 { freezer.freeze(0) } else { freezer.thaw() };
            assert_eq!(outcome, Ok(()));
            listen(plan >> (2 * change) & 1 != 0, plan >> (2 * change + 1) & 1 != 0);
        }
        // A notification may follow upon each confirmation: at most one.
        listen(true, true);
        assert_eq!(listen(true, true).0, 1, "plan {plan:#b}");
        assert_eq!(freezer.thaw(), Ok(()));
        listen(true, true);
        assert_eq!(listen(true, true).0, 0, "plan {plan:#b}");
    }
});

case!(owner_is_dead, ["FRZN-1", "FRZN-4"], cast, |t, (server, holder, _freezer)| {
    kill_and_wait(t, &server);
    assert_eq!(holder.refused(&holder.place(0, 0, &empty())), Return::DeadReply);
    holder.ignore_passed();
    holder.send(|c| c.request_freeze(0, COOKIE));
    assert_eq!(holder.drain(), []);
    holder.send(|c| c.clear_freeze(0, COOKIE));
    assert_eq!(holder.drain(), [cleared(COOKIE)]);
});

case!(owner_dies, ["FRZ-7", "FRZN-4"], linked, |t, (server, holder, freezer)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    hears(&holder, 1);
    server.kill();
    freezer.wait_gone();
    assert_eq!(holder.drain(), [], "the frozen die silently");
    holder.send(|c| c.clear_freeze(0, COOKIE));
    assert_eq!(holder.drain(), [cleared(COOKIE)]);
});

case!(holder_dies_with_everything, ["REL-2", "FRZN-2"], linked, |t, (server, holder, freezer)| {
    let others: Vec<Port> = (0..4).map(|_| t.client()).collect();
    for other in &others {
        other.send(|c| c.acquire(0).request_freeze(0, COOKIE));
    }
    // One each: queued, read, read and changed again, read and cleared, and idle.
    for other in &others[1..] {
        assert_eq!(other.drain(), [notification(COOKIE, 0)]);
    }
    others[3].send(|c| c.clear_freeze(0, COOKIE));
    assert_eq!(freezer.freeze(0), Ok(()));
    for port in others.iter().chain([&holder]) {
        port.kill();
    }
    assert_eq!(freezer.thaw(), Ok(()));
    t.client().round_trip(0, &server, &bytes(b"all well"), &empty());
});

case!(failed_freeze_is_not_told, ["FRZN-5", "FRZ-2"], linked, |t, (server, holder, freezer)| {
    let client = t.client();
    client.call(&server, 0, 0, &empty());
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    assert_eq!(freezer.freeze(10), Err(Errno::EAGAIN));
    assert_eq!(holder.drain(), []);
    server.answer(&client, &empty());
    assert_eq!(freezer.freeze(0), Ok(()));
    hears(&holder, 1);
});

case!(asked_for_while_freezing, ["FRZN-5"], cast, |t, (server, holder, freezer)| {
    let client = t.client();
    client.call(&server, 0, 0, &empty());
    freezer.start(LONG);
    holder.send(|c| c.request_freeze(0, COOKIE));
    let heard = holder.drain();
    freezer.port.actor.interrupt();
    assert_eq!(freezer.finish(), Err(Errno::EINTR));
    let why = "told that it is frozen, which it never was";
    t.known_difference(Driver::C, why, heard == [notification(COOKIE, 0)]);
    holder.send(|c| c.freeze_done(COOKIE));
    assert_eq!(holder.drain(), []);
    server.answer(&client, &empty());
});

case!(failed_second_freeze_is_a_thaw, ["FRZN-5", "FRZ-2"], linked, |t, (server, holder, freezer)| {
    let client = t.client();
    assert_eq!(freezer.freeze(0), Ok(()));
    hears(&holder, 1);
    client.tell_with(&client.place_oneway(0, 0, &empty()), Return::TransactionPendingFrozen);
    assert_eq!(freezer.freeze(0), Err(Errno::EAGAIN));
    let heard = holder.drain();
    let why = "a freeze that fails thaws the process without telling";
    t.known_difference(Driver::C, why, heard == [notification(COOKIE, 0)]);
    server.free(&server.wait_call());
    client.round_trip(0, &server, &empty(), &empty());
});

case!(every_command_from_a_stranger_to_the_pool, ["FRZN-1", "FRZN-3", "FRZN-4"], |t| {
    let (server, holder, freezer) = cast(t);
    let stranger = holder.thread();
    stranger.send(|c| c.request_freeze(0, COOKIE));
    assert_eq!(holder.drain(), [notification(COOKIE, 0)]);
    stranger.send(|c| c.freeze_done(COOKIE));
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(holder.drain(), [notification(COOKIE, 1)]);
    stranger.send(|c| c.clear_freeze(0, COOKIE));
    assert_eq!(holder.drain(), []);
    stranger.send(|c| c.freeze_done(COOKIE));
    assert_eq!(holder.drain(), [cleared(COOKIE)]);
    assert_eq!(freezer.thaw(), Ok(()));
    stranger.round_trip(0, &server, &empty(), &empty());
});

case!(
    thread_exits_with_notifications_unread,
    ["TREL-1", "FRZN-2"],
    linked,
    |t, (_server, holder, freezer)| {
        let helper = holder.looper();
        // It is woken for the notification, and has no room for it.
        helper.park_without_room();
        assert_eq!(freezer.freeze(0), Ok(()));
        helper.expect_no_room();
        helper.ioctl(BINDER_THREAD_EXIT, 0i32).expect("exit");
        hears(&holder, 1);
        assert_eq!(freezer.thaw(), Ok(()));
        hears(&holder, 0);
    }
);

case!(all_nodes_of_an_owner, ["FRZN-2"], trio, |t, (manager, owner, holder)| {
    // The nodes are not made in the order of their pointers, which is that of notifications.
    let nodes = 1..=20u64;
    for node in nodes.clone().map(|number| number * 8 % 21) {
        let handle = introduce(&manager, &owner, FlatBinderObject::binder(node << 4, node), &holder);
        holder.ignore_passed();
        holder.send(|c| c.request_freeze(handle, node));
        assert_eq!(holder.drain(), [notification(node, 0)]);
        holder.send(|c| c.freeze_done(node));
    }
    owner.settle_counts();
    let freezer = Freezer::of(t, &owner);
    for is_frozen in [1, 0] {
        let outcome = if is_frozen == 1 { freezer.freeze(0) } else { freezer.thaw() };
        assert_eq!(outcome, Ok(()));
        let wanted: Vec<Return> = nodes.clone().map(|node| notification(node, is_frozen)).collect();
        assert_eq!(holder.drain(), wanted);
        for node in nodes.clone() {
            holder.send(|c| c.freeze_done(node));
        }
    }
});

case!(many_holders, ["FRZN-2"], linked, |t, (_server, first, freezer)| {
    let holders: Vec<Port> = (0..10).map(|_| t.client()).collect();
    for holder in &holders {
        holder.send(|c| c.acquire(0).request_freeze(0, COOKIE));
        hears(holder, 0);
    }
    holders[4].kill();
    assert_eq!(freezer.freeze(0), Ok(()));
    for (i, holder) in holders.iter().enumerate() {
        if i != 4 {
            hears(holder, 1);
        }
    }
    hears(&first, 1);
});

/// The number of rounds of links: a debug kernel on a busy machine takes its time.
const ROUNDS: usize = 150;

/// Orders two holders so many commands that other things happen during them.
fn begin(ports: [&Port; 2], build: impl Fn(&mut Commands)) {
    let mut commands = Commands::new();
    (0..ROUNDS).for_each(|_| build(&mut commands));
    ports.into_iter().for_each(|port| port.start_raw(WriteReadOp::of(&commands)));
}

case!(lesson_c09_links_come_and_go_while_it_freezes, ["FRZN-2", "FRZN-4"], |t| {
    let (_server, one, freezer) = cast(t);
    let two = t.client();
    two.send(|c| c.acquire(0));
    begin([&one, &two], |c| {
        c.request_freeze(0, COOKIE).clear_freeze(0, COOKIE);
    });
    for _ in 0..20 {
        assert_eq!(freezer.freeze(0), Ok(()));
        assert_eq!(freezer.thaw(), Ok(()));
    }
    for port in [&one, &two] {
        assert_eq!(port.finish_raw().errno, Errno::from_raw(0));
        assert_eq!(port.drain(), vec![cleared(COOKIE); ROUNDS]);
        port.send(|c| c.request_freeze(0, COOKIE));
        hears(port, 0);
    }
});

case!(lesson_c09_handles_come_and_go_while_it_freezes, ["NODE-10", "FRZN-2"], |t| {
    let (_server, one, freezer) = cast(t);
    let two = t.client();
    one.send(|c| c.release(0));
    begin([&one, &two], |c| {
        c.acquire(0).request_freeze(0, COOKIE).release(0);
    });
    for _ in 0..20 {
        assert_eq!(freezer.freeze(0), Ok(()));
        assert_eq!(freezer.thaw(), Ok(()));
    }
    for port in [&one, &two] {
        assert_eq!(port.finish_raw().errno, Errno::from_raw(0));
        assert_eq!(port.drain(), []);
        port.send(|c| c.acquire(0).request_freeze(0, COOKIE));
        hears(port, 0);
    }
});

case!(owner_dies_while_links_come_and_go, ["FRZ-7", "FRZN-4"], cast, |t, (server, one, freezer)| {
    let two = t.client();
    two.send(|c| c.acquire(0));
    begin([&one, &two], |c| {
        c.request_freeze(0, COOKIE).clear_freeze(0, COOKIE);
    });
    assert_eq!(freezer.freeze(0), Ok(()));
    server.kill();
    for port in [&one, &two] {
        assert_eq!(port.finish_raw().errno, Errno::from_raw(0));
        assert_eq!(port.drain(), vec![cleared(COOKIE); ROUNDS]);
    }
    freezer.wait_gone();
});

// An owner dies while it is frozen or thawed: a holder of both kinds of links gets the death last.
// An urgent bystander runs on the notifying thread's CPU until all deaths are read.
case!(owner_dies_while_many_are_told, ["FRZN-2", "DN-2", "FRZ-7"], on_the_second_cpu, |t, ()| {
    for round in 0..t.tries(16) {
        let (holder, owner) = (t.manager(), t.server());
        let bystander = Actor::new();
        bystander.pin(0);
        bystander.set_schedule(Fifo(20));
        link_to_many(&holder, &owner);
        let freezer = Freezer::of(t, &owner);
        let freezes = round % 2 == 0;
        if !freezes {
            assert_eq!(freezer.freeze(0), Ok(()));
            assert_eq!(holder.drain(), MANY.map(|cookie| notification(cookie, 1)).collect::<Vec<_>>());
            confirm_many(&holder);
        }
        owner.unmap();
        // Others on the bystander's CPU would wait for it.
        owner.actor.pin(1);
        holder.actor.pin(1);
        freezer.port.actor.pin(0);
        let count = Count::new(&holder.arena);
        let mut told = Told::default();
        freezer.begin(freezes, 0);
        until("one is notified", || {
            told.listen(&holder);
            (told.changes > 0).then_some(())
        });
        count.begin(&bystander);
        owner.close();
        // C returns deaths after the device was closed.
        until("all deaths are read", || {
            told.listen(&holder);
            (told.dead.len() == LAST.count()).then_some(())
        });
        count.end(&bystander);
        let _ = freezer.finish();
        told.listen(&holder);
        // On C one may be on its way when the owner ends.
        t.ours_always("some are told of a change after their death", told.late.is_empty());
        holder.kill();
        owner.kill();
    }
});

/// The notifications that the holder of many links has read.
#[derive(Default)]
struct Told {
    /// The number of notifications of a frozen or thawed owner.
    changes: usize,
    dead: HashSet<u64>,
    /// Links that were notified of a change after their death.
    late: Vec<u64>,
}

impl Told {
    /// Reads all that there is.
    fn listen(&mut self, holder: &Port) {
        for item in holder.drain() {
            match item {
                Return::DeadBinder(cookie) => assert!(self.dead.insert(cookie)),
                Return::FrozenBinder(info) => {
                    self.changes += 1;
                    self.late.extend(self.dead.get(&info.cookie));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The cookies of many links, and of those that are for death as well.
const MANY: RangeInclusive<u64> = 1..=500;
const LAST: RangeInclusive<u64> = 451..=500;

/// Gives a holder so many nodes with links, whose first state is read and confirmed.
fn link_to_many(holder: &Port, owner: &Port) {
    let parcel = parcel_of(MANY.map(|cookie| FlatBinderObject::binder(cookie << 4, cookie)));
    owner.start_call(0, 0, &parcel);
    // Its buffer holds the handles, so it is not freed.
    holder.serve(owner);
    holder.ignore_passed();
    holder.send(|c| {
        for (handle, cookie) in (1..).zip(MANY) {
            c.request_freeze(handle, cookie);
            if LAST.contains(&cookie) {
                c.request_death(handle, cookie);
            }
        }
        c
    });
    assert_eq!(holder.drain(), MANY.map(|cookie| notification(cookie, 0)).collect::<Vec<_>>());
    confirm_many(holder);
}

fn confirm_many(holder: &Port) {
    holder.send(|c| {
        for cookie in MANY {
            c.freeze_done(cookie);
        }
        c
    });
}
