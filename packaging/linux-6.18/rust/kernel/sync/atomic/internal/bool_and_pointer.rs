// SPDX-License-Identifier: GPL-2.0

//! Atomic `bool` and pointers.

use super::*;
use crate::sync::{
    atomic::{ordering, Atomic, AtomicAdd, AtomicType},
    barrier::smp_full_mb,
};
use core::{ffi::c_void, num::Wrapping, ops::Neg};

impl private::Sealed for i8 {}
impl AtomicImpl for i8 {
    type Delta = Self;
}

// A volatile access of a byte is what `READ_ONCE()` and `WRITE_ONCE()` are.
impl AtomicBasicOps for i8 {
    #[inline(always)]
    fn atomic_read(a: &AtomicRepr<Self>) -> Self {
        // SAFETY: The pointer is valid, since it comes from a reference.
        unsafe { a.as_ptr().read_volatile() }
    }

    fn atomic_read_acquire(a: &AtomicRepr<Self>) -> Self {
        let value = Self::atomic_read(a);
        smp_full_mb();
        value
    }

    #[inline(always)]
    fn atomic_set(a: &AtomicRepr<Self>, v: Self) {
        // SAFETY: The pointer is valid, and others access the byte with these functions alone.
        unsafe { a.as_ptr().write_volatile(v) }
    }

    fn atomic_set_release(a: &AtomicRepr<Self>, v: Self) {
        smp_full_mb();
        Self::atomic_set(a, v);
    }
}

// SAFETY: The size and the alignment are equal, and `true` and `false` are the numbers 1 and 0.
unsafe impl AtomicType for bool {
    type Repr = i8;
}

/// An integer that is as large as a pointer.
type Word = <isize as AtomicType>::Repr;

/// A pointer, which C's functions for integers read and write.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Address(*const c_void);

// SAFETY: Threads may pass each other any address. A dereference needs a proof of its own.
unsafe impl Send for Address {}

impl private::Sealed for Address {}
impl AtomicImpl for Address {
    type Delta = isize;
}

#[inline(always)]
fn address(word: Word) -> Address {
    Address(word as usize as *const c_void)
}

#[inline(always)]
fn word(address: Address) -> Word {
    address.0 as usize as Word
}

#[inline(always)]
fn words(a: &AtomicRepr<Address>) -> &AtomicRepr<Word> {
    // SAFETY: Both have the size and the alignment of a pointer, and all numbers are addresses.
    unsafe { &*core::ptr::from_ref(a).cast() }
}

macro_rules! as_words {
    ($($read:ident $write:ident)*) => {$(
        #[inline(always)]
        fn $read(a: &AtomicRepr<Self>) -> Self {
            address(Word::$read(words(a)))
        }
        #[inline(always)]
        fn $write(a: &AtomicRepr<Self>, v: Self) {
            Word::$write(words(a), word(v))
        }
    )*};
    ($($exchange:ident, $compare:ident;)*) => {$(
        #[inline(always)]
        fn $exchange(a: &AtomicRepr<Self>, v: Self) -> Self {
            address(Word::$exchange(words(a), word(v)))
        }
        #[inline(always)]
        fn $compare(a: &AtomicRepr<Self>, old: &mut Self, new: Self) -> bool {
            let mut before = word(*old);
            let done = Word::$compare(words(a), &mut before, word(new));
            *old = address(before);
            done
        }
    )*};
}

impl AtomicBasicOps for Address {
    as_words!(atomic_read atomic_set atomic_read_acquire atomic_set_release);
}

impl AtomicExchangeOps for Address {
    as_words! {
        atomic_xchg, atomic_try_cmpxchg;
        atomic_xchg_acquire, atomic_try_cmpxchg_acquire;
        atomic_xchg_release, atomic_try_cmpxchg_release;
        atomic_xchg_relaxed, atomic_try_cmpxchg_relaxed;
    }
}

// SAFETY: An `Address` is such a pointer.
unsafe impl<T> AtomicType for *mut T {
    type Repr = Address;
}
// SAFETY: As above.
unsafe impl<T> AtomicType for *const T {
    type Repr = Address;
}

impl<T: AtomicType<Repr: AtomicArithmeticOps>> Atomic<T> {
    /// Subtracts, and wraps; the value before that.
    #[inline(always)]
    pub fn fetch_sub<Rhs, Ordering: ordering::Ordering>(&self, v: Rhs, order: Ordering) -> T
    where
        T: AtomicAdd<Rhs>,
        Wrapping<Rhs>: Neg<Output = Wrapping<Rhs>>,
    {
        self.fetch_add((-Wrapping(v)).0, order)
    }
}

/// A `bool` that can be exchanged.
pub struct AtomicFlag(Atomic<u32>);

impl AtomicFlag {
    /// Makes a flag.
    pub const fn new(value: bool) -> Self {
        Self(Atomic::new(value as u32))
    }

    /// Sets it to `new`; the value before that.
    pub fn xchg<Ordering: ordering::Ordering>(&self, new: bool, order: Ordering) -> bool {
        self.0.xchg(new.into(), order) != 0
    }
}
