// SPDX-License-Identifier: GPL-2.0

//! What differs between the kernels that the driver compiles for, Linux 7.2 and 7.3: this file
//! alone has a condition on the kernel's version.
//!
//! On Linux 7.3 each item is the `kernel` crate's own, on 7.2 it is what stands in for it.

use core::borrow::Borrow;

#[cfg(not(before_linux_7_3))]
mod linux_7_3 {
    use kernel::{
        bindings,
        sync::barrier::{smp_mb, Read, Write},
        task::{Pid, Task},
        ModuleMetadata,
    };

    pub(crate) use kernel::error::code::EPROTO;

    #[inline(always)]
    pub(crate) fn smp_rmb() {
        smp_mb(Read);
    }

    #[inline(always)]
    pub(crate) fn smp_wmb() {
        smp_mb(Write);
    }

    pub(crate) const fn this_module<M: ModuleMetadata>() -> *mut bindings::module {
        kernel::module::this_module::<M>().as_ptr()
    }

    #[inline(always)]
    pub(crate) fn tgid(task: &Task) -> Pid {
        task.tgid()
    }
}

#[cfg(before_linux_7_3)]
mod linux_7_2 {
    use core::{mem::transmute, num::NonZeroI32};
    use kernel::{
        bindings,
        error::Error,
        task::{Pid, Task},
        types::Opaque,
    };

    pub(crate) use kernel::sync::barrier::{smp_rmb, smp_wmb};

    /// Protocol error.
    // SAFETY: `Error` is a struct of one field, of the type that is given, and of its size, which
    // the compiler checks. The value is between `-MAX_ERRNO` and -1.
    pub(crate) const EPROTO: Error =
        unsafe { transmute(NonZeroI32::new(-(bindings::EPROTO as i32)).unwrap()) };

    #[allow(improper_ctypes)] // Its address is all that is used of it.
    extern "C" {
        /// The module itself, as the kernel's build defines it.
        static __this_module: Opaque<bindings::module>;
    }

    /// Returns this module; of built-in drivers Linux 7.2 has none that are ours.
    pub(crate) const fn this_module<M>() -> *mut bindings::module {
        Opaque::cast_into(&raw const __this_module)
    }

    #[inline(always)]
    pub(crate) fn tgid(task: &Task) -> Pid {
        // SAFETY: The task is there, and its `tgid` never changes.
        unsafe { (*task.as_ptr()).tgid }
    }
}

/// The value of a parameter of the module. Linux 7.3 gives it, 7.2 a reference to it.
pub(crate) fn value_of(parameter: impl Borrow<u8>) -> u8 {
    *parameter.borrow()
}

#[cfg(before_linux_7_3)]
pub(crate) use linux_7_2::*;
#[cfg(not(before_linux_7_3))]
pub(crate) use linux_7_3::*;
