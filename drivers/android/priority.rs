// SPDX-License-Identifier: GPL-2.0

//! Priority inheritance: gives a thread that serves a call the nice value or real-time priority of
//! the caller, and restores its own afterwards.
//!
//! [`crate::pure::priority_rules`] decides what to change. This module reads it from the scheduler
//! and changes it there. Equal priorities change nothing, which costs a call a few comparisons. The
//! priority of the caller is read when the call is made. It is compared when the call is delivered
//! and when the reply has been queued.
//!
//! Unless documented otherwise, the functions are about the calling task, and those that change
//! something must be called with no lock held.

use crate::{
    kernel_ext::sched,
    pure::priority_rules::{NodePriority, Priority}, //
};
use kernel::{
    prelude::*,
    task::Task, //
};

/// Gives the calling task the priority for serving a call of `caller` on `node`. Returns the
/// priority to restore when the call has ended.
pub(crate) fn begin_service(caller: Priority, node: &NodePriority) -> Priority {
    let own = Priority(sched::of(None));
    if node.is_served_unchanged(caller, own) {
        return own;
    }
    change_as_permitted(own, node.to_serve_call(caller, own), true)
}

/// Raises a sleeping task, for which a call on `node` is about to be queued, to the priority for
/// serving that call. So no task of a priority in between keeps it from running when it is woken.
/// If `caller` is `None`, the call is oneway. Returns the former priority if that was changed. A
/// change to a less urgent priority is left to [`begin_service`].
#[cold]
pub(crate) fn raise_sleeper(
    sleeper: &Task,
    caller: Option<Priority>,
    node: &NodePriority,
) -> Option<Priority> {
    let own = Priority(sched::of(Some(sleeper)));
    let wanted = match caller {
        Some(caller) => node.to_serve_call(caller, own)?,
        None => node.to_serve_oneway(own)?,
    };
    let permitted = wanted.within(sched::limits(sleeper), own);
    permitted
        .is_more_urgent_than(own)
        .then(|| Priority(sched::set(sleeper, permitted.0)))
}

/// Gives the calling task the priority for serving a oneway call on `node`. It keeps that priority
/// until it waits for the next call, see [`return_to_default`]. `raised_from` is what the task was
/// before the sender of the call [raised](raise_sleeper) it, if so. Returns whether the flag that
/// comes with real-time priorities is lent to the task.
pub(crate) fn begin_oneway_service(node: &NodePriority, raised_from: Option<Priority>) -> bool {
    let own = Priority(sched::of(None));
    (!node.is_served_unchanged(own, own) || raised_from.is_some())
        && change_for_oneway(own, node.to_serve_oneway(own), raised_from)
}

/// Restores the priority that the calling task had before a call, when the call has been replied to
/// or has failed. The task's limits do not apply, because it had this priority before.
#[inline]
pub(crate) fn end_service(saved: Priority) {
    if saved != Priority(sched::of(None)) {
        end_service_of(current!(), saved);
    }
}

/// The same for any task, which may be running.
#[cold]
pub(crate) fn end_service_of(task: &Task, saved: Priority) {
    if let Some(wanted) = Priority(sched::of(Some(task))).to_restore(saved) {
        sched::set(task, wanted.0);
    }
}

/// Gives the calling task the default priority of its process, before it waits for any work of the
/// process. The task keeps the flag that its children inherit nothing, unless the flag is lent.
#[cold]
pub(crate) fn return_to_default(default: Priority, flag_is_lent: bool) {
    let own = Priority(sched::of(None));
    change_as_permitted(own, own.to_default(default), !flag_is_lent);
}

/// Changes the calling task from `own` to `wanted`, if that is not `None`, for a oneway call.
/// Returns whether it has the flag now, and had it not before that, and before it was raised.
#[cold]
fn change_for_oneway(
    own: Priority,
    wanted: Option<Priority>,
    raised_from: Option<Priority>,
) -> bool {
    let had_flag = match raised_from {
        Some(before) => before.resets_on_fork(),
        None => sched::resets_on_fork(current!()),
    };
    change_as_permitted(own, wanted, true);
    !had_flag && sched::resets_on_fork(current!())
}

/// Changes the calling task to `wanted`, if there is such a priority, as far as its limits permit.
/// `keeps_flag` is whether a task that has `SCHED_RESET_ON_FORK` keeps it. Returns its former
/// priority.
#[cold]
fn change_as_permitted(own: Priority, wanted: Option<Priority>, keeps_flag: bool) -> Priority {
    let Some(wanted) = wanted else {
        return own;
    };
    let task = current!();
    let permitted = wanted.within(sched::limits(task), own);
    if permitted.is_like(own) {
        return own;
    }
    let resets = keeps_flag && sched::resets_on_fork(task);
    let change = permitted.resetting_on_fork_if(resets);
    Priority(sched::set(task, change.0))
}
