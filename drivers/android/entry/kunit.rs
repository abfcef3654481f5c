// SPDX-License-Identifier: GPL-2.0

//! The KUnit suite of the module's initialisation. Those of [`page_range`] and [`cpu_rings`] are in
//! the same folders as their sources.
//!
//! [`page_range`]: crate::kernel_ext::page_range
//! [`cpu_rings`]: crate::kernel_ext::cpu_rings

use kernel::prelude::*;

#[kunit_tests(binder_module)]
mod module {
    use crate::{
        entry::ffi::Devices,
        kernel_ext::expect::{ensure_eq, Failed}, //
    };
    use kernel::error::code::EBUSY;

    #[test]
    fn lesson_s16_devices_are_made_once() -> Result<(), Failed> {
        // Module init has made the devices.
        ensure_eq!(Devices::make(false).err(), Some(EBUSY));
        Ok(())
    }
}
