// SPDX-License-Identifier: GPL-2.0

//! The kernel's spin lock, taken as C takes it.
//!
//! The crate's [`SpinLock`](kernel::sync::SpinLock) calls a function in C that calls the lock's own
//! function, and another one that asserts under lockdep that the lock is held. A null call takes
//! 17 locks; docs/architecture.md states what this module saves.

use kernel::{
    bindings,
    sync::lock::{Backend, Guard, Lock}, //
};

// Some kernels inline one of these functions, or sleep in it.
#[cfg(all(
    CONFIG_SMP,
    CONFIG_UNINLINE_SPIN_UNLOCK,
    not(any(CONFIG_INLINE_SPIN_LOCK, CONFIG_PREEMPT_RT))
))]
use bindings::{_raw_spin_lock as spin_lock, _raw_spin_unlock as spin_unlock};
#[cfg(not(all(
    CONFIG_SMP,
    CONFIG_UNINLINE_SPIN_UNLOCK,
    not(any(CONFIG_INLINE_SPIN_LOCK, CONFIG_PREEMPT_RT))
)))]
use bindings::{spin_lock, spin_unlock};

/// A spin lock. Its section may not sleep.
pub(crate) type SpinLock<T> = Lock<T, SpinLockBackend>;

/// Access to what a [`SpinLock`] guards.
pub(crate) type SpinLockGuard<'a, T> = Guard<'a, T, SpinLockBackend>;

/// Makes a [`SpinLock`] with a name for lockdep.
macro_rules! new_spin_lock {
    ($inner:expr, $name:literal) => {
        $crate::kernel_ext::spin_lock::SpinLock::new(
            $inner,
            kernel::optional_name!($name),
            kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_spin_lock;

/// The kernel's `spinlock_t`.
pub(crate) struct SpinLockBackend;

// SAFETY: `spinlock_t` excludes all others until it is unlocked, and is always locked by `lock`.
unsafe impl Backend for SpinLockBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    #[inline(always)]
    unsafe fn init(
        lock: *mut Self::State,
        name: *const kernel::ffi::c_char,
        key: *mut bindings::lock_class_key,
    ) {
        // SAFETY: The caller ensures that the lock is valid, and that the other two last for good.
        unsafe { bindings::__spin_lock_init(lock, name, key) }
    }

    #[inline(always)]
    unsafe fn lock(lock: *mut Self::State) {
        // SAFETY: The lock is valid and was initialised. It begins with its `raw_spinlock_t`.
        unsafe { spin_lock(lock.cast()) }
    }

    #[inline(always)]
    unsafe fn try_lock(lock: *mut Self::State) -> Option<()> {
        // SAFETY: The lock is valid and was initialised.
        (unsafe { bindings::spin_trylock(lock) } != 0).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(lock: *mut Self::State, (): &()) {
        // SAFETY: The caller owns the lock. It begins with its `raw_spinlock_t`.
        unsafe { spin_unlock(lock.cast()) }
    }

    #[inline(always)]
    unsafe fn assert_is_held(lock: *mut Self::State) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: The lock is valid and was initialised.
            unsafe { bindings::spin_assert_is_held(lock) }
        }
    }
}
