// SPDX-License-Identifier: GPL-2.0

//! Who keeps the notifications by which processes are told of deaths and freezing.
//!
//! [`Registrations`] are those that wait for something to happen to a node or its owner. [`DeliveredNotifications`] have been
//! told, and user space has not confirmed them yet. It confirms a cookie, which need not be unique: of
//! those that have it, the one that was told first is meant.

use crate::pure::numbers::FIRST_LONG_NUMBER;
use kernel::{
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::Arc, //
};

/// The order of notifications within a tree.
pub(crate) type RegistrationKey = (u64, u64);

/// A place among notifications, allocated before a lock is taken.
pub(crate) type Place<N> = RBTreeNodeReservation<RegistrationKey, Arc<N>>;

/// Notifications that wait for something to happen. Mostly there is one, for which no tree is needed.
pub(crate) struct Registrations<N> {
    /// A notification that is not among the others, and the place that it does not need as long as it is here.
    single: Option<(Arc<N>, Place<N>)>,
    others: RBTree<RegistrationKey, Arc<N>>,
}

impl<N> Registrations<N> {
    pub(crate) fn new() -> Self {
        Self {
            single: None,
            others: RBTree::new(),
        }
    }

    /// The place of a notification among others. No two are at one address.
    pub(crate) fn key(notification: &N) -> RegistrationKey {
        (core::ptr::from_ref(notification).addr() as u64, 0)
    }

    /// Adds a notification in the place that was allocated for it.
    pub(crate) fn insert(&mut self, notification: &Arc<N>, place: Place<N>) {
        let notification = notification.clone();
        if self.single.is_none() {
            self.single = Some((notification, place));
        } else {
            self.others
                .insert(place.into_node(Self::key(&notification), notification));
        }
    }

    /// Takes a notification out, unless somebody else already has: gives its place. The reference that goes is not
    /// the last, for the caller has one.
    pub(crate) fn remove(&mut self, notification: &Arc<N>) -> Option<Place<N>> {
        if let Some((_, place)) = self
            .single
            .take_if(|(single, _)| Arc::ptr_eq(single, notification))
        {
            return Some(place);
        }
        if self.others.is_empty() {
            return None;
        }
        let removed = self.others.remove_node(&Self::key(notification))?;
        Some(removed.into_reservation())
    }

    /// Takes any of them out.
    pub(crate) fn pop(&mut self) -> Option<Popped<N>> {
        let (notification, place) = match self.single.take() {
            Some(single) => single,
            None => {
                let first = self.others.cursor_front_mut()?;
                let notification = first.current().1.clone();
                (notification, first.remove_current().1.into_reservation())
            }
        };
        Some(Popped {
            notification,
            place,
            is_last: self.others.is_empty(),
        })
    }

    /// Takes all of them out at once: to be dropped once the lock is gone.
    pub(crate) fn take_all(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// The first one from `key` on, in the order of keys.
    pub(crate) fn first_from(&self, key: RegistrationKey) -> Option<Arc<N>> {
        let single = self.single.as_ref().map(|(single, _)| single);
        let single = single.filter(|single| Self::key(single) >= key);
        let Some(other) = self.others.cursor_lower_bound(&key) else {
            return single.cloned();
        };
        let other = other.current().1;
        let first = single.filter(|single| Self::key(single) < Self::key(other));
        Some(first.unwrap_or(other).clone())
    }
}

/// A notification that was taken out, and the place that it had.
pub(crate) struct Popped<N> {
    pub(crate) notification: Arc<N>,
    pub(crate) place: Place<N>,
    /// Whether no other was there.
    pub(crate) is_last: bool,
}

/// A delivered notification that was taken out: to be dropped once the lock is gone.
pub(crate) type RemovedFrom<N> = RBTreeNode<RegistrationKey, Arc<N>>;

/// The notifications that a process was told of and has not confirmed: by cookie, and then in the order in which they
/// were told.
pub(crate) struct DeliveredNotifications<N> {
    notifications: RBTree<RegistrationKey, Arc<N>>,
    last_number: u64,
}

impl<N> DeliveredNotifications<N> {
    pub(crate) fn new() -> Self {
        Self {
            notifications: RBTree::new(),
            last_number: FIRST_LONG_NUMBER,
        }
    }

    /// Adds a notification that is being told. Gives its number.
    pub(crate) fn insert(&mut self, notification: &Arc<N>, cookie: u64, place: Place<N>) -> u64 {
        self.last_number += 1;
        let key = (cookie, self.last_number);
        self.notifications
            .insert(place.into_node(key, notification.clone()));
        self.last_number
    }

    /// Takes out the notification of this cookie that was told first.
    pub(crate) fn take(&mut self, cookie: u64) -> Option<(Arc<N>, RemovedFrom<N>)> {
        let first = self.notifications.cursor_lower_bound(&(cookie, 0))?;
        let (&key, notification) = first.current();
        if key.0 != cookie {
            return None;
        }
        let notification = notification.clone();
        // A search costs less than what a cursor does to stay in the tree.
        Some((notification, self.notifications.remove_node(&key)?))
    }

    /// Takes out a notification that will not be confirmed any more.
    pub(crate) fn remove(&mut self, cookie: u64, number: u64) -> Option<RemovedFrom<N>> {
        self.notifications.remove_node(&(cookie, number))
    }

    /// Takes all of them out at once: to be dropped once the lock is gone.
    pub(crate) fn take_all(&mut self) -> impl Sized {
        core::mem::replace(&mut self.notifications, RBTree::new())
    }
}
