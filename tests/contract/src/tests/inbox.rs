// SPDX-License-Identifier: GPL-2.0
//! The inbox itself: it has to report returns that break these rules, or no other test would fail.

use super::*;
use crate::inbox::Inbox;
use std::panic::Location;

const NODE: BinderPtrCookie = BinderPtrCookie { ptr: 8, cookie: 9 };

/// The number of complaints about these returns after so many replies. Each `process` starts without nodes.
fn complaints(process: i32, replies: u32, items: &[Return]) -> usize {
    let inbox = Inbox::new(process, 1, 0);
    for _ in 0..replies {
        let mut command = codes::BC_REPLY.to_ne_bytes().to_vec();
        command.extend([0; 64]);
        inbox.wrote(&command);
    }
    inbox.read(items);
    inbox.complaints().len()
}

case!(each_call_is_completed_once, ["TXN-16", "TXN-17", "TXN-18", "TXN-19"], |_| {
    use Return::{DeadReply, TransactionComplete as Complete};
    for (replies, items, wrong) in [
        (1, &[Complete, DeadReply][..], 0),
        (1, &[DeadReply], 0),
        (2, &[Complete, Complete, DeadReply], 0),
        (1, &[Complete, Complete], 1),
        (1, &[DeadReply, Complete], 1),
        (0, &[Complete], 1),
    ] {
        assert_eq!(complaints(1, replies, items), wrong, "{replies} {items:?}");
    }
});

case!(node_updates_follow_each_other, ["NODE-6", "NODE-7"], |_| {
    use Return::{Acquire, Decrefs, Increfs, Release};
    let rows: [(&[Return], usize); 7] = [
        (&[Increfs(NODE), Acquire(NODE), Release(NODE), Acquire(NODE)], 0),
        (&[Increfs(NODE), Decrefs(NODE), Increfs(NODE)], 0),
        (&[Acquire(NODE)], 1),
        (&[Release(NODE)], 1),
        (&[Increfs(NODE), Increfs(NODE)], 1),
        (&[Increfs(NODE), Acquire(NODE), Decrefs(NODE)], 1),
        (&[Increfs(NODE), Release(NODE)], 1),
    ];
    for (process, (items, wrong)) in (1..).zip(rows) {
        assert_eq!(complaints(process, 0, items), wrong, "{items:?}");
    }
});

case!(what_is_passed_must_be_taken, ["LOOP-5"], |_| {
    let inbox = Inbox::new(1, 1, 0);
    inbox.pass(Return::SpawnLooper, Location::caller());
    assert_eq!(inbox.take_passed(), [Return::SpawnLooper]);
    assert!(inbox.complaints().is_empty());
    inbox.pass(Return::SpawnLooper, Location::caller());
    inbox.keep(vec![Return::Noop, Return::DeadBinder(1)]);
    assert_eq!(inbox.complaints().len(), 2);
});
