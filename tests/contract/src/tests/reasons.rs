// SPDX-License-Identifier: GPL-2.0
//! The reasons for which our driver makes a call or a reply fail: each has a request that reaches
//! it, and the kernel's log names the reason.

use super::failures::{self, with_offsets, wrong_content, wrong_target, Request};
use super::messages::Log;
use super::*;

/// The driver's reasons and their words.
const SOURCE: &str = include_str!("../../../../drivers/android/common/failure.rs");

/// Reasons that no row below reaches: the tests that do, or why none can.
const ELSEWHERE: [(&str, &str); 10] = [
    ("CallToServe", "leaving::call_with_a_call_unread"),
    ("ReplyUnread", "leaving::call_with_a_reply_unread"),
    ("CallDenied", "policy::, with a policy of SELinux"),
    ("NodeDenied", "policy::, with a policy of SELinux"),
    ("FileDenied", "policy::, with a policy of SELinux"),
    ("ReceiverEnded", "gaps::target_ends_while_a_call_is_copied"),
    ("SpaceGone", "userfault::target_unmaps_meanwhile, if a page is taken before it is written"),
    ("Undeliverable", "fds::lesson_c15_undeliverable_call"),
    ("NoMemory", "faults::small_call, at each allocation in turn"),
    ("DriverFault", "none: the states that have it do not exist"),
];

/// Each reason of the driver's source, and its words.
fn reasons() -> Vec<(&'static str, &'static str)> {
    let reason = |line: &'static str| {
        let (name, words) = line.trim().strip_suffix("\";")?.split_once(": \"")?;
        name.chars().all(char::is_alphanumeric).then_some((name, words))
    };
    SOURCE.lines().filter_map(reason).collect()
}

/// The reasons behind rows of the tables of failures.
const ROWS: [(&str, &str); 13] = [
    ("an unknown handle", "NoHandle"),
    ("a dead node", "OwnerEnded"),
    ("a process that has unmapped", "NotMapped"),
    ("more than the oneway half", "LargerThanHalf"),
    ("sizes whose sum overflows", "TooLarge"),
    ("more than the space", "LargerThanSpace"),
    ("unreadable offsets", "UnreadableOffsets"),
    ("half an offset", "OddOffsets"),
    ("buffers that are not a multiple of 8", "OddPointers"),
    ("unreadable data", "UnreadableData"),
    ("an object of an unknown type", "NoObject"),
    ("a handle that is none", "BadHandle"),
    ("a node with two cookies", "BadNode"),
];

/// Something that fails.
type Attempt<'a> = Box<dyn Fn() + 'a>;

fn refusal<'a>(port: &'a Port, request: &'a Request) -> Attempt<'a> {
    Box::new(|| {
        port.start(&request.commands(false));
        port.wait_refusal();
    })
}

case!(each_is_told, ["PARAM-3", "TXN-1", "lesson T11"], |t| {
    if !t.ours_alone("failures have reasons", t.driver == Driver::Rust) {
        return;
    }
    let mut log = Log::open();
    let mut told = BTreeSet::new();
    let mut tell = |name: &'static str, attempt: &dyn Fn()| {
        let (_, words) = *reasons().iter().find(|reason| reason.0 == name).expect(name);
        let lines = log.lines_until(attempt, |line| line.contains(words));
        assert!(lines.iter().any(|line| line.contains(words)), "{name}: {lines:#?}");
        told.insert(name);
    };
    let nobody = t.client();
    let lonely = failures::plain(nobody.place(0, 0, &empty()));
    tell("NoManager", &refusal(&nobody, &lonely));
    let world = failures::world(t);
    let (client, manager) = (&world.client, &world.manager);
    let mut rows = wrong_target(&world);
    rows.extend(wrong_content(client));
    for (name, request, ..) in &rows {
        if let Some((_, reason)) = ROWS.iter().find(|row| row.0 == *name) {
            tell(reason, &refusal(client, request));
        }
    }
    tell("OwnManager", &refusal(manager, &failures::plain(manager.place(0, 0, &empty()))));
    let node = FlatBinderObject::binder(0x1000, 0);
    let backwards = with_offsets(client, &[node.as_bytes(); 2].concat(), &[24, 0], 16);
    tell("OffsetOutOfOrder", &refusal(client, &backwards));

    // Objects that are not taken, or wrong.
    let flagged =
        |ptr, flags| give_in_a_reply(manager, client, FlatBinderObject::binder(ptr, 0).with_flags(flags));
    let takes_files = flagged(0x600, ObjectFlags::ACCEPTS_FDS);
    let wants_context = flagged(0x700, ObjectFlags::TXN_SECURITY_CTX);
    let sg = |handle, build: &dyn Fn(&mut SgParcel)| {
        let mut parcel = SgParcel::new();
        build(&mut parcel);
        client.refused_sg(&parcel.to(client, handle, TransactionFlags::empty()));
    };
    let room_for_less = |parcel: &mut SgParcel| {
        parcel.block(&client.arena, &[1; 16]);
        parcel.room = 8;
    };
    let array_outside = |parcel: &mut SgParcel| {
        let block = parcel.block(&client.arena, &[0; 8]);
        parcel.array(block, 4, 2);
    };
    tell("FilesNotTaken", &|| sg(0, &|parcel| _ = parcel.fd(0)));
    tell("NoFile", &|| sg(takes_files, &|parcel| _ = parcel.fd(4711)));
    tell("BadPointer", &|| sg(0, &room_for_less));
    tell("BadArray", &|| sg(takes_files, &array_outside));
    // With a security module that gives contexts, this call succeeds.
    let context = std::fs::read("/proc/self/attr/current").unwrap_or_default();
    t.needs("no security module that gives contexts", context.is_empty());
    tell("NoContext", &|| sg(wants_context, &|_| ()));

    // Calls and replies out of turn.
    let empty_reply = manager.place(0, 0, &empty());
    let reply = || {
        manager.try_write(Commands::new().reply(&empty_reply));
        let _ = manager.drain();
    };
    tell("NoCallToReplyTo", &reply);
    tell("CallerEnded", &|| {
        let caller = t.client();
        caller.call(manager, 0, 0, &empty());
        // It may not be known yet that it is dead.
        caller.kill();
        reply();
    });
    client.send_call(0, 0, &empty());
    // The refusal is read each time: a thread with an unread one runs no commands, so that another
    // attempt would log nothing. The rate limit may suppress the first message.
    tell("ReplyAwaited", &|| {
        let _ = client.try_write(&lonely.commands(false));
        client.start_read();
        client.wait_refusal();
    });
    manager.serve(client);

    // A receiver that is frozen, or has no room.
    let freezer = Freezer::of(t, &world.servers[0]);
    freezer.freeze(LONG).expect("freeze");
    tell("ReceiverFrozen", &refusal(client, &failures::plain(client.place(world.good, 0, &empty()))));
    freezer.thaw().expect("thaw");
    let some = |size| bytes(&vec![1; size]);
    client.tell(0, 0, &some(24 << 10));
    let oneway = failures::plain(client.place_oneway(0, 0, &some(24 << 10)));
    tell("NoOnewaySpace", &refusal(client, &oneway));
    tell("NoSpace", &refusal(client, &failures::plain(client.place(0, 0, &some(60 << 10)))));

    let is_missing = |name: &str| !told.contains(name) && ELSEWHERE.iter().all(|row| row.0 != name);
    let missing: Vec<_> = reasons().into_iter().filter(|(name, _)| is_missing(name)).collect();
    assert!(missing.is_empty(), "nothing reaches {missing:#?}");
});
