// SPDX-License-Identifier: GPL-2.0

//! A collection that usually has one item, and allocates memory only if it has more.
//!
//! With a `KVVec` instead, a call with a file makes more allocations. To drop an empty one takes 30
//! to 60 instructions, since the allocator is called.

use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// Any number of items; for one, which is the usual number, no memory is allocated. For two, memory
/// for `FEW` is.
pub(crate) enum OneOrMany<T, const FEW: usize = 4> {
    None,
    One(T),
    Many(KVVec<T>),
}

impl<T, const FEW: usize> OneOrMany<T, FEW> {
    /// Adds an item. On `ENOMEM` the item is dropped, and the others stay. May sleep.
    pub(crate) fn push(&mut self, value: T) -> Result<(), AllocError> {
        self.make_room()?;
        self.push_within_room(value);
        Ok(())
    }

    /// Allocates memory for one more item, if it takes any. May sleep.
    pub(crate) fn make_room(&mut self) -> Result<(), AllocError> {
        match self {
            Self::None => Ok(()),
            Self::One(_) => {
                let mut all = KVVec::with_capacity(FEW, GFP_KERNEL)?;
                if let Self::One(first) = core::mem::replace(self, Self::None) {
                    let _ = all.push_within_capacity(first);
                }
                *self = Self::Many(all);
                Ok(())
            }
            Self::Many(all) => all.reserve(1, GFP_KERNEL),
        }
    }

    /// Adds an item, for which there has to be [room](Self::make_room); it is dropped if there is
    /// none.
    pub(crate) fn push_within_room(&mut self, value: T) {
        match self {
            Self::None => *self = Self::One(value),
            Self::One(_) => {}
            Self::Many(all) => {
                let _ = all.push_within_capacity(value);
            }
        }
    }

    /// Returns the items, in their order.
    #[inline]
    pub(crate) fn into_items(self) -> Items<T> {
        match self {
            Self::None => Items::One(None),
            Self::One(one) => Items::One(Some(one)),
            Self::Many(all) => Items::Many(all.into_iter()),
        }
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(one) => core::slice::from_ref(one),
            Self::Many(all) => all,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::None => &mut [],
            Self::One(one) => core::slice::from_mut(one),
            Self::Many(all) => all,
        }
    }
}

/// The items of a [`OneOrMany`]. Those that are not taken are dropped with it.
pub(crate) enum Items<T> {
    One(Option<T>),
    Many(<KVVec<T> as IntoIterator>::IntoIter),
}

impl<T> Iterator for Items<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Self::One(one) => one.take(),
            Self::Many(rest) => rest.next(),
        }
    }
}
