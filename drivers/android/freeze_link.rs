// SPDX-License-Identifier: GPL-2.0

//! The request of a process to be told when the owner of a node is frozen or thawed.
//!
//! A [`FreezeNotification`] belongs to the handle that it was asked for, as a death link does, and two others
//! know it:
//!
//! ```text
//!   handle ───► FreezeLink ◄─── owner of the node      until he ends      (owner's state lock)
//!                   ▲     ◄─── queue                 while something waits (holder's state lock)
//!                   └───────── Unconfirmed          until user space says DONE     (the same)
//! ```
//!
//! What it will still say is [`crate::pure::freeze_notice`], guarded by the *holder's* state lock; being in the
//! owner's list is guarded by the *owner's*. The two are never held together. An owner looks for one
//! link after the other, and tells it without a lock: links that leave meanwhile find in their state
//! that there is nothing to say, links that come have been told by themselves (lessons R01, R09, C09).

use crate::{
    common::stats::{Counted, Kind},
    defs::Return,
    kernel_ext::park::WakeHint,
    process::{Process, ProcessState},
    pure::{
        freeze_notice::{FreezeNotificationState, FreezeReturn},
        freeze_state::FreezeEvent,
        links::{CancelledNotification, Place, RegistrationKey, Registrations}, //
    },
    work::{Dequeued, Wake, Work, WorkPosition, WorkTicket}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc,
        LockedBy, //
    }, //
};

/// The request of a process to be told of another's freezing.
pub(crate) struct FreezeNotification {
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
    notices: FreezeNotificationState<WorkTicket>,
    /// A place among the unconfirmed, while the link is not there.
    place: Option<Place<FreezeNotification>>,
    /// Its number there, once it was told.
    number: u64,
}

impl FreezeNotification {
    /// Makes a link that nobody knows, with its place in the owner's list. Fails for want of memory
    /// only.
    fn new(holder: &Arc<Process>, cookie: u64) -> Result<(Arc<Self>, Place<Self>)> {
        let ticket = WorkTicket::new(GFP_KERNEL)?;
        let position = ticket.position();
        let state = NotificationState {
            notices: FreezeNotificationState::new(ticket),
            place: Some(Place::new(GFP_KERNEL)?),
            number: 0,
        };
        let notification = Arc::new(
            Self {
                cookie,
                holder: holder.clone(),
                position,
                state: LockedBy::new(holder.state_lock(), state),
                _counted: Counted::new(Kind::FreezeNotification),
            },
            GFP_KERNEL,
        )?;
        Ok((notification, Place::new(GFP_KERNEL)?))
    }

    /// The owner says that he is frozen or not. Lets the holder read of it, unless he knows better
    /// or does not want to hear any more.
    fn notify(self: &Arc<Self>, event: FreezeEvent) -> Wake {
        let mut holder = self.holder.lock_state();
        if self.holder.has_ended.load(Relaxed) {
            return Wake::Nobody;
        }
        let state = self.state.access_mut(&mut holder);
        match state.notices.notify(event) {
            Some(ticket) => holder.push_to_process(ticket, Work::Freeze(self.clone())),
            None => Wake::Nobody,
        }
    }

    /// The holder withdraws his request. The link belongs to no handle any more.
    fn clear(self: &Arc<Self>) -> Wake {
        let mut holder = self.holder.lock_state();
        match self.state.access_mut(&mut holder).notices.clear() {
            Some(ticket) => holder.push_to_process(ticket, Work::Freeze(self.clone())),
            None => Wake::Nobody,
        }
    }

    /// What was queued comes to be read: what to tell user space, if it is still to be told.
    pub(crate) fn read(
        self: &Arc<Self>,
        ticket: WorkTicket,
        holder: &mut ProcessState,
    ) -> Option<FreezeReturn> {
        let state = self.state.access_mut(holder);
        let notice = state.notices.read(ticket);
        if let Some(FreezeReturn::Frozen(_)) = notice {
            // Present: it is given back with each confirmation.
            let place = state.place.take()?;
            let delivered = &mut holder.delivered_freezes;
            let number = delivered.insert(self, self.cookie, place);
            self.state.access_mut(holder).number = number;
        }
        notice
    }

    /// The handle is gone that the link belonged to; nobody hears of it (contract NODE-10). To be
    /// called under the handles lock, as long as user space can ask for another one.
    pub(crate) fn cancel(
        self: Arc<Self>,
        owner: &Process,
    ) -> CancelledNotification<Self, Dequeued> {
        let registration = owner.remove_freeze_registration(&self);
        let mut holder = self.holder.lock_state();
        let state = self.state.access_mut(&mut holder);
        state.notices.cancel();
        let number = state.number;
        let delivered = holder.delivered_freezes.remove(self.cookie, number);
        let queued = holder.work.take(&self.position);
        drop(holder);
        CancelledNotification {
            _waiting: registration,
            _delivered: delivered,
            _place: None,
            _queued: queued,
            _notification: self,
        }
    }

    /// How a notice is said, and with which payload.
    pub(crate) fn encode(&self, notice: FreezeReturn) -> (Return, [u8; 16], usize) {
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&self.cookie.to_ne_bytes());
        let code = match notice {
            FreezeReturn::Frozen(is_frozen) => {
                payload[8..12].copy_from_slice(&u32::from(is_frozen).to_ne_bytes());
                Return::FrozenBinder
            }
            FreezeReturn::ClearDone => Return::ClearFreezeNotificationDone,
        };
        (code, payload, code.payload_size())
    }
}

impl Process {
    /// `BC_REQUEST_FREEZE_NOTIFICATION` (contract FRZN-1): the process wants to be told of the freezing
    /// of whoever owns the node behind `handle`, starting with how that is now.
    ///
    /// Fails with `ENOMEM`; with `EINVAL` if there is no such handle or it has a link already.
    pub(crate) fn request_freeze_notification(
        self: &Arc<Self>,
        handle: u32,
        cookie: u64,
    ) -> Result {
        let (notification, place) = FreezeNotification::new(self, cookie)?;
        let mut place = Some(place);
        let mut handles = self.handles.lock();
        let reference = handles.get_mut(handle).ok_or(EINVAL)?;
        if reference.freeze.is_some() {
            return Err(EINVAL);
        }
        reference.freeze = Some(notification.clone());
        let wake = match reference
            .node
            .owner
            .add_freeze_registration(&notification, &mut place)
        {
            Some(event) => notification.notify(event),
            // The owner is dead and will not be frozen any more.
            None => Wake::Nobody,
        };
        drop(handles);
        wake.now(self, WakeHint::Anywhere);
        Ok(())
    }

    /// `BC_CLEAR_FREEZE_NOTIFICATION` (contract FRZN-4): ends the link of `handle`, if this is its
    /// cookie. `EINVAL` if it is not, or there is no link or no such handle.
    pub(crate) fn clear_freeze_notification(&self, handle: u32, cookie: u64) -> Result {
        let mut handles = self.handles.lock();
        let reference = handles.get_mut(handle).ok_or(EINVAL)?;
        let notification = reference
            .freeze
            .take_if(|notification| notification.cookie == cookie);
        let notification = notification.ok_or(EINVAL)?;
        let registration = reference
            .node
            .owner
            .remove_freeze_registration(&notification);
        let wake = notification.clear();
        drop(handles);
        wake.now(self, WakeHint::Anywhere);
        drop((registration, notification));
        Ok(())
    }

    /// `BC_FREEZE_NOTIFICATION_DONE`: user space has heard what it was told (contract FRZN-3). `EINVAL`
    /// if it has not been told anything with this cookie.
    pub(crate) fn confirm_freeze(&self, cookie: u64) -> Result {
        let mut process = self.lock_state();
        let (notification, removed) = process.delivered_freezes.take(cookie).ok_or(EINVAL)?;
        let state = notification.state.access_mut(&mut process);
        state.place = Some(removed.into_reservation());
        let wake = match state.notices.confirm() {
            Some(ticket) => process.push_to_process(ticket, Work::Freeze(notification.clone())),
            None => Wake::Nobody,
        };
        drop(process);
        wake.now(self, WakeHint::Anywhere);
        Ok(())
    }

    /// Somebody wants to be told of the freezing of this process. Gives what is to be told now;
    /// nothing, and `place` stays where it is, if the process has ended.
    fn add_freeze_registration(
        &self,
        notification: &Arc<FreezeNotification>,
        place: &mut Option<Place<FreezeNotification>>,
    ) -> Option<FreezeEvent> {
        let mut state = self.lock_state();
        if self.has_ended.load(Relaxed) {
            return None;
        }
        state
            .freeze_registrations
            .insert(notification, place.take()?);
        Some(state.freeze.last_event())
    }

    /// Takes a link out of the list, unless that has been done.
    fn remove_freeze_registration(
        &self,
        notification: &Arc<FreezeNotification>,
    ) -> Option<Place<FreezeNotification>> {
        self.lock_state().freeze_registrations.remove(notification)
    }

    /// Tells all who asked to be told, one by one (lesson R01). To be called with no lock held.
    pub(crate) fn notify_freeze(&self, event: FreezeEvent) {
        let mut from = (0, 0);
        while let Some(notification) = self.freeze_registration_from(from) {
            let wake = notification.notify(event);
            wake.now(&notification.holder, WakeHint::Anywhere);
            from = (Registrations::key(&*notification).0, 1);
        }
    }

    fn freeze_registration_from(&self, key: RegistrationKey) -> Option<Arc<FreezeNotification>> {
        self.lock_state().freeze_registrations.first_from(key)
    }
}
