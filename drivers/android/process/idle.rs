// SPDX-License-Identifier: GPL-2.0

//! The list of idle threads: the threads of a process that wait for any work of the process.
//!
//! The list is linked through the threads themselves. It allocates no memory, whatever the number
//! of threads, and a thread is removed from any place of it in constant time.
//!
//! One lock guards the whole list, the state lock of the process. A thread in the list sleeps in
//! the driver and has another reference to itself, and removes itself before it leaves the driver.
//! Therefore an `Arc` that is dropped here is never the last.

use super::ProcessState;
use crate::thread::Thread;
use kernel::sync::Arc;

/// The place of a thread in the list. Both references are `None` while the thread is not in the
/// list, and while it is the only one.
#[derive(Default)]
pub(crate) struct IdlePlace {
    /// The thread that became idle next.
    newer: Option<Arc<Thread>>,
    /// The thread that became idle just before.
    older: Option<Arc<Thread>>,
}

impl ProcessState {
    /// Adds a thread as the newest. It must not be in the list.
    pub(crate) fn push_idle(&mut self, thread: &Arc<Thread>) {
        let older = self.newest_idle.replace(thread.clone());
        if let Some(older) = &older {
            self.place(older).newer = Some(thread.clone());
        }
        put(&mut self.place(thread).older, older);
    }

    /// Takes out the newest thread and returns it, if any is idle.
    pub(super) fn pop_idle(&mut self) -> Option<Arc<Thread>> {
        let thread = self.newest_idle.take()?;
        let older = self.place(&thread).older.take();
        if let Some(older) = &older {
            self.place(older).newer = None;
        }
        put(&mut self.newest_idle, older);
        Some(thread)
    }

    /// Takes out a thread, which must be in the list.
    pub(super) fn remove_idle(&mut self, thread: &Arc<Thread>) {
        let IdlePlace { newer, older } = core::mem::take(self.place(thread));
        if let Some(older) = &older {
            self.place(older).newer = newer.clone();
        }
        match newer {
            Some(newer) => self.place(&newer).older = older,
            None => self.newest_idle = older,
        }
    }

    #[inline]
    fn place<'a>(&'a mut self, thread: &'a Thread) -> &'a mut IdlePlace {
        &mut thread.state(self).idle_place
    }
}

/// Writes a thread into `place`, which must be `None`. The value that is replaced is forgotten,
/// because the compiler does not know that it is `None`, and would add code that drops it.
#[inline]
fn put(place: &mut Option<Arc<Thread>>, thread: Option<Arc<Thread>>) {
    core::mem::forget(core::mem::replace(place, thread));
}
