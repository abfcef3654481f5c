// SPDX-License-Identifier: GPL-2.0

//! Cursors of a tree that others may read at the same time.

use super::{bindings, Cursor, RBTree};
use core::{marker::PhantomData, ptr::NonNull};

/// A place in a tree, to read from.
///
/// # Invariants
///
/// The pointer is that of a node of the tree.
pub struct Reader<'a, K, V>(NonNull<bindings::rb_node>, PhantomData<&'a RBTree<K, V>>);

impl<'a, K, V> Reader<'a, K, V> {
    fn new(node: *mut bindings::rb_node) -> Option<Self> {
        // INVARIANT: Only nodes of the tree are passed.
        Some(Self(NonNull::new(node)?, PhantomData))
    }

    /// Returns what is at this place.
    pub fn current(&self) -> (&'a K, &'a V) {
        // SAFETY: By the type's invariant, and the tree is borrowed.
        unsafe { Cursor::to_key_value(self.0) }
    }

    /// Returns what is before this place.
    pub fn peek_prev(&self) -> Option<(&'a K, &'a V)> {
        // SAFETY: By the type's invariant.
        let before = Self::new(unsafe { bindings::rb_prev(self.0.as_ptr()) })?;
        Some(before.current())
    }

    /// Returns what is behind this place.
    pub fn peek_next(&self) -> Option<(&'a K, &'a V)> {
        // SAFETY: By the type's invariant.
        let next = Self::new(unsafe { bindings::rb_next(self.0.as_ptr()) })?;
        Some(next.current())
    }
}

impl<K, V> RBTree<K, V> {
    /// Returns the place of the last node.
    pub fn cursor_back(&self) -> Option<Reader<'_, K, V>> {
        // SAFETY: The root is valid, and this only reads it.
        Reader::new(unsafe { bindings::rb_last(&raw const self.root) })
    }

    /// Returns the place of the first node whose key is `key` or greater.
    pub fn cursor_lower_bound(&self, key: &K) -> Option<Reader<'_, K, V>>
    where
        K: Ord,
    {
        let (mut found, mut next) = (None, Reader::new(self.root.rb_node));
        while let Some(at) = next {
            // SAFETY: It is a node of the tree, which is borrowed.
            let node = unsafe { at.0.as_ref() };
            next = Reader::new(if at.current().0 < key {
                node.rb_right
            } else {
                found = Some(at);
                node.rb_left
            });
        }
        found
    }
}
