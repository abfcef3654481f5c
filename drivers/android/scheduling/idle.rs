// SPDX-License-Identifier: GPL-2.0

//! The threads of a process that sleep until something comes for any of them.
//!
//! A list that goes through the threads themselves: it needs no memory, however many there are, and a
//! thread leaves it in a few steps, wherever it stands. All of it is guarded by the state lock of the
//! process. Whoever is in the list sleeps in the driver and takes itself out before it leaves, so an
//! `Arc` that is dropped here is never the last.

use crate::{process::ProcessState, thread::Thread};
use kernel::sync::Arc;

/// The place of a thread in the list; both empty while it is not in there, and while it is alone.
#[derive(Default)]
pub(crate) struct IdlePlace {
    /// Who fell idle next.
    newer: Option<Arc<Thread>>,
    /// Who fell idle just before.
    older: Option<Arc<Thread>>,
}

impl ProcessState {
    /// The thread that fell idle last, if any is idle.
    pub(crate) fn newest_idle(&self) -> Option<&Arc<Thread>> {
        self.newest_idle.as_ref()
    }

    /// Adds a thread, which is not in the list, as the newest.
    pub(crate) fn push_idle(&mut self, thread: &Arc<Thread>) {
        let older = self.newest_idle.replace(thread.clone());
        if let Some(older) = &older {
            older.state(self).idle_place.newer = Some(thread.clone());
        }
        put(&mut thread.state(self).idle_place.older, older);
    }

    /// Takes out the newest.
    pub(crate) fn pop_idle(&mut self) -> Option<Arc<Thread>> {
        let thread = self.newest_idle.take()?;
        let older = thread.state(self).idle_place.older.take();
        if let Some(older) = &older {
            older.state(self).idle_place.newer = None;
        }
        put(&mut self.newest_idle, older);
        Some(thread)
    }

    /// Takes out a thread, which is in the list.
    pub(crate) fn remove_idle(&mut self, thread: &Arc<Thread>) {
        let IdlePlace { newer, older } = core::mem::take(&mut thread.state(self).idle_place);
        if let Some(older) = &older {
            older.state(self).idle_place.newer = newer.clone();
        }
        match newer {
            Some(newer) => newer.state(self).idle_place.older = older,
            None => self.newest_idle = older,
        }
    }
}

/// Fills a place in which there is nobody. The compiler, which does not know that, would look for somebody
/// to drop.
#[inline]
fn put(place: &mut Option<Arc<Thread>>, thread: Option<Arc<Thread>>) {
    core::mem::forget(core::mem::replace(place, thread));
}
