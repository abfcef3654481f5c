// SPDX-License-Identifier: GPL-2.0

//! Calls that wait for long, and threads that wait for each other: found and told, while the
//! parameter `slow_call_ms` is not 0.
//!
//! Nothing is noted when a call is made, and no timer runs for it. A [walk] over all threads, a few
//! times in the time after which a call is slow, sees which of them wait for the same call as
//! before. Only a call that no idle thread could take can close a cycle of threads that wait for
//! each other, so the thread that makes such a call [looks for one](look_for_cycle).
//!
//! Both follow the calls from thread to thread with [`crate::pure::wait_graph`]; `search.rs` makes
//! the observations for that, `report.rs` tells what was found.

mod report;
mod search;
pub(crate) mod walk;

use crate::{
    common::slow_calls,
    process::Process,
    pure::{
        wait_graph::{Activity, Verdict},
        watch::Told, //
    },
    thread::Thread,
    waits::report::Suspect, //
};
use kernel::{prelude::*, sync::Arc};

/// Tells if the call that the calling thread has just made closes a cycle of threads that wait for
/// each other. To be called when no thread of its target was idle. No lock may be held.
#[inline]
pub(crate) fn look_for_cycle(thread: &Arc<Thread>, target: &Process) {
    if slow_calls::limit_ms().is_some() && search::may_be_stuck(target) {
        // Without memory for the search nothing is told now; the walk may tell it later.
        let _ = tell_cycle(thread);
    }
}

#[cold]
fn tell_cycle(thread: &Arc<Thread>) -> Result {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    // A thread that makes a call has no newer record than that of the call.
    let id = state.extended_error.id;
    let Activity::Waits(call) = search::activity(state) else {
        return Ok(());
    };
    // Of two threads that close a cycle at the same time, one sees this of the other.
    if let Some(watch) = state.stack.watch(call.frame) {
        watch.tell(Told::Queued);
    }
    drop(process);
    let (graph, verdict) = search::follow(thread, call)?;
    match verdict {
        Verdict::Cycle => report::tell(&graph, verdict, Suspect::Made(id)),
        Verdict::Moves | Verdict::Stuck | Verdict::Unknown => Ok(()),
    }
}
