// SPDX-License-Identifier: GPL-2.0

//! Death notifications: the requests of a process to be notified when a node dies that it has a
//! handle on.
//!
//! A [`DeathNotification`] belongs to the handle that it was requested for. Other references to it
//! are:
//!
//! ```text
//!   handle ───► DeathNotification ◄─── node        until it is removed there    (owner's lock)
//!                       ▲         ◄─── work queue  while something waits        (holder's lock)
//!                       └───────────── delivered   until user space confirms it (holder's lock)
//! ```
//!
//! It has a place in one of these collections at a time, its link; see [`crate::kernel_ext::link`].
//! So it needs no other memory.
//!
//! [`DeathState`] records what is still to be notified; it is guarded by the *holder's* state lock.
//! The registration at the node is guarded by the *owner's*; the two locks are never held together.
//! So the owner may have taken a notification off its list when the holder cancels it. The second
//! of the two finds in the state machine that nothing is left to notify (lesson R01).
//!
//! A notification is requested, and cleared or cancelled, under the holder's handles lock as a
//! whole, so that each of these is one step for user space. All of this holds for
//! [freeze notifications](crate::freeze_notification), too.

use crate::{
    common::stats::{Counted, Kind},
    defs::{FreezeNotice, Return},
    kernel_ext::{
        link::{has_field, Keyed, Link},
        once::read_once,
        sched::{self, WakeHint}, //
    },
    node::Node,
    process::{Process, ProcessState},
    pure::notification_state::{DeathState, Message},
    thread::Thread,
    work::{Wake, Work}, //
};
use core::mem;
use kernel::{
    prelude::*,
    sync::{
        Arc,
        LockedBy, //
    }, //
};

/// The request of a process to be notified when a node dies.
pub(crate) struct DeathNotification {
    /// The number by which the holder identifies the request. It need not be unique.
    cookie: u64,
    /// The process that is notified.
    holder: Arc<Process>,
    /// Its place in one of the collections that notifications are in.
    link: Link,
    /// Its state, and its count among the objects that exist: absent while the notification is a
    /// spare one.
    state: LockedBy<(DeathState, Option<Counted>), ProcessState>,
}

has_field!(impl for DeathNotification, link: Link);

// With its reference count as large as the kernel's allocator has room for before the next size.
const _: () =
    assert!(size_of::<DeathNotification>() <= 56 || cfg!(not(target_pointer_width = "64")));

/// Those that are delivered are ordered by what user space confirms them with.
impl Keyed for DeathNotification {
    type Room = Link;

    fn key(&self) -> u64 {
        self.cookie
    }
}

impl DeathNotification {
    /// Allocates a notification that is not registered. `ENOMEM` is the only error.
    fn new(holder: &Arc<Process>, cookie: u64) -> Result<Arc<Self>> {
        let notification = Self {
            cookie,
            holder: holder.clone(),
            link: Link::new(),
            state: LockedBy::new(&holder.state, Self::requested()),
        };
        Ok(Arc::new(notification, GFP_KERNEL)?)
    }

    fn requested() -> (DeathState, Option<Counted>) {
        let counted = Counted::new(Kind::DeathNotification);
        (DeathState::Registered, Some(counted))
    }

    /// Returns the state. The caller holds the holder's state lock.
    pub(crate) fn state(&self, holder: &ProcessState) -> DeathState {
        self.state.access(holder).0
    }

    fn state_mut<'a>(&'a self, holder: &'a mut ProcessState) -> &'a mut DeathState {
        &mut self.state.access_mut(holder).0
    }

    /// Notifies the holder that the node has died, unless the holder has ended, or has cleared its
    /// request. The notification is not on the node's list any more. No state lock may be held;
    /// `locks` are released before anything is woken.
    fn notify(self: &Arc<Self>, locks: impl Sized) {
        let mut holder = self.holder.state.lock();
        if !read_once(&self.holder.has_ended) && self.state_mut(&mut holder).node_died() {
            let wake = holder.push_to_process(Work::Death(self.clone()));
            wake.after((holder, locks), &self.holder, WakeHint::Anywhere);
        }
    }

    /// Reads what was queued. Returns the code that user space is to read, with its payload, if
    /// user space is still to be notified; of the payload, as many bytes as the code has. Returns
    /// also the notification if nothing keeps it, to be dropped without the lock.
    pub(crate) fn read(
        self: Arc<Self>,
        holder: &mut ProcessState,
    ) -> (Option<(Return, FreezeNotice)>, Option<Arc<Self>>) {
        let notice = FreezeNotice {
            cookie: self.cookie,
            is_frozen: 0,
            reserved: 0,
        };
        match self.state_mut(holder).read() {
            Some(Message::Event) => {
                // Its link is free: it was in the queue until now.
                let inserted = holder.delivered_deaths.insert(self);
                debug_assert!(inserted.is_ok());
                (Some((Return::DeadBinder, notice)), None)
            }
            Some(Message::ClearDone) => {
                let code = Return::ClearDeathNotificationDone;
                (Some((code, notice)), self.keep(holder))
            }
            // The holder has removed the handle. User space is not notified any more.
            None => (None, Some(self)),
        }
    }

    /// Keeps a notification that is cleared for the next request of the holder. Returns it if the
    /// holder has another one for that.
    fn keep(self: Arc<Self>, holder: &mut ProcessState) -> Option<Arc<Self>> {
        if holder.spare_death.is_some() {
            return Some(self);
        }
        // If another reference exists, that is the one to drop the notification.
        if let Some(unique) = Arc::into_unique_or_drop(self) {
            unique.state.access_mut(holder).1 = None;
            fill(&mut holder.spare_death, unique);
        }
        None
    }

    /// Cancels the notification, because its handle, on `node`, is removed; user space is not
    /// notified of that (contract NODE-10). To be called under the handles lock as long as user
    /// space can request another notification.
    ///
    /// The caller has a reference, so none that is dropped here is the last.
    pub(crate) fn cancel(&self, node: &Node) {
        let mut holder = self.holder.state.lock();
        match mem::replace(self.state_mut(&mut holder), DeathState::Over) {
            DeathState::Registered => {
                drop(holder);
                drop(node.remove_death_registration(self));
            }
            // A notification that still has its handle is queued in the work queue of the process
            // only.
            DeathState::Queued { .. } => drop(holder.work.take(self)),
            DeathState::Delivered { .. } => drop(holder.delivered_deaths.take(self)),
            // In no collection, or cleared: then it has no handle.
            DeathState::Done | DeathState::Clearing | DeathState::Cleared | DeathState::Over => {}
        }
    }
}

/// Executes `BC_REQUEST_DEATH_NOTIFICATION` (contract DN-1): the process is notified when the node
/// behind `handle` dies, or at once if it is dead.
///
/// Fails with `ENOMEM`; with `EINVAL` if there is no such handle or it has a death notification
/// already.
pub(crate) fn request(process: &Arc<Process>, handle: u32, cookie: u64) -> Result {
    let spare = || {
        let mut state = process.state.lock();
        let mut spare = state.spare_death.take()?;
        spare.cookie = cookie;
        *spare.state.access_mut(&mut state) = DeathNotification::requested();
        Some(spare.into())
    };
    match request_with(process, handle, spare)? {
        true => Ok(()),
        false => request_new(process, handle, cookie),
    }
}

/// Requests a notification that is allocated. No lock may be held.
#[cold]
fn request_new(process: &Arc<Process>, handle: u32, cookie: u64) -> Result {
    let new = DeathNotification::new(process, cookie)?;
    request_with(process, handle, || Some(new)).map(|_| ())
}

/// Requests a notification that `notification` returns under the handles lock. Returns `false` if
/// it returns none.
#[inline(always)] // One caller is cold.
fn request_with(
    process: &Process,
    handle: u32,
    notification: impl FnOnce() -> Option<Arc<DeathNotification>>,
) -> Result<bool> {
    let mut handles = process.handles.lock();
    let reference = handles.table.get_mut(handle).ok_or(EINVAL)?;
    if reference.death.is_some() {
        return Err(EINVAL);
    }
    let Some(notification) = notification() else {
        return Ok(false);
    };
    fill(&mut reference.death, notification.clone());
    if let Err(of_dead) = reference.node.add_death_registration(notification) {
        of_dead.notify(handles);
    }
    Ok(true)
}

/// Executes `BC_CLEAR_DEATH_NOTIFICATION` (contract DN-3): clears the notification of `handle`, if
/// this is its cookie. `EINVAL` if it is not, or if there is no notification or no such handle.
pub(crate) fn clear(thread: &Arc<Thread>, handle: u32, cookie: u64) -> Result {
    let process = &thread.process;
    let mut handles = process.handles.lock();
    let reference = handles.table.get_mut(handle).ok_or(EINVAL)?;
    let notification = reference.death.take_if(|death| death.cookie == cookie);
    let notification = notification.ok_or(EINVAL)?;
    let registration = reference.node.remove_death_registration(&notification);
    let mut state = process.state.lock();
    let (wake, unused) = step_as_holder(notification, &mut state, thread, DeathState::clear);
    wake.after((state, handles), process, WakeHint::Anywhere);
    drop_if_any(registration);
    drop_if_any(unused);
    Ok(())
}

/// Executes `BC_DEAD_BINDER_DONE`: confirms a death of which user space has read (contract DN-2).
/// `EINVAL` if no notification with this cookie is delivered.
pub(crate) fn confirm(thread: &Arc<Thread>, cookie: u64) -> Result {
    let mut process = thread.process.state.lock();
    let notification = process.delivered_deaths.take_first(cookie).ok_or(EINVAL)?;
    let (wake, unused) = step_as_holder(notification, &mut process, thread, DeathState::confirm);
    wake.after(process, &thread.process, WakeHint::Anywhere);
    drop_if_any(unused);
    Ok(())
}

/// Takes a step of the state machine after which user space may have to read that its request is
/// cleared. The work is queued for the thread that has cleared it if that is in the pool, else for
/// the process (contract DN-4). Returns the wake for it; and the notification if it is not queued,
/// to be dropped without the lock.
#[inline]
fn step_as_holder(
    notification: Arc<DeathNotification>,
    holder: &mut ProcessState,
    thread: &Arc<Thread>,
    step: impl FnOnce(&mut DeathState) -> bool,
) -> (Wake, Option<Arc<DeathNotification>>) {
    if !step(notification.state_mut(holder)) {
        return (Wake::Nobody, Some(notification));
    }
    let work = Work::Death(notification);
    let wake = if thread.state.access_mut(holder).looper.is_in_pool() {
        let wake = holder.push_to_thread(thread, work);
        wake.of(thread)
    } else {
        holder.push_to_process(work)
    };
    (wake, None)
}

/// Fills a place that is empty: to drop what was there otherwise takes a call.
#[inline(always)]
fn fill<T>(place: &mut Option<T>, value: T) {
    debug_assert!(place.is_none());
    mem::forget(place.replace(value));
}

/// Drops a reference if there is one: to drop none otherwise takes a call.
#[inline(always)]
fn drop_if_any(reference: Option<Arc<DeathNotification>>) {
    if let Some(reference) = reference {
        drop(reference);
    }
}

/// Notifies the holders of all death notifications of a node of `owner`, which is dead, one by one
/// (lesson R01). The first is `next`, which was taken out already; its flag is true if another one
/// is left. Nothing can be registered any more. To be called with no lock held.
pub(crate) fn notify_all(
    owner: &Process,
    node: &Node,
    mut next: Option<(Arc<DeathNotification>, bool)>,
) {
    while let Some((notification, is_another_left)) = next {
        notification.notify(());
        if !is_another_left {
            return;
        }
        // The number of holders is limited only by memory.
        sched::cond_resched();
        next = node.pop_death_registration(&mut owner.state.lock());
    }
}
