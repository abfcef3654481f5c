// SPDX-License-Identifier: GPL-2.0

//! A value that many use at once until it is closed: then it goes as soon as nobody is using it.
//!
//! What holds the value may live much longer. Using it costs two atomic operations and no lock; closing
//! waits for nobody: should somebody be using the value, whoever is the last to stop drops it.
//!
//! ```text
//!   users      0 ◄──── open, drop ────► n
//!   close      │                        │
//!              ▼                        ▼
//!            DONE ◄── last one stops ── CLOSED + n        (nobody begins any more)
//!          value dropped
//! ```

use kernel::sync::atomic::{ordering, Atomic};

use core::{cell::UnsafeCell, mem::ManuallyDrop, ops::Deref};

/// Set when the value is closed.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// Set when somebody has begun to drop the value.
const DONE: usize = 1 << (usize::BITS - 2);

/// A value that can be closed. See the [module](self).
///
/// # Invariants
///
/// - `users` less the flags is the number of [`Open`]s, and of tries to make one which are about to be
///   taken back.
/// - The value is there until `DONE` is set, which happens once: when `CLOSED` is set and there is no
///   [`Open`].
/// - No [`Open`] comes to be once `CLOSED` is set.
pub struct Closable<T> {
    users: Atomic<usize>,
    value: UnsafeCell<ManuallyDrop<T>>,
}

// SAFETY: The value is given to other threads as a shared reference, and dropped by any of them.
unsafe impl<T: Send + Sync> Send for Closable<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Closable<T> {}

impl<T> Closable<T> {
    /// A value that is not closed.
    pub const fn new(value: T) -> Self {
        // INVARIANT: Nobody uses it.
        Self {
            users: Atomic::new(0),
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    /// Lets the value be used, unless it is closed.
    #[inline]
    pub fn open(&self) -> Option<Open<'_, T>> {
        let before = self.users.fetch_add(1, ordering::Full);
        if before & CLOSED != 0 {
            self.stop_using();
            return None;
        }
        // INVARIANT: Counted above, when it was not closed.
        Some(Open(self))
    }

    /// Whether somebody is using the value at this moment.
    ///
    /// With full ordering: who begins later than this finds what the caller has written before.
    #[inline]
    pub fn is_open(&self) -> bool {
        // Adding nothing: a load alone could be done before the writes that precede it.
        self.users.fetch_add(0, ordering::Full) & !(CLOSED | DONE) != 0
    }

    /// Lets nobody use the value any more, and drops it now or, if somebody is using it, when the last
    /// one stops. The value's `drop` is to suit all of them.
    pub fn close(&self) {
        let mut users = self.users.load(ordering::Relaxed);
        while users & CLOSED == 0 {
            match self.users.cmpxchg(users, users | CLOSED, ordering::Full) {
                Ok(0) => return self.finish(),
                Ok(_) => return,
                Err(now) => users = now,
            }
        }
    }

    /// The value, for who knows that it is there.
    ///
    /// # Safety
    ///
    /// The value must not be dropped before the result is out of use. That its drop has begun is
    /// allowed where that waits, before it changes anything, until the result is out of use; then the
    /// value must not be `Unpin`.
    pub unsafe fn get_unchecked(&self) -> &T {
        // SAFETY: Promised by the caller.
        unsafe { &*self.value.get() }
    }

    #[inline]
    fn stop_using(&self) {
        if self.users.fetch_sub(1, ordering::Full) == CLOSED + 1 {
            self.finish();
        }
    }

    /// Drops the value if nobody uses it and nobody else drops it. It is closed.
    #[cold]
    fn finish(&self) {
        // Others may have tried to use it meanwhile, and not taken that back: then they do this.
        if self
            .users
            .cmpxchg(CLOSED, CLOSED | DONE, ordering::Full)
            .is_ok()
        {
            // SAFETY: By the type invariants nobody uses the value or will, and `DONE` is set only once.
            unsafe { ManuallyDrop::drop(&mut *self.value.get()) };
        }
    }
}

impl<T> Drop for Closable<T> {
    fn drop(&mut self) {
        // An `Open` borrows it, so there is none.
        self.close();
    }
}

/// While this exists, the value can be used.
///
/// # Invariants
///
/// It is counted in `users`, since before the value was closed.
pub struct Open<'a, T>(&'a Closable<T>);

impl<T> Deref for Open<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants of both the value is there, and nobody refers to it otherwise
        // than by shared references.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for Open<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.stop_using();
    }
}
