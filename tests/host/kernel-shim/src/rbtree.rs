// SPDX-License-Identifier: GPL-2.0
//! The kernel's red-black tree by its interface, over a [`BTreeMap`] from the standard library.
//!
//! Each node carries the allocation that it would be in the kernel, so that tests see nodes that
//! leak and nodes that are made out of nothing.

use crate::alloc::Flags;
use crate::error::Result;
use crate::testing::{Allocation, Origin};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// A map whose nodes are allocated by its user.
#[derive(Debug)]
pub struct RBTree<K, V> {
    map: BTreeMap<K, (V, Allocation)>,
}

/// The memory of a node.
#[derive(Debug)]
pub struct RBTreeNodeReservation<K, V> {
    memory: Allocation,
    _content: PhantomData<(K, V)>,
}

/// A node that is in no tree.
#[derive(Debug)]
pub struct RBTreeNode<K, V> {
    key: K,
    value: V,
    memory: Allocation,
}

impl<K, V> RBTreeNodeReservation<K, V> {
    /// Allocates the memory of a node.
    pub fn new(_flags: Flags) -> Result<Self> {
        Ok(Self { memory: Allocation::new(Origin::Kmalloc)?, _content: PhantomData })
    }

    /// Makes a node of it.
    pub fn into_node(self, key: K, value: V) -> RBTreeNode<K, V> {
        RBTreeNode { key, value, memory: self.memory }
    }
}

impl<K, V> RBTreeNode<K, V> {
    /// Drops the content and keeps the memory.
    pub fn into_reservation(self) -> RBTreeNodeReservation<K, V> {
        RBTreeNodeReservation { memory: self.memory, _content: PhantomData }
    }
}

impl<K: Ord + Clone, V> Default for RBTree<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone, V> RBTree<K, V> {
    /// An empty tree.
    pub fn new() -> Self {
        Self { map: BTreeMap::new() }
    }

    /// Returns whether the tree is empty.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Adds a node; gives back the one that it replaces.
    pub fn insert(&mut self, node: RBTreeNode<K, V>) -> Option<RBTreeNode<K, V>> {
        let old = self.remove_node(&node.key);
        self.map.insert(node.key, (node.value, node.memory));
        old
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key).map(|(value, _)| value)
    }

    /// The value of a key.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key).map(|(value, _)| value)
    }

    /// Takes a node out.
    pub fn remove_node(&mut self, key: &K) -> Option<RBTreeNode<K, V>> {
        let (key, (value, memory)) = self.map.remove_entry(key)?;
        Some(RBTreeNode { key, value, memory })
    }

    /// All keys and values, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.map.iter_mut().map(|(key, (value, _))| (key, value))
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.map.values().map(|(value, _)| value)
    }

    /// At the last key.
    pub fn cursor_back(&self) -> Option<Cursor<'_, K, V>> {
        let key = self.map.keys().next_back()?.clone();
        Some(Cursor { tree: self, key })
    }

    /// At the first key that is not less.
    pub fn cursor_lower_bound(&self, key: &K) -> Option<Cursor<'_, K, V>> {
        let key = self.not_less(key)?;
        Some(Cursor { tree: self, key })
    }

    /// At the first key that is not less.
    pub fn cursor_lower_bound_mut(&mut self, key: &K) -> Option<CursorMut<'_, K, V>> {
        let key = self.not_less(key)?;
        Some(CursorMut { tree: self, key })
    }

    fn not_less(&self, key: &K) -> Option<K> {
        Some(self.map.range(key..).next()?.0.clone())
    }

    fn before(&self, key: &K) -> Option<K> {
        Some(self.map.range(..key).next_back()?.0.clone())
    }

    fn after(&self, key: &K) -> Option<K> {
        use std::ops::Bound::{Excluded, Unbounded};
        let mut behind = self.map.range((Excluded(key), Unbounded));
        Some(behind.next()?.0.clone())
    }

    fn pair(&self, key: &K) -> Option<(&K, &V)> {
        let (key, (value, _)) = self.map.get_key_value(key)?;
        Some((key, value))
    }

    fn pair_mut(&mut self, key: &K) -> Option<(&K, &mut V)> {
        let mut at = self.map.range_mut(key..=key);
        at.next().map(|(key, (value, _))| (key, value))
    }
}

/// A place in a tree.
#[derive(Debug)]
pub struct Cursor<'a, K, V> {
    tree: &'a RBTree<K, V>,
    key: K,
}

impl<K: Ord + Clone, V> Cursor<'_, K, V> {
    /// The entry here.
    pub fn current(&self) -> (&K, &V) {
        self.tree.pair(&self.key).expect("a cursor is at a node")
    }

    /// The entry before.
    pub fn peek_prev(&self) -> Option<(&K, &V)> {
        self.tree.pair(&self.tree.before(&self.key)?)
    }

    /// The next entry.
    pub fn peek_next(&self) -> Option<(&K, &V)> {
        self.tree.pair(&self.tree.after(&self.key)?)
    }
}

/// A place in a tree, to change it.
#[derive(Debug)]
pub struct CursorMut<'a, K, V> {
    tree: &'a mut RBTree<K, V>,
    key: K,
}

impl<K: Ord + Clone, V> CursorMut<'_, K, V> {
    /// The entry here.
    pub fn current_mut(&mut self) -> (&K, &mut V) {
        let pair = self.tree.pair_mut(&self.key);
        pair.expect("a cursor is at a node")
    }

    /// The next entry.
    pub fn peek_next(&self) -> Option<(&K, &V)> {
        self.tree.pair(&self.tree.after(&self.key)?)
    }

    /// The entry before.
    pub fn peek_prev_mut(&mut self) -> Option<(&K, &mut V)> {
        let key = self.tree.before(&self.key)?;
        self.tree.pair_mut(&key)
    }

    /// Removes the entry here, and goes to the next, or else to the one before.
    pub fn remove_current(self) -> (Option<Self>, RBTreeNode<K, V>) {
        let goes_to = self.tree.after(&self.key);
        let goes_to = goes_to.or_else(|| self.tree.before(&self.key));
        let node = self.tree.remove_node(&self.key);
        let cursor = goes_to.map(|key| CursorMut { tree: self.tree, key });
        (cursor, node.expect("a cursor is at a node"))
    }
}
