// SPDX-License-Identifier: GPL-2.0

//! Who keeps the links by which processes are told of deaths and freezing.
//!
//! [`Links`] wait for something to happen to a node or its owner. [`Unconfirmed`] ones have been told,
//! and user space has not confirmed it yet. It confirms a cookie, which need not be unique: of those
//! that have it, the one that was told first is meant.

use crate::{
    numbers::FIRST_LONG_NUMBER,
    work::{Work, WorkTicket}, //
};
use kernel::{
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::Arc, //
};

/// The order of links within a tree.
pub(crate) type LinkKey = (u64, u64);

/// A place in a tree of links, allocated before a lock is taken.
pub(crate) type Place<L> = RBTreeNodeReservation<LinkKey, Arc<L>>;

/// A link that left a tree: to be dropped once the lock is gone.
pub(crate) type RemovedFrom<L> = RBTreeNode<LinkKey, Arc<L>>;

/// Links that wait for something to happen.
pub(crate) struct Links<L>(RBTree<LinkKey, Arc<L>>);

impl<L> Links<L> {
    pub(crate) fn new() -> Self {
        Self(RBTree::new())
    }

    /// The place of a link among others. No two links are at one address.
    pub(crate) fn key(link: &L) -> LinkKey {
        (core::ptr::from_ref(link).addr() as u64, 0)
    }

    /// Adds a link in the place that was allocated for it.
    pub(crate) fn insert(&mut self, link: &Arc<L>, place: Place<L>) {
        let key = Self::key(link);
        self.0.insert(place.into_node(key, link.clone()));
    }

    /// Takes a link out, unless somebody else already has.
    pub(crate) fn remove(&mut self, link: &L) -> Option<RemovedFrom<L>> {
        self.0.remove_node(&Self::key(link))
    }

    /// Takes any link out.
    pub(crate) fn pop(&mut self) -> Option<Popped<L>> {
        pop(&mut self.0)
    }

    /// The first link from `key` on.
    pub(crate) fn first_from(&self, key: LinkKey) -> Option<Arc<L>> {
        Some(self.0.cursor_lower_bound(&key)?.current().1.clone())
    }
}

/// A link that was taken out of a tree.
pub(crate) struct Popped<L> {
    pub(crate) link: Arc<L>,
    pub(crate) removed: RemovedFrom<L>,
    /// Whether no other was there.
    pub(crate) is_last: bool,
}

/// What a link held that ended with its handle: to be dropped once the locks are gone.
pub(crate) struct Cancelled<L> {
    pub(crate) _waiting: Option<RemovedFrom<L>>,
    pub(crate) _unconfirmed: Option<RemovedFrom<L>>,
    pub(crate) _place: Option<Place<L>>,
    pub(crate) _queued: Option<(Work, WorkTicket)>,
    pub(crate) _link: Arc<L>,
}

/// The unconfirmed links of a process: by cookie, and then in the order in which they were told.
pub(crate) struct Unconfirmed<L> {
    links: RBTree<LinkKey, Arc<L>>,
    last_number: u64,
}

impl<L> Unconfirmed<L> {
    pub(crate) fn new() -> Self {
        Self {
            links: RBTree::new(),
            last_number: FIRST_LONG_NUMBER,
        }
    }

    /// Adds a link that is being told. Gives its number.
    pub(crate) fn insert(&mut self, link: &Arc<L>, cookie: u64, place: Place<L>) -> u64 {
        self.last_number += 1;
        let key = (cookie, self.last_number);
        self.links.insert(place.into_node(key, link.clone()));
        self.last_number
    }

    /// Takes out the link of this cookie that was told first.
    pub(crate) fn take(&mut self, cookie: u64) -> Option<(Arc<L>, RemovedFrom<L>)> {
        let cursor = self.links.cursor_lower_bound_mut(&(cookie, 0))?;
        let (key, link) = cursor.current();
        if key.0 != cookie {
            return None;
        }
        let link = link.clone();
        Some((link, cursor.remove_current().1))
    }

    /// Takes out a link that will not be confirmed any more.
    pub(crate) fn remove(&mut self, cookie: u64, number: u64) -> Option<RemovedFrom<L>> {
        self.links.remove_node(&(cookie, number))
    }

    /// Takes any link out: its process has ended.
    pub(crate) fn pop(&mut self) -> Option<Popped<L>> {
        pop(&mut self.links)
    }
}

/// Takes any link out of a tree.
fn pop<L>(links: &mut RBTree<LinkKey, Arc<L>>) -> Option<Popped<L>> {
    let cursor = links.cursor_front_mut()?;
    let link = cursor.current().1.clone();
    let (others, removed) = cursor.remove_current();
    Some(Popped {
        link,
        removed,
        is_last: others.is_none(),
    })
}
