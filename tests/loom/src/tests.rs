// SPDX-License-Identifier: GPL-2.0
//! Each test runs in all orders that loom finds with up to [`PREEMPTIONS`], or as many as the
//! variable `LOOM_MAX_PREEMPTIONS` permits. A [`Cell`] fails it when two threads access it with
//! nothing in between that orders them.

use crate::closable::Closable;
use crate::cpu_rings::Slot;
use crate::link::has_field;
use crate::owned_by::{After, OwnedBy, Severable};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::sync::{
    atomic::{Atomic, Relaxed},
    Arc, SpinLock,
};
use loom::thread::spawn;
use std::sync::atomic::{AtomicU32, Ordering};

const PREEMPTIONS: usize = 4;

fn in_all_orders(test: impl Fn() + Send + Sync + 'static) {
    let runs = std::sync::Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(PREEMPTIONS);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        test();
    });
    let test = std::thread::current();
    println!("{}: {runs:?} states", test.name().unwrap_or_default());
}

/// A number or a truth that other threads may access from now on.
fn shared<T: Copy>(value: T) -> Atomic<T> {
    let shared = Atomic::new(value);
    shared.load(Relaxed);
    shared
}

/// A number without any order of its own.
struct Cell(loom::cell::UnsafeCell<u32>);

// SAFETY: loom fails a test whose accesses are not ordered.
unsafe impl Sync for Cell {}

impl Cell {
    fn new() -> Self {
        Self(loom::cell::UnsafeCell::new(0))
    }

    fn read(&self) -> u32 {
        // SAFETY: loom has checked that nothing writes.
        self.0.with(|number| unsafe { *number })
    }

    fn add(&self) {
        // SAFETY: loom has checked that nothing else accesses it.
        self.0.with_mut(|number| unsafe { *number += 1 });
    }
}

#[test]
fn a_torn_record_is_never_taken_for_a_whole_one() {
    static WHOLE: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
    static TORN: AtomicU32 = AtomicU32::new(0);
    let words = |number: u32| [number << 8, number << 16];
    in_all_orders(move || {
        let slot = Arc::new(Slot::empty(), GFP_KERNEL).unwrap();
        assert_eq!(slot.read().number, 0);
        let written = slot.clone();
        let writer = spawn(move || {
            for number in [1, 2] {
                written.write(number, words(number));
            }
        });
        let record = slot.read();
        if record.is_complete {
            assert_eq!(record.words, words(record.number));
            WHOLE[record.number as usize].fetch_add(1, Ordering::Relaxed);
        } else {
            TORN.fetch_add(1, Ordering::Relaxed);
        }
        writer.join().unwrap();
        let record = slot.read();
        assert_eq!((record.number, record.words, record.is_complete), (2, words(2), true));
    });
    let seen = WHOLE.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(seen.iter().all(|count| *count > 0) && TORN.load(Ordering::Relaxed) > 0, "{seen:?}, {TORN:?}");
}

struct State {
    changes: Cell,
}

struct Owner {
    lock: SpinLock<State>,
}

struct Name {
    owner: Severable<Owner>,
    after: SpinLock<After>,
}

has_field!(impl for Owner, lock: SpinLock<State>);
has_field!(impl for Name, owner: Severable<Owner>);
has_field!(impl for Name, after: SpinLock<After>);

type Data = OwnedBy<Cell, Name, Owner, State>;

fn owned() -> (Arc<Name>, Arc<Data>) {
    let owner = Owner { lock: SpinLock::new(State { changes: Cell::new() }) };
    let name = Name { owner: Severable::new(), after: SpinLock::new(After::default()) };
    name.owner.set(Arc::new(owner, GFP_KERNEL).unwrap());
    let name = Arc::new(name, GFP_KERNEL).unwrap();
    (name.clone(), Arc::new(OwnedBy::new(name, Cell::new()), GFP_KERNEL).unwrap())
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

/// A value whose drop is its last use.
struct Used {
    cell: Cell,
    drops: Arc<Atomic<u32>>,
}

impl Drop for Used {
    fn drop(&mut self) {
        self.cell.add();
        self.drops.fetch_add(1, Relaxed);
    }
}

fn closable() -> (Arc<Closable<Used>>, Arc<Atomic<u32>>) {
    let drops = Arc::new(shared(0), GFP_KERNEL).unwrap();
    let used = Used { cell: Cell::new(), drops: drops.clone() };
    let closable = Closable::new(used);
    assert!(!closable.is_used());
    (Arc::new(closable, GFP_KERNEL).unwrap(), drops)
}

#[test]
fn a_value_is_dropped_once_and_after_its_users() {
    in_all_orders(|| {
        let (value, drops) = closable();
        let is_over = Arc::new(shared(false), GFP_KERNEL).unwrap();
        let users = [(); 2].map(|()| {
            let (value, is_over) = (value.clone(), is_over.clone());
            spawn(move || match value.open() {
                Some(used) => assert_eq!(used.cell.read(), 0),
                None => assert!(is_over.load(Relaxed)),
            })
        });
        is_over.store(true, Relaxed);
        value.close();
        assert!(value.open().is_none());
        for user in users {
            user.join().unwrap();
        }
        assert_eq!(drops.load(Relaxed), 1);
    });
}

/// What one thread writes before it finds a value unused, who opens that later reads.
fn who_comes_later_is_told(is_unused: impl Fn(&Closable<Used>) -> bool + Copy + Send + Sync + 'static) {
    in_all_orders(move || {
        let (value, _) = closable();
        let is_gone = Arc::new(shared(false), GFP_KERNEL).unwrap();
        let memory = Arc::new(Cell::new(), GFP_KERNEL).unwrap();
        let user = {
            let (value, is_gone, memory) = (value.clone(), is_gone.clone(), memory.clone());
            spawn(move || {
                let _open = value.open().unwrap();
                if !is_gone.load(Relaxed) {
                    memory.read();
                }
            })
        };
        is_gone.store(true, Relaxed);
        if is_unused(&value) {
            memory.add();
        }
        user.join().unwrap();
    });
}

#[test]
fn a_value_that_is_not_used_is_found_so() {
    who_comes_later_is_told(|value| !value.is_used());
    who_comes_later_is_told(|value| value.open_if_unused().is_some());
}
