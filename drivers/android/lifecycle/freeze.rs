// SPDX-License-Identifier: GPL-2.0

//! `BINDER_FREEZE` and `BINDER_GET_FROZEN_INFO`: lets the calls of a task end before user space
//! stops it.
//!
//! Both concern all processes of a pid, one for each device that it has opened. These are frozen
//! together or not at all (lesson C19):
//!
//! 1. each process stops taking calls that wait for a reply;
//! 2. the calling task waits until the transactions that are outstanding for the processes have
//!    ended;
//! 3. only if each process was found idle, all of them are frozen.
//!
//! The states of a process during these steps are those of [`crate::pure::freeze_state`]. Several
//! tasks may freeze and thaw the same pid: all its processes see their requests in one order,
//! because a request changes them under [`static@CHANGING`]. It waits, and notifies others, without
//! that lock.
//!
//! The calling task need not have a thread record in the driver (lesson R17). [`targets_of`]
//! describes the processes that it may name (lesson T01).

use crate::{
    defs::{FreezeRequest, FrozenInfo},
    freeze_notification::notify_all,
    kernel_ext::{
        once::read_once,
        pid::{self, initial_number},
    },
    lifecycle::processes::opened_by,
    process::{Pid, Process, ProcessState},
    pure::{
        freeze_state::{Attempt, FreezeEvent, FreezeProgress},
        one_or_many::OneOrMany, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        CondVarTimeoutResult, //
    },
    time::msecs_to_jiffies, //
};

kernel::sync::global_lock! {
    /// Held while a request changes the processes of a pid.
    // SAFETY: `ffi::Devices::make` initialises the lock before a device exists that can be opened.
    pub(crate) unsafe(uninit) static CHANGING: Mutex<()> = ();
}

/// Runs `BINDER_FREEZE` on the device that `caller` has open. Sleeps; no lock may be held.
///
/// Fails as [`targets_of`] does, with `EAGAIN` when the processes are not idle in time, and with
/// `ERESTARTSYS` on a signal. Then none of them is frozen.
pub(crate) fn freeze_or_thaw(caller: &Process, request: FreezeRequest) -> Result {
    let mut targets = targets_of(caller, request.pid)?;
    let targets = targets.as_mut_slice();
    let result = if request.enable != 0 {
        freeze(targets, request.timeout_ms)
    } else {
        thaw(targets);
        Ok(())
    };
    for FreezeTarget { process, event, .. } in targets {
        if let Some(event) = event.take() {
            notify_all(process, event);
        }
    }
    result
}

/// Freezes all processes or none of them.
fn freeze(targets: &mut [FreezeTarget], timeout_ms: u32) -> Result {
    let changing = CHANGING.lock();
    for target in &mut *targets {
        let mut state = target.process.state.lock();
        // From now on the process takes no calls that wait for a reply. One that has ended takes no
        // calls at all.
        if !read_once(&target.process.has_ended) {
            target.attempt = Some(state.freeze.begin());
        }
    }
    drop(changing);
    let waited = wait_for_transactions(targets, timeout_ms);
    let changing = CHANGING.lock();
    let became_idle = waited.and_then(|()| expect_idle(targets));
    for target in targets {
        let Some(attempt) = target.attempt.take() else {
            continue;
        };
        target.event = match became_idle {
            Ok(()) => {
                let mut state = target.process.state.lock();
                let (event, wake) = state.freeze.complete(attempt);
                target.process.unlock_and_wake_freezers(state, wake);
                event
            }
            Err(_) => target.process.state.lock().freeze.give_up(attempt),
        };
    }
    drop(changing);
    became_idle
}

/// Thaws all processes.
fn thaw(targets: &mut [FreezeTarget]) {
    let changing = CHANGING.lock();
    for FreezeTarget { process, event, .. } in targets {
        let mut state = process.state.lock();
        // A process that has ended is not frozen, and no notification about it follows that of its
        // death.
        if read_once(&process.has_ended) {
            continue;
        }
        let (change, wake) = state.freeze.thaw();
        *event = change;
        process.unlock_and_wake_freezers(state, wake);
    }
    drop(changing);
}

/// A process that is to be frozen or thawed.
struct FreezeTarget {
    process: Arc<Process>,
    /// The attempt that has begun. `None` if the process has ended, and therefore takes no calls.
    attempt: Option<Attempt>,
    /// The change of which the holders of freeze notifications are to be notified.
    event: Option<FreezeEvent>,
}

impl FreezeTarget {
    /// Returns the process and its attempt, if one has begun.
    fn begun(&self) -> Option<(&Process, &Attempt)> {
        Some((&*self.process, self.attempt.as_ref()?))
    }
}

/// Runs `BINDER_GET_FROZEN_INFO` on the device that `caller` has open. Fails as [`targets_of`]
/// does.
pub(crate) fn frozen_info(caller: &Process, pid: u32) -> Result<FrozenInfo> {
    let mut info = FrozenInfo {
        pid,
        sync_recv: 0,
        async_recv: 0,
    };
    for FreezeTarget { process, .. } in targets_of(caller, pid)?.as_slice() {
        let state = process.state.lock();
        info.sync_recv |= u32::from(state.freeze.has_rejected_sync);
        info.sync_recv |= u32::from(is_busy(&state)) << 1;
        info.async_recv |= u32::from(state.freeze.has_received_oneway);
    }
    Ok(info)
}

/// Returns the processes that the calling task names by `pid`, a number in its own pid namespace.
/// `caller` has a device open that [reaches](crate::context::Context::reaches) their devices.
///
/// Fails with `EINVAL` when there is none, with `EPERM` when the calling task may not signal the
/// thread group of that number, and with `ENOMEM`.
fn targets_of(caller: &Process, pid: u32) -> Result<OneOrMany<FreezeTarget>> {
    // CAST: a number that is negative is nobody's.
    let pid = pid as Pid;
    let mut targets = OneOrMany::None;
    for process in opened_by(initial_number(pid)) {
        // An opener that has ended while others keep its file had a number that is now nobody's, or
        // that of another thread group.
        let is_named = pid::number_for_current(&process.group) == pid;
        if is_named && caller.context.reaches(&process.context) {
            targets.push(FreezeTarget {
                process,
                attempt: None,
                event: None,
            })?;
        }
    }
    // All are of one thread group: the one that has the number now. A process whose device was
    // closed a moment ago has no group any more.
    let opened = targets.as_slice().iter();
    let mut checks = opened.map(|target| target.process.group.may_signal());
    let checked = checks.find(|checked| *checked != Err(ESRCH));
    checked.unwrap_or(Err(EINVAL)).map(|()| targets)
}

/// Waits until no process has outstanding transactions or another task has completed its attempt,
/// for at most `timeout_ms`. Calls that the processes make themselves are not waited for.
///
/// Fails with `EAGAIN` when an attempt is superseded, and with `ERESTARTSYS` on a signal. No lock
/// may be held.
fn wait_for_transactions(targets: &[FreezeTarget], timeout_ms: u32) -> Result {
    let mut left = msecs_to_jiffies(timeout_ms);
    loop {
        let mut waited = false;
        for (process, attempt) in targets.iter().filter_map(FreezeTarget::begun) {
            let mut state = process.state.lock();
            while left > 0 && !read_once(&process.has_ended) {
                match state.freeze.progress(attempt) {
                    FreezeProgress::Waiting { outstanding: 0 } | FreezeProgress::Completed => break,
                    FreezeProgress::Superseded => return Err(EAGAIN),
                    FreezeProgress::Waiting { .. } => {}
                }
                waited = true;
                match process.waiters.wait_interruptible_timeout(&mut state, left) {
                    CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                    CondVarTimeoutResult::Timeout => left = 0,
                    CondVarTimeoutResult::Signal { .. } => return Err(ERESTARTSYS),
                }
            }
        }
        // A process that was idle before the last wait may not be idle any more.
        if !waited || left == 0 {
            return Ok(());
        }
    }
}

/// Fails with `EAGAIN` when a process has transactions left or makes calls itself, or an attempt is
/// superseded. Takes the state locks.
fn expect_idle(targets: &[FreezeTarget]) -> Result {
    let mut begun = targets.iter().filter_map(FreezeTarget::begun);
    let are_idle = begun.all(|(process, attempt)| {
        let state = process.state.lock();
        let may_freeze = match state.freeze.progress(attempt) {
            FreezeProgress::Waiting { .. } => !is_busy(&state),
            FreezeProgress::Completed => true,
            FreezeProgress::Superseded => false,
        };
        may_freeze || read_once(&process.has_ended)
    });
    are_idle.then_some(()).ok_or(EAGAIN)
}

/// Returns whether transactions are outstanding for the process, or any of its threads makes or
/// serves a call.
fn is_busy(state: &ProcessState) -> bool {
    state.freeze.outstanding > 0
        || state
            .threads
            .values()
            .any(|thread| thread.is_calling(state))
}
