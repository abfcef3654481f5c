// SPDX-License-Identifier: GPL-2.0

//! Who keeps the links by which processes are told of deaths and freezing.
//!
//! [`Registrations`] wait for something to happen to a node or its owner. [`DeliveredNotifications`] ones have been told,
//! and user space has not confirmed it yet. It confirms a cookie, which need not be unique: of those
//! that have it, the one that was told first is meant.

use crate::pure::numbers::FIRST_LONG_NUMBER;
use kernel::{
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::Arc, //
};

/// The order of links within a tree.
pub(crate) type RegistrationKey = (u64, u64);

/// A place among links, allocated before a lock is taken.
pub(crate) type Place<L> = RBTreeNodeReservation<RegistrationKey, Arc<L>>;

/// Links that wait for something to happen. Mostly there is one, for which no tree is needed.
pub(crate) struct Registrations<L> {
    /// A link that is not among the others, and the place that it does not need as long as it is here.
    single: Option<(Arc<L>, Place<L>)>,
    others: RBTree<RegistrationKey, Arc<L>>,
}

impl<L> Registrations<L> {
    pub(crate) fn new() -> Self {
        Self {
            single: None,
            others: RBTree::new(),
        }
    }

    /// The place of a link among others. No two links are at one address.
    pub(crate) fn key(notification: &L) -> RegistrationKey {
        (core::ptr::from_ref(notification).addr() as u64, 0)
    }

    /// Adds a link in the place that was allocated for it.
    pub(crate) fn insert(&mut self, notification: &Arc<L>, place: Place<L>) {
        let notification = notification.clone();
        if self.single.is_none() {
            self.single = Some((notification, place));
        } else {
            self.others
                .insert(place.into_node(Self::key(&notification), notification));
        }
    }

    /// Takes a link out, unless somebody else already has: gives its place. The reference that goes is not
    /// the last, for the caller has one.
    pub(crate) fn remove(&mut self, notification: &Arc<L>) -> Option<Place<L>> {
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

    /// Takes any link out.
    pub(crate) fn pop(&mut self) -> Option<Popped<L>> {
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

    /// Takes all links out at once: to be dropped once the lock is gone.
    pub(crate) fn take_all(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// The first link from `key` on, in the order of keys.
    pub(crate) fn first_from(&self, key: RegistrationKey) -> Option<Arc<L>> {
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

/// A link that was taken out, and the place that it had.
pub(crate) struct Popped<L> {
    pub(crate) notification: Arc<L>,
    pub(crate) place: Place<L>,
    /// Whether no other was there.
    pub(crate) is_last: bool,
}

/// An unconfirmed link that was taken out: to be dropped once the lock is gone.
pub(crate) type RemovedFrom<L> = RBTreeNode<RegistrationKey, Arc<L>>;

/// What a link held that ended with its handle, with a `Q` that was queued for it: to be dropped once the locks
/// are gone.
pub(crate) struct CancelledNotification<L, Q> {
    pub(crate) _waiting: Option<Place<L>>,
    pub(crate) _delivered: Option<RemovedFrom<L>>,
    pub(crate) _place: Option<Place<L>>,
    pub(crate) _queued: Option<Q>,
    pub(crate) _notification: Arc<L>,
}

/// The unconfirmed links of a process: by cookie, and then in the order in which they were told.
pub(crate) struct DeliveredNotifications<L> {
    links: RBTree<RegistrationKey, Arc<L>>,
    last_number: u64,
}

impl<L> DeliveredNotifications<L> {
    pub(crate) fn new() -> Self {
        Self {
            links: RBTree::new(),
            last_number: FIRST_LONG_NUMBER,
        }
    }

    /// Adds a link that is being told. Gives its number.
    pub(crate) fn insert(&mut self, notification: &Arc<L>, cookie: u64, place: Place<L>) -> u64 {
        self.last_number += 1;
        let key = (cookie, self.last_number);
        self.links
            .insert(place.into_node(key, notification.clone()));
        self.last_number
    }

    /// Takes out the link of this cookie that was told first.
    pub(crate) fn take(&mut self, cookie: u64) -> Option<(Arc<L>, RemovedFrom<L>)> {
        let first = self.links.cursor_lower_bound(&(cookie, 0))?;
        let (&key, notification) = first.current();
        if key.0 != cookie {
            return None;
        }
        let notification = notification.clone();
        // A search costs less than what a cursor does to stay in the tree.
        Some((notification, self.links.remove_node(&key)?))
    }

    /// Takes out a link that will not be confirmed any more.
    pub(crate) fn remove(&mut self, cookie: u64, number: u64) -> Option<RemovedFrom<L>> {
        self.links.remove_node(&(cookie, number))
    }

    /// Takes all links out at once: to be dropped once the lock is gone.
    pub(crate) fn take_all(&mut self) -> impl Sized {
        core::mem::replace(&mut self.links, RBTree::new())
    }
}
