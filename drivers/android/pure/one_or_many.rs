// SPDX-License-Identifier: GPL-2.0

//! A collection that usually has one item, and allocates memory only if it has more.

use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// Any number of items; for one, which is the usual number, no memory is allocated.
pub(crate) enum OneOrMany<T> {
    None,
    One(T),
    Many(KVVec<T>),
}

impl<T> OneOrMany<T> {
    /// Returns an empty collection that has room for `count` items. May sleep.
    pub(crate) fn with_capacity(count: usize) -> Result<Self, AllocError> {
        Ok(match count {
            0 | 1 => Self::None,
            _ => Self::Many(KVVec::with_capacity(count, GFP_KERNEL)?),
        })
    }

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
                let mut all = KVVec::with_capacity(4, GFP_KERNEL)?;
                if let Self::One(first) = core::mem::replace(self, Self::None) {
                    let _ = all.push_within_capacity(first);
                }
                *self = Self::Many(all);
                Ok(())
            }
            Self::Many(all) => all.reserve(1, GFP_KERNEL),
        }
    }

    /// Adds an item, for which there has to be [room](Self::make_room); it is dropped if there is none.
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
    pub(crate) fn into_items(self) -> impl Iterator<Item = T> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(one) => (Some(one), None),
            Self::Many(all) => (None, Some(all)),
        };
        Iterator::chain(one.into_iter(), many.into_iter().flatten())
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
