// SPDX-License-Identifier: GPL-2.0
//! Data that belongs to an object and is guarded by its lock.

use super::{in_all_orders, Cell};
use crate::link::has_field;
use crate::owned_by::{After, OwnedBy, Severable};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::sync::{Arc, SpinLock};
use loom::thread::spawn;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};

/// The data under the lock.
struct State {
    changes: Cell,
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

type Data = OwnedBy<Cell, Name, Owner, State>;

fn state() -> State {
    State { changes: Cell::new() }
}

fn name() -> Arc<Name> {
    let name = Name { owner: Severable::new(), after: SpinLock::new(After::default()) };
    Arc::new(name, GFP_KERNEL).unwrap()
}

fn owner() -> (Arc<Owner>, Arc<Name>) {
    let owner = Owner { before: state(), lock: SpinLock::new(state()), after: state() };
    let (owner, name) = (Arc::new(owner, GFP_KERNEL).unwrap(), name());
    name.owner.set(owner.clone());
    (owner, name)
}

/// Data of an owner whose only reference is that of its name.
fn owned() -> (Arc<Name>, Arc<Data>) {
    let (_, name) = owner();
    (name.clone(), Arc::new(OwnedBy::new(name, Cell::new()), GFP_KERNEL).unwrap())
}

fn is_refused<T>(access: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(access()))).is_err()
}

/// Returns whether both ways of access panic.
fn is_not_behind(data: &Data, guarded: &mut State) -> bool {
    let shared = is_refused(|| data.access(guarded).read());
    let exclusive = is_refused(|| data.access_mut(guarded).add());
    assert_eq!(shared, exclusive);
    shared
}

const _: () = assert!(size_of::<OwnedBy<u64, Name, Owner, State>>() == 2 * size_of::<u64>());

#[test]
fn who_holds_the_lock_has_the_data() {
    in_all_orders(|| {
        let (owner, name) = owner();
        let data = [(); 2].map(|()| Data::new(name.clone(), Cell::new()));
        let mut state = owner.lock.lock();
        data[1].access_mut(&mut state).add();
        for one in &data {
            one.access_mut(&mut state).add();
            state.changes.add();
        }
        assert_eq!(data.each_ref().map(|one| one.access(&state).read()), [1, 2]);
        drop(state);
        assert!(data[0].owner().is(&owner));
        let mut locked = data[0].lock();
        data[1].in_lock(&mut locked).add();
        assert_eq!((data[1].in_lock(&mut locked).read(), locked.of_owner().unwrap().changes.read()), (3, 2));
    });
}

#[test]
fn the_lock_of_another_owner_does_not_do() {
    in_all_orders(|| {
        let owners = [owner(), owner()];
        let [data, other] = owners.each_ref().map(|(_, name)| Data::new(name.clone(), Cell::new()));
        assert!(is_not_behind(&data, &mut owners[1].0.lock.lock()));
        assert!(!is_not_behind(&data, &mut owners[0].0.lock.lock()));
        let is_refused_others = || {
            let mut locked = other.lock();
            is_refused(|| data.in_lock(&mut locked).add())
        };
        for (_, name) in owners.iter().rev() {
            assert!(is_refused_others());
            name.owner.sever();
        }
        assert!(is_refused_others());
        assert_eq!(data.in_lock(&mut data.lock()).read(), 1);
    });
}

/// Values of the same type, in memory next to the lock and elsewhere.
#[test]
fn what_is_not_behind_the_lock_does_not_do() {
    in_all_orders(|| {
        let (owner, name) = owner();
        let data = Data::new(name, Cell::new());
        for beside in [&owner.before, &owner.after] {
            assert!(is_refused(|| data.access(beside).read()));
        }
        assert!(is_not_behind(&data, &mut state()));
    });
}

#[test]
fn what_is_exchanged_behind_the_lock_is_behind_it() {
    in_all_orders(|| {
        let (owner, name) = owner();
        let data = Data::new(name, Cell::new());
        let mut locked = owner.lock.lock();
        let mut before = std::mem::replace(&mut *locked, state());
        assert!(is_not_behind(&data, &mut before));
        assert!(!is_not_behind(&data, &mut locked));
    });
}

#[test]
fn an_owner_that_ends_leaves_its_name() {
    in_all_orders(|| {
        let (owner, name) = owner();
        let data = Data::new(name.clone(), Cell::new());
        assert!(name.owner.get().is_some() && name.owner.with(|owner| owner.is_some()));
        name.owner.sever();
        assert!(name.owner.get().is_none() && name.owner.with(|owner| owner.is_none()));
        assert!(!name.owner.is(&owner));
        let owner: Arc<_> = Arc::into_unique_or_drop(owner).expect("the name keeps its owner").into();
        // Its lock is that of nothing any more, and it cannot come back.
        assert!(is_not_behind(&data, &mut owner.lock.lock()));
        name.owner.set(owner);
        name.owner.sever();
        let mut locked = data.lock();
        data.in_lock(&mut locked).add();
        assert!(locked.of_owner().is_none());
        assert_eq!(data.in_lock(&mut locked).read(), 1);
    });
}

#[test]
fn a_name_without_an_owner_has_no_lock() {
    in_all_orders(|| {
        let data = Data::new(name(), Cell::new());
        assert!(is_refused(|| drop(data.lock())));
        // Nor does the lock for later do before.
        let (_owner, name) = owner();
        assert!(name.owner.get().is_some());
    });
}

#[test]
fn data_have_one_user_at_a_time_while_their_owner_ends() {
    static BY_OWNER: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
    in_all_orders(|| {
        let (name, data) = owned();
        let change = move || {
            let mut locked = data.lock();
            data.in_lock(&mut locked).add();
            let state = locked.of_owner();
            state.map_or(0, |state| {
                state.changes.add();
                1
            })
        };
        let other = spawn(change.clone());
        let ends = spawn(move || name.owner.sever());
        let by_owner = change() + other.join().unwrap();
        ends.join().unwrap();
        change();
        BY_OWNER[by_owner].fetch_add(1, Ordering::Relaxed);
    });
    let seen = BY_OWNER.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn an_owner_that_is_found_stays_as_long_as_it_is_used() {
    in_all_orders(|| {
        let (name, _) = owned();
        let of_other = name.clone();
        let finds = spawn(move || {
            if let Some(owner) = of_other.owner.get() {
                owner.lock.lock().changes.add();
            }
            of_other.owner.with(|owner| owner.is_some_and(|owner| owner.lock.lock().changes.read() > 0))
        });
        name.owner.sever();
        finds.join().unwrap();
        assert!(name.owner.get().is_none());
    });
}
