// SPDX-License-Identifier: GPL-2.0

//! The KUnit suite of the module's initialisation. That of page ranges is in
//! `rust/kernel/page_range/`.

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
