// SPDX-License-Identifier: GPL-2.0
//! Numbers that several quantities have in common.

use nix::sys::resource::setrlimit;
use nix::sys::resource::Resource;

use crate::error::Context;
use crate::error::Result;

/// Operations of a phase that does not depend on how many there are.
pub const OPERATIONS: u64 = 16;

/// Open files that are enough for the largest number, twice.
const FILES: u64 = 40_000;

/// Lets the coordinator, and whom it starts from now on, open [`FILES`].
pub fn allow_files() -> Result<()> {
    setrlimit(Resource::RLIMIT_NOFILE, FILES, FILES).context("RLIMIT_NOFILE")
}
