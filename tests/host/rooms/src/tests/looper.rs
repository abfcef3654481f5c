// SPDX-License-Identifier: GPL-2.0

//! How a thread joins its pool: all orders of declarations.

use crate::pure::looper::{Looper, NotRequested};
use crate::pure::pool::Pool;

fn pool(is_thread_requested: bool) -> Pool {
    Pool {
        max_threads: 1,
        is_thread_requested,
        started: 0,
    }
}

#[test]
fn who_was_requested_is_counted() {
    let (mut looper, mut pool) = (Looper::default(), pool(true));
    assert!(!looper.is_in_pool());
    assert_eq!(looper.register(&mut pool), Ok(()));
    assert_eq!(
        (looper.bits(), pool.is_thread_requested, pool.started),
        (0x01, false, 1)
    );
    assert!(looper.is_in_pool());
}

#[test]
fn who_was_not_requested_joins_and_is_not_counted() {
    let (mut looper, mut pool) = (Looper::default(), pool(false));
    assert_eq!(looper.register(&mut pool), Err(NotRequested::Nobody));
    assert_eq!((looper.bits(), pool.started), (0x09, 0));
    assert!(looper.is_in_pool());
}

#[test]
fn the_request_stays_if_one_registers_who_has_entered() {
    for is_requested in [false, true] {
        let (mut looper, mut pool) = (Looper::default(), pool(is_requested));
        assert!(looper.enter());
        assert_eq!(looper.bits(), 0x02);
        assert_eq!(looper.register(&mut pool), Err(NotRequested::HasEntered));
        assert_eq!(
            (looper.bits(), pool.is_thread_requested, pool.started),
            (0x0b, is_requested, 0)
        );
    }
}

#[test]
fn who_has_registered_does_not_enter() {
    let (mut looper, mut pool) = (Looper::default(), pool(true));
    assert_eq!(looper.register(&mut pool), Ok(()));
    assert!(!looper.enter());
    assert_eq!(looper.bits(), 0x0b);
}

#[test]
fn exit_and_poll_are_no_place_in_the_pool() {
    let mut looper = Looper::default();
    looper.poll();
    looper.exit();
    assert_eq!(
        (looper.bits(), looper.is_in_pool(), looper.polls()),
        (0x24, false, true)
    );
    assert!(looper.enter());
    looper.exit();
    assert!(looper.is_in_pool());
}

/// It has its place among the declarations, and is none of them.
#[test]
fn a_lent_flag_is_returned_once_and_shown_nowhere() {
    let mut looper = Looper::default();
    assert!(!looper.take_lent_flag());
    looper.lend_flag();
    assert_eq!((looper.bits(), looper.is_in_pool()), (0, false));
    assert!(looper.enter());
    assert_eq!(looper.bits(), 2);
    assert!(looper.take_lent_flag());
    assert!(!looper.take_lent_flag());
    assert_eq!(looper.bits(), 2);
}
