// SPDX-License-Identifier: GPL-2.0

//! The names of devices in the logs.

use crate::pure::printable;
use kernel::{
    fmt,
    str::CStr, //
};

/// The name of a device, to be shown in a line: as it is, but for what is no text of one line.
pub(super) struct Name<'a>(pub(super) &'a CStr);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        printable::write(self.0.to_bytes(), f)
    }
}
