// SPDX-License-Identifier: GPL-2.0
//! A line of the table.

use super::latency::Summary;
use super::sample::Key;
use super::sample::Process;

/// A process, as a line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which one.
    pub key: Key,
    /// What it is called.
    pub name: String,
    /// What the log files say of it.
    pub process: Process,
    /// Calls a second that it is given; none after only one sample.
    pub calls_in: Option<f64>,
    /// Calls a second that it makes.
    pub calls_out: Option<f64>,
    /// How long the calls take that it serves.
    pub latency: Option<Summary>,
}
