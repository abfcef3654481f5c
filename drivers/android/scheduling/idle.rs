// SPDX-License-Identifier: GPL-2.0

//! The list of idle threads: the threads of a process that wait for any work of the process.
//!
//! The list is linked through the threads themselves. It allocates no memory, whatever the number
//! of threads, and a thread is removed from any place of it in constant time.
//!
//! One lock guards the whole list, the state lock of the process. A thread in the list sleeps in
//! the driver and has another reference to itself, and removes itself before it leaves the driver.
//! Therefore an `Arc` that is dropped here is never the last.

use kernel::sync::Arc;

/// The place of a thread in the list. Both references are `None` while the thread is not in the
/// list, and while it is the only one.
pub(crate) struct IdlePlace<T> {
    /// The thread that became idle next.
    newer: Option<Arc<T>>,
    /// The thread that became idle just before.
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

/// The data that the lock of such a list guards. All functions are called under that lock.
pub(crate) trait IdleThreads {
    /// The type of the threads.
    type Thread;

    /// Returns the thread that became idle last, if any is idle.
    fn newest(&mut self) -> &mut Option<Arc<Self::Thread>>;

    /// Returns the place of a thread.
    fn place<'a>(&'a mut self, thread: &'a Self::Thread) -> &'a mut IdlePlace<Self::Thread>;

    /// Adds a thread as the newest. It must not be in the list.
    fn push_idle(&mut self, thread: &Arc<Self::Thread>) {
        let older = self.newest().replace(thread.clone());
        if let Some(older) = &older {
            self.place(older).newer = Some(thread.clone());
        }
        put(&mut self.place(thread).older, older);
    }

    /// Takes out the newest thread and returns it, if any is idle.
    fn pop_idle(&mut self) -> Option<Arc<Self::Thread>> {
        let thread = self.newest().take()?;
        let older = self.place(&thread).older.take();
        if let Some(older) = &older {
            self.place(older).newer = None;
        }
        put(self.newest(), older);
        Some(thread)
    }

    /// Takes out a thread, which must be in the list.
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

/// Writes a thread into `place`, which must be `None`. The value that is replaced is forgotten,
/// because the compiler does not know that it is `None`, and would add code that drops it.
#[inline]
fn put<T>(place: &mut Option<Arc<T>>, thread: Option<Arc<T>>) {
    core::mem::forget(core::mem::replace(place, thread));
}
