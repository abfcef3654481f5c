// SPDX-License-Identifier: GPL-2.0

//! A red-black tree that knows how many are in it, so that there can be a limit to that.
//!
//! Whatever comes and goes passes here, so the number cannot be wrong, and asking for it costs
//! nothing. The tree takes no lock and allocates nothing: nodes are brought by who adds them, and given to
//! who takes them out, to be dropped once the lock is gone.

use kernel::rbtree::{RBTree, RBTreeNode};

/// Things in the order of their keys, and their number.
///
/// Guarded by the lock that the caller puts around it.
///
/// # Invariants
///
/// `len` is the number of nodes in `tree`.
pub(crate) struct CountedTree<K, V> {
    tree: RBTree<K, V>,
    len: usize,
}

impl<K: Ord + Clone, V> CountedTree<K, V> {
    /// An empty tree.
    pub(crate) fn new() -> Self {
        Self {
            tree: RBTree::new(),
            len: 0,
        }
    }

    /// How many are in the tree.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What stands under this key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.tree.get(key)
    }

    /// All that is in the tree, in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.tree.values()
    }

    /// The first whose key is not less than this one.
    pub(crate) fn first_from(&self, key: &K) -> Option<V>
    where
        V: Clone,
    {
        Some(self.tree.cursor_lower_bound(key)?.current().1.clone())
    }

    /// Adds a node. Gives back the one that stood under this key, if one did.
    pub(crate) fn insert(&mut self, node: RBTreeNode<K, V>) -> Option<RBTreeNode<K, V>> {
        let replaced = self.tree.insert(node);
        if replaced.is_none() {
            self.len += 1;
        }
        replaced
    }

    /// Takes out what stands under this key.
    pub(crate) fn remove_node(&mut self, key: &K) -> Option<RBTreeNode<K, V>> {
        let removed = self.tree.remove_node(key)?;
        self.len -= 1;
        Some(removed)
    }

    /// Takes out all at once, in constant time: nothing is in it afterwards.
    pub(crate) fn take_all(&mut self) -> RBTree<K, V> {
        self.len = 0;
        core::mem::replace(&mut self.tree, RBTree::new())
    }
}
