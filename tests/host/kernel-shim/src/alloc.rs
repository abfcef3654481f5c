// SPDX-License-Identifier: GPL-2.0
//! Fallible vectors and boxes over the standard ones.

use crate::testing::{Allocation, Origin};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

/// Flags of an allocation; they have no effect on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(());

/// The usual flags.
pub mod flags {
    use super::Flags;

    /// May sleep.
    pub const GFP_KERNEL: Flags = Flags(());
}

/// Errors of vectors.
pub mod kvec {
    /// The vector has no room for this.
    #[derive(Debug)]
    pub struct PushError<T>(pub T);
}

/// The source of a vector's memory.
pub trait Allocator {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    const ORIGIN: Origin;
}

/// `kmalloc`.
#[derive(Debug)]
pub struct Kmalloc;
/// `kmalloc` or `vmalloc`.
#[derive(Debug)]
pub struct KVmalloc;

#[allow(private_interfaces)]
impl Allocator for Kmalloc {
    const ORIGIN: Origin = Origin::Kmalloc;
}

#[allow(private_interfaces)]
impl Allocator for KVmalloc {
    const ORIGIN: Origin = Origin::MaybeVmalloc;
}

/// A vector that grows only by explicit calls.
#[derive(Debug)]
pub struct Vec<T, A> {
    inner: std::vec::Vec<T>,
    /// The kernel's capacity, which may differ from that of `inner`.
    capacity: usize,
    memory: Option<Allocation>,
    _origin: PhantomData<A>,
}

/// A vector from `kmalloc`.
pub type KVec<T> = Vec<T, Kmalloc>;
/// A vector from `kmalloc` or `vmalloc`.
pub type KVVec<T> = Vec<T, KVmalloc>;

impl<T, A> Vec<T, A> {
    /// Without memory.
    pub const fn new() -> Self {
        Self { inner: std::vec::Vec::new(), capacity: 0, memory: None, _origin: PhantomData }
    }

    /// The number of elements that fit without allocating.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Adds an element if it fits.
    pub fn push_within_capacity(&mut self, value: T) -> Result<(), kvec::PushError<T>> {
        if self.inner.len() == self.capacity {
            return Err(kvec::PushError(value));
        }
        self.inner.push(value);
        Ok(())
    }

    /// Takes the last element.
    pub fn pop(&mut self) -> Option<T> {
        self.inner.pop()
    }
}

impl<T, A: Allocator> Vec<T, A> {
    /// With room for `capacity` elements.
    pub fn with_capacity(capacity: usize, flags: Flags) -> Result<Self, AllocError> {
        let mut vec = Self::new();
        vec.reserve(capacity, flags)?;
        Ok(vec)
    }

    /// Makes room for `additional` more elements.
    pub fn reserve(&mut self, additional: usize, _flags: Flags) -> Result<(), AllocError> {
        let wanted = self.inner.len() + additional;
        if wanted > self.capacity {
            self.memory = Some(Allocation::new(A::ORIGIN)?);
            self.capacity = wanted.max(2 * self.capacity);
            // So that elements stay where they are until there is more memory.
            self.inner.reserve_exact(self.capacity - self.inner.len());
        }
        Ok(())
    }

    /// Adds an element.
    pub fn push(&mut self, value: T, flags: Flags) -> Result<(), AllocError> {
        self.reserve(1, flags)?;
        self.inner.push(value);
        Ok(())
    }
}

impl<T, A> Default for Vec<T, A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, A> Deref for Vec<T, A> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.inner
    }
}

impl<T, A> DerefMut for Vec<T, A> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.inner
    }
}

impl<T, A> IntoIterator for Vec<T, A> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.inner.into_iter()
    }
}

// The model of the protocol copies, compares and hashes its states.
impl<T: Clone, A: Allocator> Clone for Vec<T, A> {
    fn clone(&self) -> Self {
        let mut copy = Self::with_capacity(self.capacity, Flags(())).expect("no failure is asked for");
        copy.inner.extend_from_slice(self);
        copy
    }
}

impl<T: PartialEq, A> PartialEq for Vec<T, A> {
    fn eq(&self, other: &Self) -> bool {
        (self.capacity, &self.inner) == (other.capacity, &other.inner)
    }
}

impl<T: Eq, A> Eq for Vec<T, A> {}

impl<T: Hash, A> Hash for Vec<T, A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.capacity, &self.inner).hash(state);
    }
}

/// A box from `kmalloc`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct KBox<T> {
    /// Always there, but while the box is taken apart.
    inner: Option<Box<T>>,
}

impl<T> KBox<T> {
    /// Boxes a value.
    pub fn new(value: T, _flags: Flags) -> Result<Self, AllocError> {
        Allocation::new(Origin::Kmalloc)?.forget();
        Ok(Self { inner: Some(Box::new(value)) })
    }

    /// Makes room for a value.
    pub fn new_uninit(_flags: Flags) -> Result<KBox<MaybeUninit<T>>, AllocError> {
        Allocation::new(Origin::Kmalloc)?.forget();
        Ok(KBox { inner: Some(Box::new_uninit()) })
    }

    /// Gives up the value as a reference.
    pub fn leak<'a>(mut this: Self) -> &'a mut T
    where
        T: 'a,
    {
        Box::leak(this.inner.take().expect("the box is whole"))
    }

    /// Makes a box again of what [`leak`](Self::leak) gave up.
    ///
    /// # Safety
    ///
    /// The pointer comes from `leak`, and this is done once.
    #[allow(unsafe_code)]
    pub unsafe fn from_raw(raw: *mut T) -> Self {
        // SAFETY: The pointer is that of a standard box, which the caller owns.
        let inner = Some(unsafe { Box::from_raw(raw) });
        Self { inner }
    }
}

impl<T: Clone> Clone for KBox<T> {
    fn clone(&self) -> Self {
        Self::new((**self).clone(), Flags(())).expect("no failure is asked for")
    }
}

impl<T> KBox<MaybeUninit<T>> {
    /// Puts a value there.
    #[allow(unsafe_code)]
    pub fn write(mut self, value: T) -> KBox<T> {
        let mut inner = self.inner.take().expect("the box is whole");
        inner.write(value);
        // SAFETY: The value has just been written.
        let inner = unsafe { inner.assume_init() };
        KBox { inner: Some(inner) }
    }
}

impl<T> Drop for KBox<T> {
    fn drop(&mut self) {
        if self.inner.is_some() {
            Allocation::free_forgotten(Origin::Kmalloc);
        }
    }
}

impl<T> Deref for KBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("the box is whole")
    }
}

impl<T> DerefMut for KBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("the box is whole")
    }
}
