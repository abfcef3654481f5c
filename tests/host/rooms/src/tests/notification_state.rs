// SPDX-License-Identifier: GPL-2.0
//! Steps of notifications that change little. `tests/model` takes them in every order.

use crate::pure::freeze_state::FreezeEvent;
use crate::pure::notification_state::{DeathState, FreezeNotificationState, Message};
use DeathState::{Cleared, Clearing, Delivered, Done, Over, Queued, Registered};

#[test]
fn a_death_is_delivered_uncleared_and_a_clear_once() {
    let mut state = Registered;
    assert!(state.node_died());
    assert_eq!(state, Queued { is_cleared: false });
    let mut state = Clearing;
    assert_eq!(state.read(), Some(Message::ClearDone));
    assert_eq!(state, Cleared);
}

#[test]
fn what_comes_too_late_for_a_death_changes_nothing() {
    let is_cleared = false;
    let unchanged = |before: DeathState, step: fn(&mut DeathState) -> bool| {
        let mut state = before;
        assert!(!step(&mut state), "queued: {before:?}");
        assert_eq!(state, before);
    };
    // A node dies once; a second announcement changes nothing.
    for state in [Queued { is_cleared }, Delivered { is_cleared }, Done, Clearing, Cleared, Over] {
        unchanged(state, DeathState::node_died);
    }
    for state in [Clearing, Cleared, Over] {
        unchanged(state, DeathState::clear);
        unchanged(state, DeathState::confirm);
    }
    for state in [Cleared, Over] {
        unchanged(state, |state| state.read().is_some());
    }
}

#[test]
fn what_comes_too_late_for_a_freeze_notification_changes_nothing() {
    let event = |number| FreezeEvent { number, is_frozen: true };
    let mut state = FreezeNotificationState::new();
    assert!(state.notify(event(1)) && !state.confirm(), "not delivered yet");
    assert_eq!(state.read(), Some(Message::Event));
    assert!(!state.confirm(), "no other event has arrived");
    assert!(!state.notify(event(1)) && !state.notify(event(0)), "not newer");
    assert!(state.notify(event(2)) && !state.clear(), "queued already");
    assert!(!state.notify(event(3)), "cleared");
    assert_eq!(state.read(), Some(Message::ClearDone));
    assert!(!state.clear() && state.read().is_none());
}

#[test]
fn nothing_is_delivered_of_a_handle_that_is_removed() {
    let mut state = FreezeNotificationState::new();
    assert!(state.notify(FreezeEvent { number: 1, is_frozen: true }));
    state.cancel();
    assert!(state.read().is_none() && !state.clear());
}
