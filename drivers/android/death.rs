// SPDX-License-Identifier: GPL-2.0

//! The promise to tell a process when a node dies that it has a handle on.
//!
//! A [`DeathNotification`] belongs to the handle that it was asked for. Two others know it:
//!
//! ```text
//!   handle ───► DeathLink ◄─── node          until the node dies     (owner's state lock)
//!                   ▲    ◄─── queue          while something waits   (holder's state lock)
//!                   └──────── Unconfirmed    until user space says DONE       (the same)
//! ```
//!
//! What it will still say is [`crate::pure::death_state`], guarded by the *holder's* state lock. Being in the
//! node's list is guarded by the *owner's*; the two are never held together. So the owner's end may
//! have taken a link off the list when the holder gives it up: whoever comes second finds in the
//! state that there is nothing left to say (lesson R01).
//!
//! Beginning and end of a link happen under the holder's handles lock as a whole, so that for user
//! space they are one step.

use crate::{
    common::stats::{Counted, Kind},
    defs::Return,
    kernel_ext::park::WakeHint,
    node::Node,
    process::{Process, ProcessState},
    pure::{
        death_state::{DeathReturn, DeathState},
        links::{CancelledNotification, Place, Popped}, //
    },
    thread::Thread,
    work::{Dequeued, Urgency, Wake, Work, WorkPosition, WorkTicket}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc,
        LockedBy, //
    }, //
};

/// The request of a process to be told of a node's death.
pub(crate) struct DeathNotification {
    /// What the holder calls the request. Need not be unique.
    cookie: u64,
    /// The process that is to be told.
    holder: Arc<Process>,
    /// Where what is to be told waits, when it does.
    position: WorkPosition,
    state: LockedBy<NotificationState, ProcessState>,
    _counted: Counted,
}

/// What changes in the life of a link, guarded by the holder's state lock.
struct NotificationState {
    death: DeathState<WorkTicket>,
    /// A place among the unconfirmed, once the link is not in the node's list any more.
    place: Option<Place<DeathNotification>>,
    /// Its number there, once it was told.
    number: u64,
}

impl DeathNotification {
    /// Makes a link that nobody knows. Fails for want of memory only.
    fn new(holder: &Arc<Process>, cookie: u64) -> Result<Arc<Self>> {
        let ticket = WorkTicket::new(GFP_KERNEL)?;
        let position = ticket.position();
        let state = NotificationState {
            death: DeathState::Registered(ticket),
            place: None,
            number: 0,
        };
        let notification = Self {
            cookie,
            holder: holder.clone(),
            position,
            state: LockedBy::new(holder.state_lock(), state),
            _counted: Counted::new(Kind::DeathNotification),
        };
        Ok(Arc::new(notification, GFP_KERNEL)?)
    }

    /// The node has died, and the link is not in its list. Lets the holder read of it, unless the
    /// holder has given the link up meanwhile.
    fn node_died(self: &Arc<Self>, place: Place<Self>) -> Wake {
        let mut holder = self.holder.lock_state();
        if self.holder.has_ended.load(Relaxed) {
            drop(holder);
            return Wake::Nobody;
        }
        let state = self.state.access_mut(&mut holder);
        state.place = Some(place);
        match state.step(DeathState::node_died) {
            Some(ticket) => holder.push_to_process(ticket, Work::Death(self.clone())),
            None => Wake::Nobody,
        }
    }

    /// The holder withdraws his request. The link belongs to no handle any more.
    fn clear(self: &Arc<Self>, thread: &Arc<Thread>) -> Wake {
        let mut holder = self.holder.lock_state();
        match self.state.access_mut(&mut holder).step(DeathState::clear) {
            Some(ticket) => self.queue_clear_done(&mut holder, thread, ticket),
            None => Wake::Nobody,
        }
    }

    /// Lets user space read that its request is withdrawn: the thread that has asked for it if it is
    /// in the pool, else whichever comes (contract DN-4).
    fn queue_clear_done(
        self: &Arc<Self>,
        holder: &mut ProcessState,
        thread: &Arc<Thread>,
        ticket: WorkTicket,
    ) -> Wake {
        let work = Work::Death(self.clone());
        if thread.state(holder).looper.is_in_pool() {
            let wake = holder.push_to_thread(thread, ticket, work, Urgency::Now);
            wake.of(thread)
        } else {
            holder.push_to_process(ticket, work)
        }
    }

    /// What was queued comes to be read: what to tell user space, if it is still to be told.
    pub(crate) fn read(
        self: &Arc<Self>,
        ticket: WorkTicket,
        holder: &mut ProcessState,
    ) -> Option<DeathReturn> {
        let state = self.state.access_mut(holder);
        let death = core::mem::replace(&mut state.death, DeathState::Over);
        let (next, notice) = death.read(ticket);
        state.set(next);
        if notice == Some(DeathReturn::Dead) {
            // Present: it came with the news of the death.
            let place = state.place.take()?;
            let number = holder.delivered_deaths.insert(self, self.cookie, place);
            self.state.access_mut(holder).number = number;
        }
        notice
    }

    /// The handle is gone that the link belonged to; nobody hears of it (contract NODE-10). To be
    /// called under the handles lock, as long as user space can ask for another one.
    pub(crate) fn cancel(self: Arc<Self>, node: &Node) -> CancelledNotification<Self, Dequeued> {
        let mut holder = self.holder.lock_state();
        let state = self.state.access_mut(&mut holder);
        let (is_waiting, is_delivered) = (state.death.is_waiting(), state.death.is_delivered());
        state.step(|death| (death.cancel(), None));
        let (place, number) = (state.place.take(), state.number);
        let delivered = if is_delivered {
            holder.delivered_deaths.remove(self.cookie, number)
        } else {
            None
        };
        // What is queued for a link that still has its handle waits for whichever thread comes first.
        let queued = holder.work.take(&self.position);
        drop(holder);
        // A link that has heard of the death is not in the node's list any more.
        let registration = if is_waiting {
            node.remove_death_registration(&self)
        } else {
            None
        };
        CancelledNotification {
            _waiting: registration,
            _delivered: delivered,
            _place: place,
            _queued: queued,
            _notification: self,
        }
    }

    /// How a notice is said, and with which payload.
    pub(crate) fn encode(&self, notice: DeathReturn) -> (Return, [u8; 8]) {
        let code = match notice {
            DeathReturn::Dead => Return::DeadBinder,
            DeathReturn::ClearDone => Return::ClearDeathNotificationDone,
        };
        (code, self.cookie.to_ne_bytes())
    }
}

impl NotificationState {
    /// Takes a step of the state machine; gives the place in which something is to be queued.
    fn step(
        &mut self,
        step: impl FnOnce(DeathState<WorkTicket>) -> (DeathState<WorkTicket>, Option<WorkTicket>),
    ) -> Option<WorkTicket> {
        let (next, ticket) = step(core::mem::replace(&mut self.death, DeathState::Over));
        self.set(next);
        ticket
    }

    /// Ends a step. The state that is replaced is that of a link whose state is elsewhere, which has nothing to be
    /// dropped; the compiler does not know that.
    fn set(&mut self, death: DeathState<WorkTicket>) {
        core::mem::forget(core::mem::replace(&mut self.death, death));
    }
}

impl Process {
    /// `BC_REQUEST_DEATH_NOTIFICATION` (contract DN-1): the process wants to be told when the node
    /// behind `handle` dies, or right now if it is dead.
    ///
    /// Fails with `ENOMEM`; with `EINVAL` if there is no such handle or it has a link already.
    pub(crate) fn request_death_notification(self: &Arc<Self>, handle: u32, cookie: u64) -> Result {
        let notification = DeathNotification::new(self, cookie)?;
        let mut place = None;
        loop {
            let mut handles = self.handles.lock();
            if place.is_none() {
                place = handles.spare_place.take();
            }
            let reference = handles.get_mut(handle).ok_or(EINVAL)?;
            if reference.death.is_some() {
                return Err(EINVAL);
            }
            let Some(place_at_hand) = place.take() else {
                drop(handles);
                place = Some(Place::new(GFP_KERNEL)?);
                continue;
            };
            reference.death = Some(notification.clone());
            let wake = match reference
                .node
                .add_death_registration(&notification, place_at_hand)
            {
                Ok(()) => Wake::Nobody,
                Err(place) => notification.node_died(place),
            };
            drop(handles);
            wake.now(self, WakeHint::Anywhere);
            return Ok(());
        }
    }
}

impl Thread {
    /// `BC_CLEAR_DEATH_NOTIFICATION` (contract DN-3): ends the link of `handle`, if this is its
    /// cookie. `EINVAL` if it is not, or there is no link or no such handle.
    pub(crate) fn clear_death_notification(self: &Arc<Self>, handle: u32, cookie: u64) -> Result {
        let mut handles = self.process.handles.lock();
        let reference = handles.get_mut(handle).ok_or(EINVAL)?;
        let notification = reference
            .death
            .take_if(|notification| notification.cookie == cookie);
        let notification = notification.ok_or(EINVAL)?;
        let mut registration = reference.node.remove_death_registration(&notification);
        if handles.spare_place.is_none() {
            handles.spare_place = registration.take();
        }
        let wake = notification.clear(self);
        drop(handles);
        wake.now(&self.process, WakeHint::Anywhere);
        drop((registration, notification));
        Ok(())
    }

    /// `BC_DEAD_BINDER_DONE`: user space has heard of a death (contract DN-2). `EINVAL` if it has not
    /// been told of one with this cookie.
    pub(crate) fn confirm_death(self: &Arc<Self>, cookie: u64) -> Result {
        let mut process = self.process.lock_state();
        let (notification, removed) = process.delivered_deaths.take(cookie).ok_or(EINVAL)?;
        let state = notification.state.access_mut(&mut process);
        let wake = match state.step(DeathState::confirm) {
            Some(ticket) => notification.queue_clear_done(&mut process, self, ticket),
            None => Wake::Nobody,
        };
        drop(process);
        wake.now(&self.process, WakeHint::Anywhere);
        drop((removed, notification));
        Ok(())
    }
}

impl Node {
    /// The owner is dead, and no link can be added any more: tells all who asked to be told, one by
    /// one (lesson R01), beginning with the one that was taken out. To be called with no lock held.
    pub(crate) fn notify_death(&self, first: Option<Popped<DeathNotification>>) {
        let mut next = first;
        while let Some(Popped {
            notification,
            place,
            is_last,
        }) = next
        {
            let wake = notification.node_died(place);
            wake.now(&notification.holder, WakeHint::Anywhere);
            next = if is_last {
                None
            } else {
                self.pop_death_registration()
            };
        }
    }
}
