// SPDX-License-Identifier: GPL-2.0

//! A red-black tree that counts its nodes, so that their number can be limited. The kernel's own
//! does not, and each thread that is made would have to walk all others of its process under the
//! lock: `make growth` fails where that grows.
//!
//! Every insertion and removal goes through this type, so the count is always right, and reading it
//! takes constant time. The tree takes no lock and allocates nothing. The caller passes the node of
//! an item that it adds. It receives the node of an item that it removes, to drop it after the lock
//! is released.

use kernel::rbtree::{RBTree, RBTreeNode};

/// The number of items that are visited while a lock is held.
pub(crate) const AT_ONCE: usize = 32;

/// Items in the order of their keys, and their number.
///
/// Guarded by the lock of the caller.
///
/// # Invariants
///
/// `len` is the number of nodes in `tree`.
pub(crate) struct CountedTree<K, V> {
    tree: RBTree<K, V>,
    len: usize,
}

impl<K: Ord + Clone, V> CountedTree<K, V> {
    /// Returns an empty tree.
    pub(crate) fn new() -> Self {
        Self {
            tree: RBTree::new(),
            len: 0,
        }
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the item of this key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.tree.get(key)
    }

    /// Returns all items, in the order of their keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.tree.values()
    }

    /// Returns a clone of the first item whose key is not less than `key`.
    pub(crate) fn first_from(&self, key: &K) -> Option<V>
    where
        V: Clone,
    {
        Some(self.tree.cursor_lower_bound(key)?.current().1.clone())
    }

    /// Calls `each` with up to [`AT_ONCE`] items, from the first whose key is not less than `from`
    /// on, in the order of their keys. Returns the key of the item behind them, if there is one.
    pub(crate) fn visit(&self, from: &K, mut each: impl FnMut(&K, &V)) -> Option<K> {
        let mut next = from.clone();
        for _ in 0..AT_ONCE {
            let cursor = self.tree.cursor_lower_bound(&next)?;
            let (key, value) = cursor.current();
            each(key, value);
            next = cursor.peek_next()?.0.clone();
        }
        Some(next)
    }

    /// Adds a node. Returns the node that had this key before, if one did.
    pub(crate) fn insert(&mut self, node: RBTreeNode<K, V>) -> Option<RBTreeNode<K, V>> {
        let replaced = self.tree.insert(node);
        if replaced.is_none() {
            self.len += 1;
        }
        replaced
    }

    /// Removes the node of this key, and returns it.
    pub(crate) fn remove_node(&mut self, key: &K) -> Option<RBTreeNode<K, V>> {
        let removed = self.tree.remove_node(key)?;
        self.len -= 1;
        Some(removed)
    }
}
