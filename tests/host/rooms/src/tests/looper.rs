// SPDX-License-Identifier: GPL-2.0
//! The part of a thread's place in its pool that no log shows; the contract's tests see the rest.

use crate::pure::looper::Looper;

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
