// SPDX-License-Identifier: GPL-2.0

//! Block devices whose requests user space handles: what `ublk_drv` is, in Rust.
//!
//! [`control`] adds and deletes devices. A [`device`] has a disk and a server, and [`queue`]s between
//! them. [`serve`] is what the server does, [`params`] what it may set, and [`policy`] is for the
//! time without one. [`latency`] shows how long servers take. [`edge`] has the kernel's types.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

mod control;
mod device;
#[allow(unsafe_code)]
mod edge;
mod latency;
mod params;
mod policy;
mod queue;
mod serve;

use control::Control;
use edge::{ControlFile, Shared};
use kernel::{prelude::*, sync::Arc};

module! {
    type: Ublk,
    name: "ublk_rust",
    authors: ["Rust Binder maintainers"],
    description: "Block devices in user space",
    license: "GPL",
}

/// The module while it is loaded.
struct Ublk {
    file: Option<Pin<KBox<ControlFile>>>,
    control: Arc<Control>,
    /// Ends last, and waits for all works.
    _shared: Shared,
}

impl kernel::Module for Ublk {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let shared = Shared::new()?;
        let control = Control::new()?;
        Ok(Self {
            file: Some(ControlFile::add(control.clone())?),
            control,
            _shared: shared,
        })
    }
}

impl Drop for Ublk {
    fn drop(&mut self) {
        self.file = None;
        self.control.remove_all();
    }
}
