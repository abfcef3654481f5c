// SPDX-License-Identifier: GPL-2.0
//! The contents of the log files: each test makes a scene, and reads it there.

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

/// Sends it, and waits for its completion.
#[track_caller]
fn tell(sender: &Port, code: u32, data: &[u8]) {
    sender.tell(0, code, &bytes(data));
}

/// Makes the driver keep a record of a thread: our driver after a first read or write, C after any
/// ioctl.
fn known(port: &Port) {
    assert_eq!(port.drain(), []);
}
