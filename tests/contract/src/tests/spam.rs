// SPDX-License-Identifier: GPL-2.0
//! Oneway spam: a sender that fills a receiver's oneway space reads a suspicion, if it has enabled
//! them, and its calls are still delivered.
//!
//! Suspicion begins when oneway calls have less than a tenth of the receiver's space left. A
//! suspect had more than fifty buffers before, or more than a quarter of the space.

use super::*;

case!(fault, ["IOCTL-ENABLE_ONEWAY_SPAM_DETECTION"], |t| assert_eq!(
    t.client().ioctl_fault(BINDER_ENABLE_ONEWAY_SPAM_DETECTION),
    Err(Errno::EFAULT)
));

/// The receiver's space in most tests. With [`LENGTH`] bytes a call, the 53rd is the first after which
/// less than a tenth of it is left for oneway calls.
pub(super) const SPACE: usize = 128 << 10;
pub(super) const LENGTH: usize = 1000;
pub(super) const FIRST: usize = 53;

const COUNTED: &str = "the call at hand counts";

fn detect(port: &Port, enable: u32) {
    port.ioctl(BINDER_ENABLE_ONEWAY_SPAM_DETECTION, enable).expect("choose detection");
}

/// A new process that has enabled detection.
fn listener(t: &Stage) -> Port {
    let port = t.client();
    detect(&port, 1);
    port
}

fn oneway(sender: &Port, length: usize) -> BinderTransactionData {
    sender.place_oneway(0, 0, &bytes(&pattern(length, length)))
}

/// Waits for the completion of a oneway call: whether it is a suspicion.
#[track_caller]
fn completed(sender: &Port) -> bool {
    sender.wait("a completion", |item| match item {
        Return::OnewaySpamSuspect => Some(true),
        Return::TransactionComplete => Some(false),
        _ => None,
    })
}

/// Sends a oneway call: whether it is suspected.
#[track_caller]
fn is_suspected(sender: &Port, length: usize) -> bool {
    sender.start_transaction(&oneway(sender, length));
    completed(sender)
}

/// Sends until suspected; returns the number of calls, the last one included.
#[track_caller]
fn until_suspected(sender: &Port, length: usize) -> usize {
    (1..=100).find(|_| is_suspected(sender, length)).expect("a suspicion")
}

/// Receives a number of calls and frees them.
fn consume(server: &Port, count: usize) {
    for _ in 0..count {
        server.free(&server.wait_call());
    }
}

case!(
    sender_of_too_much_is_told,
    ["TXN-16", "ALLOC-7", "IOCTL-ENABLE_ONEWAY_SPAM_DETECTION", "lesson R05"],
    |t| {
        let (_server, sender) = (t.manager_with(SPACE), listener(t));
        assert_eq!(until_suspected(&sender, LENGTH), FIRST);
    }
);

case!(lesson_r05_sender_of_too_many_is_told, ["ALLOC-7", "lesson R05"], |t| {
    let (_server, sender) = (t.manager_with(64 << 10), listener(t));
    // Two others, each with less than a quarter, leave less than a tenth.
    for _ in 0..2 {
        assert!(!is_suspected(&listener(t), 13150));
    }
    let found = until_suspected(&sender, 8);
    t.known_difference(Driver::Upstream, COUNTED, found == 52);
});

case!(lesson_r05_call_at_hand_does_not_count, ["ALLOC-7", "lesson R05", "lesson T10"], |t| {
    let (_server, sender) = (t.manager_with(64 << 10), listener(t));
    // A quarter is not more than a quarter. After it less than a tenth is left.
    assert!(!is_suspected(&sender, 16 << 10));
    t.known_difference(Driver::Upstream, COUNTED, !is_suspected(&sender, 10_000) && is_suspected(&sender, 8));
});

case!(told_once, ["ALLOC-7"], |t| {
    let (_server, sender) = (t.manager_with(SPACE), listener(t));
    assert_eq!(until_suspected(&sender, LENGTH), FIRST);
    let again = (0..10).any(|_| is_suspected(&sender, LENGTH));
    t.known_difference(Driver::Upstream, "a suspicion is repeated with every call", !again);
});

case!(told_again_after_there_was_space, ["ALLOC-7"], |t| {
    let (server, sender) = (t.manager_with(SPACE), listener(t));
    assert_eq!(until_suspected(&sender, LENGTH), FIRST);
    consume(&server, 10);
    // This call comes while there is space.
    assert!(!is_suspected(&sender, LENGTH));
    assert_eq!(until_suspected(&sender, LENGTH), 9);
});

case!(others_are_not_accused, ["ALLOC-7"], |t| {
    let (_server, sender, other) = (t.manager_with(SPACE), t.client(), listener(t));
    for _ in 0..FIRST {
        assert!(!is_suspected(&sender, LENGTH), "it has not enabled detection");
    }
    assert!(!is_suspected(&other, LENGTH), "it sent one call");
});

case!(suspects_are_delivered, ["ALLOC-8", "TXN-22"], |t| {
    let (server, sender) = (t.manager_with(SPACE), listener(t));
    assert_eq!(until_suspected(&sender, LENGTH), FIRST);
    for _ in 0..FIRST {
        server.consume(&server.wait_call(), pattern(LENGTH, LENGTH));
    }
    assert_eq!(server.drain(), []);
});

case!(nobody_is_told_unasked, ["TXN-16"], |t| {
    let (_server, sender) = (t.manager_with(SPACE), t.client());
    assert!(!(0..60).any(|_| is_suspected(&sender, LENGTH)));
});

case!(receivers_wish_does_not_count, ["TXN-16", "IOCTL-ENABLE_ONEWAY_SPAM_DETECTION"], |t| {
    let (server, sender) = (t.manager_with(SPACE), t.client());
    detect(&server, 1);
    assert!(!(0..60).any(|_| is_suspected(&sender, LENGTH)));
});

case!(wish_is_looked_up_when_read, ["TXN-16", "IOCTL-ENABLE_ONEWAY_SPAM_DETECTION"], |t| {
    let (server, sender) = (t.manager_with(SPACE), t.client());
    for (at_first, at_last) in [(0, 1), (1, 0)] {
        detect(&sender, at_first);
        for _ in 1..FIRST {
            assert!(!is_suspected(&sender, LENGTH));
        }
        sender.send(|c| c.transaction(&oneway(&sender, LENGTH)));
        detect(&sender, at_last);
        sender.start_read();
        assert_eq!(completed(&sender), at_last != 0);
        consume(&server, FIRST);
    }
});

case!(calls_are_no_spam, ["ALLOC-7"], |t| {
    let (server, sender) = (t.manager_with(SPACE), listener(t));
    // Buffers of answered calls that the server keeps.
    for _ in 0..100 {
        sender.call(&server, 0, 0, &bytes(&pattern(LENGTH, 1)));
        server.answer(&sender, &bytes(b""));
    }
    assert_eq!(sender.passed().into_iter().filter(|item| *item == Return::OnewaySpamSuspect).count(), 0);
    assert!(!is_suspected(&sender, LENGTH));
});

case!(any_number_but_zero_enables, ["IOCTL-ENABLE_ONEWAY_SPAM_DETECTION"], |t| {
    let (_server, sender) = (t.manager_with(SPACE), t.client());
    detect(&sender, 0x100);
    assert_eq!(until_suspected(&sender, LENGTH), FIRST);
});

case!(full_space_refuses_the_suspect, ["ALLOC-3", "ALLOC-7"], |t| {
    let (server, sender) = (t.manager_with(SPACE), listener(t));
    assert_eq!(until_suspected(&sender, LENGTH), FIRST);
    let rest = SPACE / 2 - FIRST * LENGTH;
    assert_eq!(sender.failure(&oneway(&sender, rest + 8)), failed(Errno::ENOSPC));
    assert!(!is_suspected(&sender, rest), "suspected twice");
    consume(&server, FIRST + 1);
});
