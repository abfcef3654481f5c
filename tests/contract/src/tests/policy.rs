// SPDX-License-Identifier: GPL-2.0
//! The subject of the security module's checks: the credentials of the device's opener, whatever
//! the process has become since.
//!
//! The module refuses nothing until it has a policy. `policy.conf` has a type of task for each
//! check of Binder; with an option, the runner loads it once.

use super::messages::Log;
use super::*;
use crate::cast::node;

/// The type that may do everything; each other may do all but one thing.
const ALL: &str = "all";

const OWN_CONTEXT: &str = "/proc/self/attr/current";

fn context(kind: &str) -> String {
    format!("tests_u:tests_r:{kind}_t")
}

fn needs_policy(t: &Stage) {
    let context_now = std::fs::read_to_string(OWN_CONTEXT).unwrap_or_default();
    let is_loaded = context_now.trim_end_matches('\0') == context(ALL);
    t.needs("the policy of `policy.conf` (boot with lsm=selinux, run --policy)", is_loaded);
}

/// Makes the test's own process one of another type.
fn become_one(kind: &str) {
    std::fs::write(OWN_CONTEXT, context(kind)).expect("another context");
}

/// A new process that opens the device as one type, and continues as another.
fn opened_as(t: &Stage, first: &str, later: &str) -> Port {
    let actor = Rc::new(Actor::new());
    let change =
        |kind: &str| actor.number(Op::SetContext { context: context(kind) }).expect("another context");
    change(first);
    let port = t.client_by(actor.clone());
    change(later);
    port
}

/// The context manager, opened as one type by a process that continues as another.
fn manager_as(t: &Stage, first: &str, later: &str) -> Port {
    opened_as(t, first, later).managing(ObjectFlags::ACCEPTS_FDS)
}

#[track_caller]
fn expect_refused(client: &Port, parcel: &Parcel) {
    assert_eq!(client.failure(&client.place(0, 0, parcel)), failed(Errno::EPERM));
}

/// Sends a parcel to the manager, which has to arrive, and gets an answer.
#[track_caller]
fn expect_taken(client: &Port, manager: &Port, parcel: &Parcel) {
    let call = client.call(manager, 0, 7, parcel);
    assert_eq!(call.code, 7);
    finish(manager, client, &call);
}

case!(caller_is_whoever_opened, ["LSM-1", "TXN-6", "TXN-9", "OPEN-1"], needs_policy, |t, ()| {
    let manager = t.manager();
    expect_refused(&opened_as(t, "may_not_call", ALL), &bytes(b"no"));
    expect_taken(&opened_as(t, ALL, "may_not_call"), &manager, &bytes(b"yes"));
    assert_eq!(manager.drain(), []);
});

case!(callee_is_whoever_opened, ["LSM-1", "TXN-6", "TXN-9", "OPEN-1"], needs_policy, |t, ()| {
    let manager = manager_as(t, "may_not_be_called", ALL);
    expect_refused(&t.client(), &empty());
    manager.kill();
    let manager = manager_as(t, ALL, "may_not_be_called");
    expect_taken(&t.client(), &manager, &empty());
});

case!(oneway_calls_are_asked_about, ["LSM-1", "TXN-9"], needs_policy, |t, ()| {
    let (manager, client) = (t.manager(), opened_as(t, "may_not_call", ALL));
    assert_eq!(client.failure(&client.place_oneway(0, 0, &empty())), failed(Errno::EPERM));
    assert_eq!(manager.drain(), []);
});

case!(refusals_are_reported, ["LSM-1", "NL-2", "NL-3"], needs_policy, |t, ()| {
    let (_manager, client) = (t.manager(), opened_as(t, "may_not_call", ALL));
    let listener = Listener::join().expect("join the group");
    let data = client.place(0, 7, &bytes(b"no"));
    let answer = client.refused(&data);
    // The module is asked before the call has a target.
    assert_eq!(listener.only(), reports::lost(t, &client, &data, answer));
});

case!(replies_are_not_asked_about, ["LSM-1", "TXN-9"], needs_policy, |t, ()| {
    let manager = manager_as(t, "may_not_call", "may_not_call");
    expect_taken(&t.client(), &manager, &empty());
});

case!(manager_is_whoever_opened, ["LSM-1", "CTX-1", "OPEN-1"], needs_policy, |t, ()| {
    let refused = opened_as(t, "may_not_manage", ALL);
    let errno = refused.ioctl(BINDER_SET_CONTEXT_MGR, 0i32).expect_err("refused");
    assert_eq!(errno, Errno::EACCES, "the module's errno");
    assert_eq!(opened_as(t, ALL, "may_not_manage").ioctl(BINDER_SET_CONTEXT_MGR, 0i32), Ok(0));
});

case!(sender_of_nodes_is_whoever_opened, ["LSM-1", "TXN-6", "OPEN-1"], needs_policy, |t, ()| {
    let (manager, node) = (t.manager(), object(FlatBinderObject::binder(0x10, 0)));
    let client = opened_as(t, "may_not_transfer", ALL);
    expect_refused(&client, &node);
    // Nobody holds the refused object, and data passes.
    assert_eq!(client.drain(), []);
    expect_taken(&client, &manager, &bytes(b"data"));
    expect_taken(&opened_as(t, ALL, "may_not_transfer"), &manager, &node);
});

case!(sender_of_handles_is_whoever_opened, ["LSM-1", "TXN-6", "OPEN-1"], needs_policy, |t, ()| {
    let manager = t.manager();
    for (first, later) in [("may_not_transfer", ALL), (ALL, "may_not_transfer")] {
        let client = opened_as(t, first, later);
        manager.free(&client.call(&manager, 0, 0, &empty()));
        let reply = manager.answer(&client, &object(FlatBinderObject::binder(0x10, 0)));
        let handle = object(FlatBinderObject::strong_handle(client.object(&reply).handle()));
        match first {
            ALL => expect_taken(&client, &manager, &handle),
            _ => expect_refused(&client, &handle),
        }
    }
});

case!(taker_of_files_is_whoever_opened, ["LSM-1", "TXN-6", "OPEN-1"], needs_policy, |t, ()| {
    // A file has the type of its opener.
    become_one("private");
    let (ours, _other_end) = nix::unistd::pipe().expect("a pipe");
    become_one(ALL);
    for (first, later) in [("may_not_take_private_files", ALL), (ALL, "may_not_take_private_files")] {
        let (manager, client) = (manager_as(t, first, later), t.client());
        let parcel = object(file_object(client.actor.give(&ours)));
        let before = manager.actor.open_files();
        match first {
            ALL => expect_taken(&client, &manager, &parcel),
            _ => expect_refused(&client, &parcel),
        }
        if first != ALL {
            assert_eq!(manager.actor.open_files(), before);
        }
        manager.kill();
    }
});

// A serving thread has not requested a priority itself. So a denied priority breaks no policy: the
// thread gets its limit, and no denial is logged.
case!(who_may_not_choose_priorities_is_not_reported, ["LSM-2", "TXN-31"], needs_policy, |t, ()| {
    let manager = opened_as(t, ALL, "may_not_choose_priorities");
    // One that has no minimum.
    manager.set_context_manager_ext(node(19)).expect("become context manager");
    manager.enter_looper();
    manager.actor.limit_nice(-5);
    let (client, refused) = (t.client(), opened_as(t, "may_not_call", ALL));
    let mut log = Log::open();
    denials_before_that_of(&mut log, &refused);
    for (caller, served) in [(5, 5), (-3, -3), (-10, -5)] {
        client.actor.set_schedule(Nice(caller));
        client.call(&manager, 0, 0, &empty());
        let seen = manager.actor.schedule();
        let why = format!("{seen:?} instead of {served}: nice values are not inherited");
        t.known_difference(Driver::Upstream, &why, seen == Nice(served));
        manager.answer(&client, &empty());
    }
    let told = denials_before_that_of(&mut log, &refused);
    let why = "that a server may not choose its priority is logged as a denial";
    t.known_difference(Driver::C, why, told == 0);
});

/// Returns how many denied priorities the kernel's log reports before a denied call. A kernel
/// thread logs denials in order. The limit of messages may delay them.
fn denials_before_that_of(log: &mut Log, refused: &Port) -> usize {
    let mut count = 0;
    let deadline = Instant::now() + messages::WINDOW + patience();
    loop {
        expect_refused(refused, &empty());
        std::thread::sleep(Duration::from_millis(10));
        while let Some(text) = log.record() {
            count += usize::from(text.contains("avc:  denied  { sys_nice }"));
            if text.contains("avc:  denied  { call }") {
                return count;
            }
        }
        assert!(Instant::now() < deadline, "a refused call is not logged");
    }
}
