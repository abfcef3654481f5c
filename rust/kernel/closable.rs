// SPDX-License-Identifier: GPL-2.0

//! A value that many threads use at once until it is closed: it is dropped as soon as no thread
//! uses it any more.
//!
//! The object that holds the value may live much longer. Using the value costs two atomic
//! operations and no lock; closing does not wait: if threads are using the value, the last one that
//! stops drops it.
//!
//! ```text
//!   users      0 ◄──── open, drop ────► n
//!   close      │                        │
//!              ▼                        ▼
//!            DONE ◄── last one stops ── CLOSED + n        (no new user)
//!          value dropped
//! ```

use crate::kernel_ext::once::read_once;
use kernel::sync::atomic::{ordering, Atomic};

use core::{cell::UnsafeCell, mem::ManuallyDrop, ops::Deref};

/// Set when the value is closed.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// Set when a thread has begun to drop the value.
const DONE: usize = 1 << (usize::BITS - 2);

/// A value that can be closed. See the [module](self).
///
/// # Invariants
///
/// - `users` less the flags is the number of [`Open`]s.
/// - An [`Open`] that is made after `CLOSED` is set is dropped unused.
/// - The value exists until `DONE` is set, which happens once: when `CLOSED` is set and no [`Open`]
///   exists that was made before that.
pub(crate) struct Closable<T> {
    users: Atomic<usize>,
    value: UnsafeCell<ManuallyDrop<T>>,
}

// SAFETY: The value is passed to other threads as a shared reference, and dropped by any of them.
unsafe impl<T: Send + Sync> Send for Closable<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Closable<T> {}

impl<T> Closable<T> {
    /// Creates a value that is not closed.
    pub(crate) const fn new(value: T) -> Self {
        // INVARIANT: It has no users.
        Self {
            users: Atomic::new(0),
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    /// Opens the value for use. [`None`] if it is closed.
    #[inline]
    pub(crate) fn open(&self) -> Option<Open<'_, T>> {
        // ORDERING: Pairs with `is_used` and `open_if_unused`: either that sees this user, or this
        // user sees what was written before that. And with `close`: who comes too late sees what
        // was written before that.
        let before = self.users.fetch_add(1, ordering::Acquire);
        // INVARIANT: Counted above. If the value was closed by then, it is dropped here.
        let opened = Open(self);
        (before & CLOSED == 0).then_some(opened)
    }

    /// Returns whether a thread is using the value at this moment, or the value is closed.
    ///
    /// A result of `false` has full ordering: a thread that opens the value later sees what the
    /// caller has written before.
    pub(crate) fn is_used(&self) -> bool {
        // ORDERING: As in `open_if_unused`. Changes nothing, but writes.
        self.users.cmpxchg(0, 0, ordering::Full).is_err()
    }

    /// Opens the value, unless a thread is using it at this moment, or it is closed. With full
    /// ordering, as [`is_used`](Self::is_used).
    pub(crate) fn open_if_unused(&self) -> Option<Open<'_, T>> {
        // ORDERING: Pairs with `open`, and with the drop of an `Open`, whose use of the value is
        // over. It writes: therefore who opens the value later reads what this has written, and
        // what precedes it.
        // INVARIANT: Counted, when the value was not closed.
        let opened = self.users.cmpxchg(0, 1, ordering::Full);
        opened.is_ok().then(|| Open(self))
    }

    /// Prevents further use of the value, and drops it now or, if it is in use, when the last user
    /// stops. The value's `drop` must suit the context of all its users.
    pub(crate) fn close(&self) {
        let mut users = read_once(&self.users);
        while users & CLOSED == 0 {
            // ORDERING: Pairs with the drop of an `Open`, if this drops the value, and with `open`.
            match self.users.cmpxchg(users, users | CLOSED, ordering::Full) {
                Ok(0) => return self.finish(),
                Ok(_) => return,
                Err(now) => users = now,
            }
        }
    }

    /// Returns the value, without a check that it exists.
    ///
    /// # Safety
    ///
    /// The value must not be dropped before the result is out of use. Its drop may have begun if it
    /// changes only what is atomic, and then waits until the result is out of use; in that case the
    /// value must not be `Unpin`.
    pub(crate) unsafe fn get_unchecked(&self) -> &T {
        // SAFETY: Promised by the caller.
        unsafe { &*self.value.get() }
    }

    /// Drops the value if it has no users and no other thread drops it. It is closed.
    #[cold]
    fn finish(&self) {
        // Threads that tried to open the closed value may still count as users. The last of them to
        // stop then drops the value.
        let done = CLOSED | DONE;
        if self.users.cmpxchg(CLOSED, done, ordering::Full).is_ok() {
            // SAFETY: By the type invariants the value has no users now or later, and `DONE` is set
            // only once. All former uses come before this: their users released the count that this
            // read.
            unsafe { ManuallyDrop::drop(&mut *self.value.get()) };
        }
    }
}

impl<T> Drop for Closable<T> {
    fn drop(&mut self) {
        // An `Open` borrows `self`, so none exists.
        self.close();
    }
}

/// The right to use the value, while this exists.
///
/// # Invariants
///
/// It is counted in `users`: since before the value was closed, unless it is dropped unused.
pub(crate) struct Open<'a, T>(&'a Closable<T>);

impl<T> Deref for Open<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants of both types the value exists, and all references to it
        // are shared ones.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for Open<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: Pairs with whatever finds no users after this: `is_used`, `open_if_unused`,
        // `close`, or `finish` in the last of the others that get here. The use is over before
        // that.
        if self.0.users.fetch_sub(1, ordering::Release) == CLOSED + 1 {
            self.0.finish();
        }
    }
}
