// SPDX-License-Identifier: GPL-2.0

//! A collection that usually has one item, and allocates memory only if it has more.

use kernel::prelude::*;

/// Any number of items; for one, which is the usual number, no memory is allocated.
pub(crate) enum OneOrMany<T> {
    None,
    One(T),
    Many(KVVec<T>),
}

impl<T> OneOrMany<T> {
    /// Adds an item. Fails with `ENOMEM`; the other items are dropped in that case, too. May sleep.
    pub(crate) fn push(&mut self, value: T) -> Result {
        *self = match core::mem::replace(self, Self::None) {
            Self::None => Self::One(value),
            Self::One(first) => {
                let mut all = KVVec::with_capacity(4, GFP_KERNEL)?;
                all.push(first, GFP_KERNEL)?;
                all.push(value, GFP_KERNEL)?;
                Self::Many(all)
            }
            Self::Many(mut all) => {
                all.push(value, GFP_KERNEL)?;
                Self::Many(all)
            }
        };
        Ok(())
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
