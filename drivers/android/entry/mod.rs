// SPDX-License-Identifier: GPL-2.0

//! The entry points of the driver: file operations, ioctls, and the two halves of
//! `BINDER_WRITE_READ`.

mod commands;
mod delivery;
#[allow(unsafe_code)]
pub(crate) mod ffi;
pub(crate) mod ioctls;
mod returns;
