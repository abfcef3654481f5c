// SPDX-License-Identifier: GPL-2.0

//! Links whose notification user space has read and not confirmed yet.
//!
//! User space confirms a cookie, which need not be unique: of those that have it, the one that was told
//! first is meant.

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

/// The unconfirmed links of a process: by cookie, and then in the order in which they were told.
pub(crate) struct Unconfirmed<L> {
    links: RBTree<LinkKey, Arc<L>>,
    last_number: u64,
}

impl<L> Unconfirmed<L> {
    pub(crate) fn new() -> Self {
        Self {
            links: RBTree::new(),
            last_number: 0,
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
    pub(crate) fn pop(&mut self) -> Option<(Arc<L>, RemovedFrom<L>)> {
        pop(&mut self.links)
    }
}

/// Takes any link out of a tree.
pub(crate) fn pop<L>(links: &mut RBTree<LinkKey, Arc<L>>) -> Option<(Arc<L>, RemovedFrom<L>)> {
    let cursor = links.cursor_front_mut()?;
    let link = cursor.current().1.clone();
    Some((link, cursor.remove_current().1))
}
