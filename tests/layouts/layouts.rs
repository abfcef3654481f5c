// SPDX-License-Identifier: GPL-2.0
//! Compares Rust's view of the kernel's structs with C's.
//!
//! The driver compares them when it is loaded, and its init fails if they differ (lesson S18). This
//! module does the comparison and nothing else, for a kernel without a proven driver.

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
