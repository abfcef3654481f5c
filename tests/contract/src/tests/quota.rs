// SPDX-License-Identifier: GPL-2.0
//! The part of a receiver's oneway space that the calls of one sender may hold: the parameter
//! `oneway_quota` of our driver, in percent. A larger call is refused as if the space were full,
//! and the other senders can go on.

use super::limits::race;
use super::*;

/// A receiver's space of which a quarter of the half that is for oneway calls is [`QUARTER`].
const SPACE: usize = 64 << 10;
const QUARTER: usize = SPACE / 2 / 4;

/// A receiver and a sender, which may have a quarter.
fn quarter(t: &Stage) -> Option<(Limit, Port, Port)> {
    let limit = Limit::set(t, "oneway_quota", 25)?;
    Some((limit, t.manager_with(SPACE), t.client()))
}

fn oneway(sender: &Port, size: usize) -> BinderTransactionData {
    sender.place_oneway(0, 0, &bytes(&pattern(size, size)))
}

#[track_caller]
fn tell(sender: &Port, size: usize) {
    sender.tell(0, 0, &bytes(&pattern(size, size)));
}

#[track_caller]
fn is_over_quota(sender: &Port, size: usize) {
    assert_eq!(sender.failure(&oneway(sender, size)), failed(Errno::ENOSPC), "as if the space were full");
}

/// Receives the next oneway call, which has to be of this size, and frees it.
#[track_caller]
fn hear(server: &Port, size: usize) {
    let call = server.wait_call();
    assert_eq!(call.data_size, size as u64);
    server.free(&call);
}

case!(of_a_sender, ["ALLOC-3", "ALLOC-2"], |t| {
    let Some((_limit, server, greedy)) = quarter(t) else { return };
    let other = t.client();
    is_over_quota(&greedy, QUARTER + 8);
    tell(&greedy, 4096);
    tell(&greedy, QUARTER - 4096);
    is_over_quota(&greedy, 1);
    // Others have as much, and calls that are waited for pay with the other half.
    tell(&other, QUARTER);
    is_over_quota(&other, 8);
    is_over_quota(&greedy, 8);
    let first = server.wait_call();
    greedy.round_trip(0, &server, &bytes(&pattern(SPACE / 2, 3)), &empty());
    is_over_quota(&greedy, 8);
    server.free(&first);
    tell(&greedy, 4000);
    is_over_quota(&greedy, 104);
    tell(&greedy, 96);
    is_over_quota(&other, 8);
    for size in [QUARTER - 4096, QUARTER, 4000, 96] {
        hear(&server, size);
    }
    tell(&greedy, QUARTER);
});

case!(is_of_the_process, ["ALLOC-3"], |t| {
    let Some((_limit, server, sender)) = quarter(t) else { return };
    let another = t.server();
    let handle = introduce(&server, &another, FlatBinderObject::binder(0x10, 0x20), &sender);
    tell(&sender, QUARTER - 8);
    let thread = sender.thread();
    let opened_again = t.open_by(sender.actor.clone());
    for port in [&thread, &opened_again] {
        is_over_quota(port, 16);
    }
    tell(&opened_again, 8);
    is_over_quota(&sender, 8);
    // Each receiver has a space of its own.
    sender.tell(handle, 0, &bytes(&pattern(4096, 4096)));
});

case!(in_a_race, ["ALLOC-3"], |t| {
    let Some((_limit, server, sender)) = quarter(t) else { return };
    for _ in 0..4 {
        let calls: Vec<_> = (0..12).map(|_| oneway(&sender, QUARTER / 4)).collect();
        assert_eq!(race(&sender, &calls), 4);
        for _ in 0..4 {
            hear(&server, QUARTER / 4);
        }
    }
});

case!(comes_back, ["ALLOC-3", "OBJ-10"], |t| {
    let Some((_limit, server, sender)) = quarter(t) else { return };
    let mut broken = Parcel::new();
    broken.bytes(&pattern(QUARTER - 64, 1)).object(&FlatBinderObject::strong_handle(NO_HANDLE));
    for _ in 0..50 {
        // Refused when its space is reserved already.
        assert_eq!(sender.failure(&sender.place_oneway(0, 0, &broken)), failed(Errno::EINVAL));
    }
    for _ in 0..20 {
        tell(&sender, QUARTER);
        is_over_quota(&sender, 8);
        hear(&server, QUARTER);
    }
});

case!(many_small_calls, ["ALLOC-3"], |t| {
    let Some((_limit, server, greedy)) = quarter(t) else { return };
    let other = t.client();
    let most = QUARTER / 8;
    for _ in 0..most {
        tell(&greedy, 8);
    }
    for _ in 0..10 {
        is_over_quota(&greedy, 8);
        tell(&other, 16);
    }
    for count in [1, 7, most - 8] {
        for _ in 0..count {
            hear(&server, 8);
        }
        for _ in 0..count.min(10) {
            tell(&greedy, 8);
        }
        if count < 10 {
            is_over_quota(&greedy, 8);
        }
    }
});

case!(of_the_dead, ["ALLOC-3", "TXN-16"], |t| {
    let Some((_limit, server, sender)) = quarter(t) else { return };
    tell(&sender, QUARTER);
    sender.kill();
    let other = t.client();
    tell(&other, QUARTER);
    is_over_quota(&other, 8);
    hear(&server, QUARTER);
    is_over_quota(&other, 8);
    hear(&server, QUARTER);
    tell(&other, QUARTER);
    // Nothing of this outlives the receiver.
    server.kill();
    let next = t.manager_with(SPACE);
    tell(&other, QUARTER);
    hear(&next, QUARTER);
});

case!(set_and_taken_away, ["ALLOC-3"], |t| {
    let Some(limit) = Limit::set(t, "oneway_quota", 0) else { return };
    let (server, sender) = (t.manager_with(SPACE), t.client());
    tell(&sender, QUARTER);
    tell(&sender, 8);
    // Calls that were sent before count.
    limit.change(25);
    is_over_quota(&sender, 8);
    hear(&server, QUARTER);
    is_over_quota(&sender, QUARTER);
    tell(&sender, QUARTER - 8);
    limit.change(100);
    tell(&sender, SPACE / 2 - QUARTER);
    is_over_quota(&sender, 8);
    limit.change(0);
    is_over_quota(&sender, 8);
    for size in [8, QUARTER - 8, SPACE / 2 - QUARTER] {
        hear(&server, size);
    }
    tell(&sender, SPACE / 2);
});
