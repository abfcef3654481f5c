// SPDX-License-Identifier: GPL-2.0

//! The threads of a process that sleep until something comes for any of them.
//!
//! A list that goes through the threads themselves: it needs no memory, however many there are, and a
//! thread leaves it in a few steps, wherever it stands. All of it is guarded by one lock, the state lock of
//! the process. Whoever is in the list sleeps in the driver and takes itself out before it leaves, so an
//! `Arc` that is dropped here is never the last.

use kernel::sync::Arc;

/// The place of a thread in the list; both empty while it is not in there, and while it is alone.
pub(crate) struct IdlePlace<T> {
    /// Who fell idle next.
    newer: Option<Arc<T>>,
    /// Who fell idle just before.
    older: Option<Arc<T>>,
}

impl<T> Default for IdlePlace<T> {
    fn default() -> Self {
        Self {
            newer: None,
            older: None,
        }
    }
}

/// What the lock of such a list guards.
pub(crate) trait IdleThreads {
    type Thread;

    /// The thread that fell idle last, if any is idle.
    fn newest(&mut self) -> &mut Option<Arc<Self::Thread>>;

    /// The place of a thread.
    fn place<'a>(&'a mut self, thread: &'a Self::Thread) -> &'a mut IdlePlace<Self::Thread>;

    /// Adds a thread, which is not in the list, as the newest.
    fn push_idle(&mut self, thread: &Arc<Self::Thread>) {
        let older = self.newest().replace(thread.clone());
        if let Some(older) = &older {
            self.place(older).newer = Some(thread.clone());
        }
        put(&mut self.place(thread).older, older);
    }

    /// Takes out the newest.
    fn pop_idle(&mut self) -> Option<Arc<Self::Thread>> {
        let thread = self.newest().take()?;
        let older = self.place(&thread).older.take();
        if let Some(older) = &older {
            self.place(older).newer = None;
        }
        put(self.newest(), older);
        Some(thread)
    }

    /// Takes out a thread, which is in the list.
    fn remove_idle(&mut self, thread: &Arc<Self::Thread>) {
        let IdlePlace { newer, older } = core::mem::take(self.place(thread));
        if let Some(older) = &older {
            self.place(older).newer = newer.clone();
        }
        match newer {
            Some(newer) => self.place(&newer).older = older,
            None => *self.newest() = older,
        }
    }
}

/// Fills a place in which there is nobody. The compiler, which does not know that, would look for somebody
/// to drop.
#[inline]
fn put<T>(place: &mut Option<Arc<T>>, thread: Option<Arc<T>>) {
    core::mem::forget(core::mem::replace(place, thread));
}
