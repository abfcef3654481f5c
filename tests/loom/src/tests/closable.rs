// SPDX-License-Identifier: GPL-2.0
//! A value that is closed while others use it.

use super::{in_all_orders, shared, Cell};
use crate::closable::Closable;
use kernel::alloc::flags::GFP_KERNEL;
use kernel::sync::{
    atomic::{Atomic, Relaxed},
    Arc,
};
use loom::thread::spawn;

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
