// SPDX-License-Identifier: GPL-2.0
//! Whether Rust sees the kernel's structs as C does.
//!
//! The driver asks that itself when it is loaded, and does not stay otherwise (lesson S18). This module
//! asks the same, and does nothing else: for a kernel that is not to be trusted with a driver yet.

use kernel::prelude::*;

#[path = "../../rust/kernel/layouts.rs"]
mod layouts;

module! {
    type: Layouts,
    name: "layouts_test",
    authors: ["Rust Binder maintainers"],
    description: "Whether Rust sees the kernel's structs as C does",
    license: "GPL",
}

struct Layouts;

impl kernel::Module for Layouts {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        layouts::check().map(|()| Self)
    }
}
