// SPDX-License-Identifier: GPL-2.0

//! The names of devices in the logs.

use crate::{
    process::Process,
    pure::printable, //
};
use kernel::fmt;

/// The name of the device of a process, to be shown in a line: as it is, but for what is no text of
/// one line.
pub(super) struct Name<'a>(pub(super) &'a [u8]);

impl<'a> Name<'a> {
    pub(super) fn of(process: &'a Process) -> Self {
        Self(process.context.name().to_bytes())
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        printable::write(self.0, f)
    }
}
