// SPDX-License-Identifier: GPL-2.0
//! What the log files say: each test makes a scene, and reads there what it has made.

pub mod counters;
pub mod debugfs;
pub mod files;
pub mod nodes;
pub mod past;
pub mod threads;
pub mod work;

use super::*;

/// A oneway call to the context manager, not sent.
fn oneway(sender: &Port, code: u32, data: &[u8]) -> BinderTransactionData {
    sender.place_oneway(0, code, &bytes(data))
}

/// Sends it, and waits until that is acknowledged.
#[track_caller]
fn tell(sender: &Port, code: u32, data: &[u8]) {
    sender.tell(0, code, &bytes(data));
}

/// Makes the driver keep a record of a thread: ours has none of those that never read or write, C of all that ask for
/// anything.
fn known(port: &Port) {
    assert_eq!(port.drain(), []);
}
