// SPDX-License-Identifier: GPL-2.0

//! Binder, Android's inter-process communication: the parts that are there so far.
//!
//! A patch after the other adds modules, and the last of them the initialisation of the driver.
//! Until then the module registers nothing.

#![recursion_limit = "256"]
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![allow(dead_code, unused_imports, unused_macros)] // What uses it is not there yet.

// The modules.

use kernel::prelude::*;

module! {
    type: BinderModule,
    name: "binder_rust",
    authors: ["Rust Binder maintainers"],
    description: "Android Binder, incomplete",
    license: "GPL",
}

// Until the entry points are there.
// SAFETY: No file is opened as a process yet, and the function never returns.
#[allow(unsafe_code)]
unsafe impl kernel_ext::descriptors::OpenedAs for process::Process {
    fn operations() -> &'static kernel::bindings::file_operations {
        unreachable!()
    }
}
// End.

/// The module, which does nothing yet.
struct BinderModule;

impl kernel::Module for BinderModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Err(ENODEV)
    }
}
