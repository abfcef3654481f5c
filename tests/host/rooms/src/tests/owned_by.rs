// SPDX-License-Identifier: GPL-2.0
//! Data that belongs to an object and is guarded by its lock. `tests/loom` has threads that share it.

use crate::link::has_field;
use crate::owned_by::{After, OwnedBy, Severable};
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

/// The name of one.
struct Name {
    owner: Severable<Owner>,
    after: SpinLock<After>,
}

has_field!(impl for Name, owner: Severable<Owner>);
has_field!(impl for Name, after: SpinLock<After>);

type Data<T> = OwnedBy<T, Name, Owner, State>;

fn name() -> Arc<Name> {
    let name = Name { owner: Severable::new(), after: SpinLock::new(After::default()) };
    Arc::new(name, GFP_KERNEL).unwrap()
}

fn owner() -> (Arc<Owner>, Arc<Name>) {
    let state = || State { changes: 0 };
    let owner = Owner { before: state(), lock: SpinLock::new(state()), after: state() };
    let (owner, name) = (Arc::new(owner, GFP_KERNEL).unwrap(), name());
    name.owner.set(owner.clone());
    (owner, name)
}

/// Returns whether both ways of access panic.
fn is_refused(data: &Data<u32>, guarded: &mut State) -> bool {
    let shared = catch_unwind(AssertUnwindSafe(|| *data.access(guarded))).is_err();
    let exclusive = catch_unwind(AssertUnwindSafe(|| *data.access_mut(guarded) += 1)).is_err();
    assert_eq!(shared, exclusive);
    shared
}

const _: () = assert!(size_of::<Data<u64>>() == 2 * size_of::<u64>());

#[test]
fn who_holds_the_lock_has_the_data() {
    let (owner, name) = owner();
    let data: [Data<_>; 2] = [OwnedBy::new(name.clone(), 5), OwnedBy::new(name.clone(), 7)];
    let mut state = owner.lock.lock();
    for one in &data {
        *one.access_mut(&mut state) += 1;
        state.changes += 1;
    }
    assert_eq!([*data[0].access(&state), *data[1].access(&state)], [6, 8]);
    assert_eq!(state.changes, 2);
    drop(state);
    assert!(data[0].owner().is(&owner));
    let mut locked = data[0].lock();
    *data[1].in_lock(&mut locked) += 1;
    assert_eq!((*data[1].in_lock(&mut locked), locked.of_owner().unwrap().changes), (9, 2));
}

#[test]
fn the_lock_of_another_owner_does_not_do() {
    let owners = [owner(), owner()];
    let [data, other]: [Data<u32>; 2] = [0, 1].map(|number| OwnedBy::new(owners[number].1.clone(), 5));
    assert!(is_refused(&data, &mut owners[1].0.lock.lock()));
    assert!(!is_refused(&data, &mut owners[0].0.lock.lock()));
    for _ in 0..2 {
        let refused = catch_unwind(AssertUnwindSafe(|| *data.in_lock(&mut other.lock()) += 1));
        assert!(refused.is_err());
        owners[1].1.owner.sever();
    }
    owners[0].1.owner.sever();
    let refused = catch_unwind(AssertUnwindSafe(|| *data.in_lock(&mut other.lock()) += 1));
    assert!(refused.is_err());
    assert_eq!(*data.in_lock(&mut data.lock()), 6);
}

/// Values of the same type, in memory next to the lock and elsewhere.
#[test]
fn what_is_not_behind_the_lock_does_not_do() {
    let (owner, name) = owner();
    let data: Data<u32> = OwnedBy::new(name, 5);
    for beside in [&owner.before, &owner.after] {
        assert!(catch_unwind(AssertUnwindSafe(|| *data.access(beside))).is_err());
    }
    assert!(is_refused(&data, &mut State { changes: 0 }));
}

#[test]
fn what_is_exchanged_behind_the_lock_is_behind_it() {
    let (owner, name) = owner();
    let data: Data<u32> = OwnedBy::new(name, 5);
    let mut state = owner.lock.lock();
    let mut before = std::mem::replace(&mut *state, State { changes: 9 });
    assert!(is_refused(&data, &mut before));
    assert!(!is_refused(&data, &mut state));
}

#[test]
fn an_owner_that_ends_leaves_its_name() {
    let (owner, name) = owner();
    let data: Data<u32> = OwnedBy::new(name.clone(), 5);
    assert!(name.owner.get().is_some() && name.owner.with(|owner| owner.is_some()));
    name.owner.sever();
    assert!(name.owner.get().is_none() && name.owner.with(|owner| owner.is_none()));
    assert!(!name.owner.is(&owner));
    let owner: Arc<_> = Arc::into_unique_or_drop(owner).expect("the name keeps its owner").into();
    // Its lock is that of nothing any more, and it cannot come back.
    assert!(is_refused(&data, &mut owner.lock.lock()));
    name.owner.set(owner);
    name.owner.sever();
    let mut locked = data.lock();
    *data.in_lock(&mut locked) += 1;
    assert!(locked.of_owner().is_none());
    assert_eq!(*data.in_lock(&mut locked), 6);
}

#[test]
fn a_name_without_an_owner_has_no_lock() {
    let data: Data<u32> = OwnedBy::new(name(), 5);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(data.lock()))).is_err());
    // Nor does the lock for later do before.
    let (_owner, name) = owner();
    assert!(name.owner.get().is_some());
}
