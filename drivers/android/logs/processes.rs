// SPDX-License-Identifier: GPL-2.0

//! The way from one process to the next.

use super::Log;
use crate::{
    lifecycle::registry::{self, key},
    process::Process, //
};
use kernel::sync::Arc;

pub(super) use registry::Key;

/// Returns the key of the first process that a log may show.
pub(super) fn first_key(log: Log) -> Key {
    match log {
        Log::Process(pid) => (pid, i64::MIN),
        _ => (i32::MIN, i64::MIN),
    }
}

/// Returns the first process that a log shows and whose key is not less than `from`.
pub(super) fn first_from(log: Log, from: Key) -> Option<Arc<Process>> {
    let process = registry::first_from(from)?;
    match log {
        Log::Process(pid) if process.pid() != pid => None,
        _ => Some(process),
    }
}

/// Returns a key that is greater than that of `process`, and not greater than that of any other process
/// behind it.
pub(super) fn key_behind(process: &Process) -> Key {
    let (pid, opening) = key(process);
    (pid, opening + 1)
}
