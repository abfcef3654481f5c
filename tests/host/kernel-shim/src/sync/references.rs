// SPDX-License-Identifier: GPL-2.0
//! Other kinds of references than [`Arc`]; `tests/loom` has them, too.

use super::Arc;
use crate::alloc::{AllocError, Flags};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// Memory with a count of references, of which this is the only one.
pub struct UniqueArc<T>(pub(super) Arc<T>);

impl<T> UniqueArc<T> {
    /// Puts a value there.
    pub fn new(value: T, flags: Flags) -> Result<Self, AllocError> {
        Arc::new(value, flags).map(Self)
    }
}

impl<T> From<UniqueArc<T>> for Arc<T> {
    fn from(unique: UniqueArc<T>) -> Self {
        unique.0
    }
}

/// A reference that somebody else has.
pub struct ArcBorrow<'a, T>(ManuallyDrop<Arc<T>>, PhantomData<&'a T>);

impl<T> ArcBorrow<'_, T> {
    /// Borrows what [`Arc::into_raw`] gave up.
    ///
    /// # Safety
    ///
    /// The pointer comes from `into_raw`, and no `Arc` takes it back while this one lives.
    #[allow(unsafe_code)]
    pub unsafe fn from_raw(raw: *const T) -> Self {
        // SAFETY: As the caller promises; this one is never dropped.
        Self(ManuallyDrop::new(unsafe { Arc::from_raw(raw) }), PhantomData)
    }
}

impl<T> Deref for ArcBorrow<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<ArcBorrow<'_, T>> for Arc<T> {
    fn from(borrowed: ArcBorrow<'_, T>) -> Self {
        (*borrowed.0).clone()
    }
}
