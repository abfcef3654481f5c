// SPDX-License-Identifier: GPL-2.0

//! The walk over all threads that finds slow calls. The work in `common/slow_calls.c` runs it again
//! and again while the parameter `slow_call_ms` is not 0.
//!
//! It takes a number of steps that grows with the number of threads, and a bounded number of them
//! under one lock. The longer a walk has taken, the later the next one begins, so that walks never
//! take more than a small part of the time of one CPU.

use crate::{
    common::slow_calls,
    kernel_ext::{sched, ticks::Ticks},
    lifecycle::registry::{self, OpenedUntil},
    process::{Pid, Process},
    pure::wait_graph::{Activity, Call},
    thread::Thread,
    waits::{
        report::{self, Suspect},
        search, //
    }, //
};
use kernel::{prelude::*, sync::Arc};

/// How many threads are looked at before the lock is released.
const SLICE: usize = 32;

/// How many calls one walk tells at most. The next walk goes on with the others.
const MOST_TOLD: usize = 32;

/// How many pauses between walks a call has to wait for until it is slow.
const PAUSES: u8 = 4;

/// The shortest pause.
const SHORTEST_PAUSE_MS: u64 = 10;

/// How much longer the pause after a walk is than the walk.
const PAUSE_TO_WALK: u64 = 50;

/// Looks at all threads once, and tells the calls that are slow. `round` is another number after
/// the parameter was changed. Returns the milliseconds after which that is to be done again; 0 if
/// it is not.
///
/// In process context; no lock may be held.
pub(crate) fn walk(round: u8) -> u64 {
    let Some(limit_ms) = slow_calls::limit_ms() else {
        return 0;
    };
    let begun = Ticks::now();
    // Without memory, nothing is told this time.
    let _ = walk_all(limit_ms, round);
    let pause = u64::from(limit_ms.div_ceil(PAUSES.into())).max(SHORTEST_PAUSE_MS);
    pause.max(begun.elapsed_milliseconds() * PAUSE_TO_WALK)
}

fn walk_all(limit_ms: u32, round: u8) -> Result {
    let mut slow = KVec::with_capacity(SLICE, GFP_KERNEL)?;
    let mut left = MOST_TOLD;
    let opened = OpenedUntil::now();
    let mut from = registry::FIRST_KEY;
    while let Some(process) = opened.first_from(from) {
        from = registry::key_behind(&process);
        let mut next = Some(Pid::MIN);
        while let Some(thread) = next {
            next = look(&process, thread, round, &mut slow);
            while let Some((thread, call)) = slow.pop() {
                tell(&thread, call, limit_ms)?;
                left -= 1;
                if left == 0 {
                    return Ok(());
                }
            }
            sched::cond_resched();
        }
        if slow_calls::limit_ms().is_none() {
            break;
        }
    }
    Ok(())
}

/// Looks at the threads of a process from a number on, until a slice is full. Adds those that have
/// waited for too long to `slow`, which is empty and has room for them. Returns the number behind
/// the slice, if there may be more threads.
fn look(
    process: &Process,
    mut from: Pid,
    round: u8,
    slow: &mut KVec<(Arc<Thread>, Call)>,
) -> Option<Pid> {
    let mut process = process.lock_state();
    for _ in 0..SLICE {
        // Under the lock no reference that is dropped here is the last: the tree has another.
        let thread = process.threads.first_from(&from)?;
        from = thread.id + 1;
        let state = thread.state(&mut process);
        let Activity::Waits(call) = search::activity(state) else {
            continue;
        };
        let watch = state.stack.watch(call.frame);
        if watch.and_then(|watch| watch.see(round)) >= Some(PAUSES) {
            let _ = slow.push_within_capacity((thread, call));
        }
    }
    Some(from)
}

fn tell(thread: &Arc<Thread>, call: Call, limit_ms: u32) -> Result {
    let (graph, verdict) = search::follow(thread, call)?;
    report::tell(&graph, verdict, Suspect::Waited(limit_ms.into()))
}
