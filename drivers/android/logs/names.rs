// SPDX-License-Identifier: GPL-2.0

//! The names of devices in the logs.

use super::FLAGS;
use crate::pure::printable;
use kernel::{
    fmt,
    prelude::*,
    str::CStr, //
};

/// Names that were copied, one behind the other.
#[derive(Default)]
pub(super) struct Names(KVVec<u8>);

/// Where a name is among them.
pub(super) struct Place {
    start: usize,
    end: usize,
}

impl Names {
    /// Copies a name. `ENOMEM`.
    pub(super) fn add(&mut self, name: &CStr) -> Result<Place> {
        let start = self.0.len();
        self.0.extend_from_slice(name.to_bytes(), FLAGS)?;
        let end = self.0.len();
        Ok(Place { start, end })
    }

    pub(super) fn get(&self, place: &Place) -> Name<'_> {
        Name(&self.0[place.start..place.end])
    }
}

/// The name of a device, to be shown in a line: as it is, but for what is no text of one line.
pub(super) struct Name<'a>(pub(super) &'a [u8]);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        printable::write(self.0, f)
    }
}
