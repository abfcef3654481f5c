// SPDX-License-Identifier: GPL-2.0

//! Data that belongs to an object and is guarded by its lock. Clean under Miri as well.

use crate::link::has_field;
use crate::owned_by::OwnedBy;
use kernel::alloc::flags::GFP_KERNEL;
use kernel::sync::{Arc, SpinLock};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The data under the lock.
struct State {
    changes: u32,
}

/// An object whose lock is between other things.
struct Owner {
    before: State,
    lock: SpinLock<State>,
    after: State,
}

has_field!(impl for Owner, lock: SpinLock<State>);

fn owner() -> Arc<Owner> {
    let state = || State { changes: 0 };
    let owner = Owner { before: state(), lock: SpinLock::new(state()), after: state() };
    Arc::new(owner, GFP_KERNEL).unwrap()
}

/// Returns whether both ways of access panic.
fn is_refused(data: &OwnedBy<u32, Owner, State>, guarded: &mut State) -> bool {
    let shared = catch_unwind(AssertUnwindSafe(|| *data.access(guarded))).is_err();
    let exclusive = catch_unwind(AssertUnwindSafe(|| *data.access_mut(guarded) += 1)).is_err();
    assert_eq!(shared, exclusive);
    shared
}

const _: () = assert!(size_of::<OwnedBy<u64, Owner, State>>() == 2 * size_of::<u64>());

#[test]
fn who_holds_the_lock_has_the_data() {
    let owner = owner();
    let data = [OwnedBy::new(owner.clone(), 5), OwnedBy::new(owner.clone(), 7)];
    let mut state = owner.lock.lock();
    for one in &data {
        *one.access_mut(&mut state) += 1;
        state.changes += 1;
    }
    assert_eq!([*data[0].access(&state), *data[1].access(&state)], [6, 8]);
    assert_eq!(state.changes, 2);
    drop(state);
    assert!(Arc::ptr_eq(data[0].owner(), &owner));
}

#[test]
fn the_lock_of_another_owner_does_not_do() {
    let owners = [owner(), owner()];
    let data = OwnedBy::new(owners[0].clone(), 5);
    assert!(is_refused(&data, &mut owners[1].lock.lock()));
    assert!(!is_refused(&data, &mut owners[0].lock.lock()));
}

/// Values of the same type, in memory next to the lock and elsewhere.
#[test]
fn what_is_not_behind_the_lock_does_not_do() {
    let owner = owner();
    let data = OwnedBy::new(owner.clone(), 5);
    for beside in [&owner.before, &owner.after] {
        assert!(catch_unwind(AssertUnwindSafe(|| *data.access(beside))).is_err());
    }
    assert!(is_refused(&data, &mut State { changes: 0 }));
}

#[test]
fn what_is_exchanged_behind_the_lock_is_behind_it() {
    let owner = owner();
    let data = OwnedBy::new(owner.clone(), 5);
    let mut state = owner.lock.lock();
    let mut before = std::mem::replace(&mut *state, State { changes: 9 });
    assert!(is_refused(&data, &mut before));
    assert!(!is_refused(&data, &mut state));
}

#[test]
fn threads_take_turns() {
    let owner = owner();
    let data = Arc::new(OwnedBy::new(owner, 0u64), GFP_KERNEL).unwrap();
    let rounds = if cfg!(miri) { 10 } else { 2000 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let mut state = data.owner().lock.lock();
                    *data.access_mut(&mut state) += 1;
                }
            });
        }
    });
    let state = data.owner().lock.lock();
    assert_eq!(*data.access(&state), 2 * rounds);
}
