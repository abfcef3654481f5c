// SPDX-License-Identifier: GPL-2.0

//! A value that is set once.

use super::atomic::{Acquire, Atomic, Relaxed, Release};
use core::{cell::UnsafeCell, mem::MaybeUninit};

const EMPTY: u32 = 0;
const BUSY: u32 = 1;
const SET: u32 = 2;

/// A place for a value that does not change any more once it is there.
///
/// # Invariants
///
/// `value` is initialised and is not written if `state` is `SET`. Only who changed `state` from
/// `EMPTY` to `BUSY` writes it.
pub struct SetOnce<T> {
    state: Atomic<u32>,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: Threads share the value, and one of them gives it to the others.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

impl<T> SetOnce<T> {
    /// Makes a place without a value.
    pub const fn new() -> Self {
        // INVARIANT: Nobody writes the value yet.
        Self {
            state: Atomic::new(EMPTY),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Returns the value, if it was set.
    pub fn as_ref(&self) -> Option<&T> {
        // SAFETY: By the type's invariant, and the value was written before the state.
        (self.state.load(Acquire) == SET).then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Sets the value. Returns `false`, and drops it, if another one was first.
    pub fn populate(&self, value: T) -> bool {
        if self.state.cmpxchg(EMPTY, BUSY, Relaxed).is_err() {
            return false;
        }
        // SAFETY: By the type's invariant nobody else accesses the value now.
        unsafe { (*self.value.get()).write(value) };
        // INVARIANT: It is initialised, and was written for the last time.
        self.state.store(SET, Release);
        true
    }
}

impl<T> Drop for SetOnce<T> {
    fn drop(&mut self) {
        if *self.state.get_mut() == SET {
            // SAFETY: By the type's invariant it is initialised. Nobody uses it after this.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}
