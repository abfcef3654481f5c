// SPDX-License-Identifier: GPL-2.0

//! Carry the caller's nice or real-time priority to the thread that serves it, and back.
//!
//! What to change is decided in [`crate::pure::priority_rules`]; here it is asked of the scheduler and done.
//! Nothing is done when nothing differs, which costs a call a few comparisons: its priority is noted
//! when it is made, looked at when it is delivered, and again when it has been answered. Functions are
//! about the calling task, and to be called with no lock held unless they only look, where they do
//! not say otherwise.

use crate::{
    kernel_ext::sched,
    pure::priority_rules::{Limits, NodePriority, Priority}, //
};
use kernel::{
    prelude::*,
    task::Task, //
};

/// How the calling task is scheduled. Looks only.
#[inline]
pub(crate) fn current_priority() -> Priority {
    Priority::from_word(sched::current())
}

/// Becomes as urgent as serving a call of `caller` on `node` asks for. Gives what to go back to when
/// the call has been answered.
#[inline]
pub(crate) fn begin_service(caller: Priority, node: &NodePriority) -> Priority {
    let own = current_priority();
    if node.is_served_unchanged(caller, own) {
        return own;
    }
    change_as_permitted(own, node.to_serve_call(caller, own))
}

/// Makes a task that sleeps and is about to be given a call of `caller` on `node` as urgent as serving
/// that asks for, so that nothing of middling urgency keeps it from running when it is woken. Gives
/// what it was, if it was changed. What makes it less urgent is left to [`begin_service`].
#[cold]
pub(crate) fn raise_sleeper(
    sleeper: &Task,
    caller: Priority,
    node: &NodePriority,
) -> Option<Priority> {
    let own = Priority::from_word(sched::of(sleeper));
    let wanted = node.to_serve_call(caller, own)?;
    let limits = Limits::from_word(sched::limits(sleeper));
    let permitted = limits.permit(wanted, own);
    permitted
        .is_more_urgent_than(own)
        .then(|| Priority::from_word(sched::set(sleeper, permitted.word())))
}

/// Becomes as urgent as serving a oneway call on `node` asks for. There is no way back but to wait for
/// the next call.
#[inline]
pub(crate) fn begin_oneway_service(node: &NodePriority) {
    let own = current_priority();
    if !node.is_served_unchanged(own, own) {
        change_as_permitted(own, node.to_serve_oneway(own));
    }
}

/// A call has been answered, or will not be: goes back to what it was served from. What a task had
/// it gets back, whatever its limits.
#[inline]
pub(crate) fn end_service(saved: Priority) {
    let own = current_priority();
    if !saved.is_like(own) {
        restore(own, saved);
    }
}

/// Goes back to what a process is by default, before waiting for any of its calls.
#[cold]
pub(crate) fn return_to_default(default: Priority) {
    let own = current_priority();
    change_as_permitted(own, own.to_default(default));
}

#[cold]
fn restore(own: Priority, saved: Priority) {
    if let Some(wanted) = own.to_restore(saved) {
        sched::set(current!(), wanted.word());
    }
}

/// Changes the calling task as far as it may go. Gives what it was.
#[cold]
fn change_as_permitted(own: Priority, wanted: Option<Priority>) -> Priority {
    let Some(wanted) = wanted else {
        return own;
    };
    let task = current!();
    let limits = Limits::from_word(sched::limits(task));
    let permitted = limits.permit(wanted, own);
    if permitted.is_like(own) {
        return own;
    }
    Priority::from_word(sched::set(task, permitted.word()))
}
