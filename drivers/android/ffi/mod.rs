// SPDX-License-Identifier: GPL-2.0

//! What the driver calls of its own C files, each as a safe function: the counterpart of
//! [`entry::ffi`](crate::entry::ffi), which C calls. And the structures that it shares with C.

pub(crate) mod netlink;
pub(crate) mod structs;
pub(crate) mod trace;

use core::marker::PhantomData;
use kernel::{
    ffi::c_char,
    prelude::*,
    str::CStrExt, //
};

/// A text for C.
///
/// # Invariants
///
/// It points to a string that ends with a zero byte and that is not written or freed during `'a`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Self {
        // INVARIANT: A `CStr` is such a string, and borrowed for `'a`.
        Self(text.as_char_ptr(), PhantomData)
    }
}
