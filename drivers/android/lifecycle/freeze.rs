// SPDX-License-Identifier: GPL-2.0

//! `BINDER_FREEZE` and `BINDER_GET_FROZEN_INFO`: let a process come to rest before it is stopped.
//!
//! Both concern all devices that a pid has opened. They are frozen together or not at all (lesson
//! C19): first each stops to take calls, then one waits until what they had taken is over, and only
//! when all are at rest at the same time each is frozen. What a process is meanwhile is
//! [`crate::pure::freeze_state`].
//!
//! Whoever asks need not have to do with the process, nor be known to the driver (lesson R17).

use crate::{
    defs::{FreezeRequest, FrozenInfo},
    lifecycle::registry,
    notifications::freeze::notify_all,
    process::{Pid, Process, ProcessState},
    pure::{
        few::OneOrMany,
        freeze_state::{Attempt, FreezeProgress}, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc,
        CondVarTimeoutResult, //
    },
    time::{msecs_to_jiffies, Jiffies}, //
};

/// `BINDER_FREEZE`. `EINVAL` when the pid has opened no device; `EAGAIN` when it did not come to rest
/// in time, and is not frozen; `ERESTARTSYS` on a signal, likewise.
pub(crate) fn freeze_or_thaw(request: &FreezeRequest) -> Result {
    if !request.is_enabled {
        for process in opened_by(request.pid, Arc::clone)?.as_slice() {
            thaw(process);
        }
        return Ok(());
    }
    let mut candidates = opened_by(request.pid, FreezeTarget::new)?;
    let candidates = candidates.as_mut_slice();
    for candidate in &mut *candidates {
        candidate.attempt = begin_freeze(&candidate.process);
    }
    let rested = wait_until_idle(candidates, request.timeout_ms);
    for FreezeTarget { process, attempt } in candidates {
        let Some(attempt) = attempt.take() else {
            continue;
        };
        match rested {
            Ok(()) => complete_freeze(process, attempt),
            Err(_) => give_up_freeze(process, attempt),
        }
    }
    rested
}

/// A process that is to be frozen.
struct FreezeTarget {
    process: Arc<Process>,
    /// What has begun; nothing if the process has ended, and takes no calls anyway.
    attempt: Option<Attempt>,
}

impl FreezeTarget {
    fn new(process: &Arc<Process>) -> Self {
        Self {
            process: process.clone(),
            attempt: None,
        }
    }

    fn begun(&self) -> Option<(&Process, &Attempt)> {
        Some((&*self.process, self.attempt.as_ref()?))
    }
}

/// `BINDER_GET_FROZEN_INFO`. `EINVAL` when the pid has opened no device.
pub(crate) fn frozen_info(pid: Pid) -> Result<FrozenInfo> {
    let mut info = FrozenInfo {
        pid,
        has_rejected_sync: false,
        is_busy: false,
        has_received_oneway: false,
    };
    for process in opened_by(pid, Arc::clone)?.as_slice() {
        let state = process.lock_state();
        let (has_rejected_sync, has_received_oneway) = state.freeze.received();
        let is_busy = is_busy(&state);
        drop(state);
        info.has_rejected_sync |= has_rejected_sync;
        info.has_received_oneway |= has_received_oneway;
        info.is_busy |= is_busy;
    }
    Ok(info)
}

fn opened_by<T>(pid: Pid, of: impl Fn(&Arc<Process>) -> T) -> Result<OneOrMany<T>> {
    let opened = registry::opened_by(pid, of)?;
    if matches!(opened, OneOrMany::None) {
        return Err(EINVAL);
    }
    Ok(opened)
}

/// Waits until no process has a transaction left. What cannot be waited for, calls of its own that a
/// process waits for, must not be there then.
fn wait_until_idle(candidates: &[FreezeTarget], timeout_ms: u32) -> Result {
    let mut left = msecs_to_jiffies(timeout_ms);
    loop {
        let mut waited = false;
        for (process, attempt) in candidates.iter().filter_map(FreezeTarget::begun) {
            waited |= wait_for_process(process, attempt, &mut left)?;
        }
        // What was at rest before the last wait need not be any more.
        if !waited || left == 0 {
            break;
        }
    }
    let mut begun = candidates.iter().filter_map(FreezeTarget::begun);
    if begun.all(|(process, attempt)| is_idle_for(process, attempt)) {
        Ok(())
    } else {
        Err(EAGAIN)
    }
}

/// Whether anything is on its way to the process, or any of its threads makes or serves a call.
fn is_busy(state: &ProcessState) -> bool {
    state.freeze.outstanding() > 0
        || state
            .threads
            .values()
            .any(|thread| thread.is_calling(state))
}

/// Stops to take calls. `None` when the process has ended: it takes none anyway.
fn begin_freeze(process: &Process) -> Option<Attempt> {
    let mut state = process.lock_state();
    (!process.has_ended.load(Relaxed)).then(|| state.freeze.begin())
}

/// Waits until there is nothing outstanding, or for as many jiffies as are `left`, or until the
/// attempt is decided by others. Says whether it had to wait at all.
fn wait_for_process(process: &Process, attempt: &Attempt, left: &mut Jiffies) -> Result<bool> {
    let mut waited = false;
    let mut state = process.lock_state();
    while *left > 0 && !process.has_ended.load(Relaxed) {
        match state.freeze.progress(attempt) {
            FreezeProgress::Waiting { outstanding: 0 } | FreezeProgress::Completed => break,
            FreezeProgress::Superseded => return Err(EAGAIN),
            FreezeProgress::Waiting { .. } => {}
        }
        waited = true;
        match process
            .freezers
            .wait_interruptible_timeout(&mut state, *left)
        {
            CondVarTimeoutResult::Woken { jiffies } => *left = jiffies,
            CondVarTimeoutResult::Timeout => *left = 0,
            CondVarTimeoutResult::Signal { .. } => return Err(ERESTARTSYS),
        }
    }
    Ok(waited)
}

/// Whether the process may be frozen now, by way of `attempt`.
fn is_idle_for(process: &Process, attempt: &Attempt) -> bool {
    let state = process.lock_state();
    if process.has_ended.load(Relaxed) {
        return true;
    }
    match state.freeze.progress(attempt) {
        FreezeProgress::Waiting { .. } => !is_busy(&state),
        FreezeProgress::Completed => true,
        FreezeProgress::Superseded => false,
    }
}

fn complete_freeze(process: &Process, attempt: Attempt) {
    let (event, wake) = process.lock_state().freeze.complete(attempt);
    process.wake_freezers(wake);
    if let Some(event) = event {
        notify_all(process, event);
    }
}

fn give_up_freeze(process: &Process, attempt: Attempt) {
    let event = process.lock_state().freeze.give_up(attempt);
    if let Some(event) = event {
        notify_all(process, event);
    }
}

fn thaw(process: &Process) {
    let (event, wake) = process.lock_state().freeze.thaw();
    process.wake_freezers(wake);
    if let Some(event) = event {
        notify_all(process, event);
    }
}
