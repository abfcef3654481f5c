// SPDX-License-Identifier: GPL-2.0

//! The freeze notifications that wait for an event of the owner of a node. Death notifications have
//! a link for that.

use kernel::{
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::Arc, //
};

/// The key by which notifications are ordered within a tree.
pub(crate) type RegistrationKey = (u64, u64);

/// Returns the key of a notification of the node that its owner names by `pointer`. No two
/// notifications have the same address, which only distinguishes holders of the same node. So the
/// notifications of one holder are in the order of the owner's pointers, as with the C driver.
fn key_of<N>(pointer: u64, notification: &Arc<N>) -> RegistrationKey {
    (pointer, Arc::as_ptr(notification).addr() as u64)
}

/// The tree node of a notification, allocated before a lock is taken.
pub(crate) type Place<N> = RBTreeNodeReservation<RegistrationKey, Arc<N>>;

/// Notifications that wait for an event. Usually there is one, which needs no tree.
pub(crate) struct Registrations<N> {
    /// One notification that is not in `others`, its key, and its tree node, which is unused as
    /// long as the notification is here.
    single: Option<(RegistrationKey, Arc<N>, Place<N>)>,
    others: RBTree<RegistrationKey, Arc<N>>,
}

impl<N> Registrations<N> {
    pub(crate) fn new() -> Self {
        Self {
            single: None,
            others: RBTree::new(),
        }
    }

    /// Adds a notification of the node that its owner names by `pointer`, with the tree node that
    /// was allocated for it.
    pub(crate) fn insert(&mut self, pointer: u64, notification: &Arc<N>, place: Place<N>) {
        let key = key_of(pointer, notification);
        let notification = notification.clone();
        if self.single.is_none() {
            self.single = Some((key, notification, place));
        } else {
            self.others.insert(place.into_node(key, notification));
        }
    }

    /// Removes a notification that was added with this pointer, unless it was removed already, and
    /// returns its tree node. The reference that is dropped is not the last one, because the caller
    /// has one.
    pub(crate) fn remove(&mut self, pointer: u64, notification: &Arc<N>) -> Option<Place<N>> {
        let is_it = |single: &mut (_, Arc<N>, _)| Arc::ptr_eq(&single.1, notification);
        if let Some((_, _, place)) = self.single.take_if(is_it) {
            return Some(place);
        }
        if self.others.is_empty() {
            return None;
        }
        let key = key_of(pointer, notification);
        let removed = self.others.remove_node(&key)?;
        Some(removed.into_reservation())
    }

    /// Removes all notifications at once and returns them, to be dropped after the lock is
    /// released.
    pub(crate) fn take_all(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// Whether there is no more than one notification.
    pub(crate) fn is_one(&self) -> bool {
        self.others.is_empty()
    }

    /// Returns the first notification whose key is not less than `from`, and where the next one
    /// begins.
    pub(crate) fn first_from(&self, from: RegistrationKey) -> Option<(Arc<N>, RegistrationKey)> {
        let single = self.single.as_ref().map(|(key, single, _)| (*key, single));
        let single = single.filter(|(key, _)| *key >= from);
        let other = self.others.cursor_lower_bound(&from);
        let other = other.as_ref().map(|other| {
            let (key, other) = other.current();
            (*key, other)
        });
        let (key, first) = match (single, other) {
            (Some(single), Some(other)) if single.0 < other.0 => single,
            (single, other) => other.or(single)?,
        };
        // No object is at the last address.
        Some((first.clone(), (key.0, key.1 + 1)))
    }
}
