// SPDX-License-Identifier: GPL-2.0

//! The way from one process to the next.

use super::Log;
use crate::{
    lifecycle::registry,
    process::Process, //
};
use kernel::sync::Arc;

pub(super) use registry::{key, of_key, Key, OpenedUntil, FIRST_KEY as FIRST};

/// Returns the key of the first process that a log may show.
pub(super) fn first_key(log: Log) -> Key {
    match log {
        Log::Process(pid) => (pid, i64::MIN),
        _ => FIRST,
    }
}

/// Returns the first process that a log shows, of those that were `opened`, and whose key is not
/// less than `from`.
pub(super) fn first_from(log: Log, opened: OpenedUntil, from: Key) -> Option<Arc<Process>> {
    let process = opened.first_from(from)?;
    match log {
        Log::Process(pid) if process.pid() != pid => None,
        _ => Some(process),
    }
}

/// Returns the least key that is greater.
pub(super) fn behind((pid, opening): Key) -> Key {
    (pid, opening + 1)
}
