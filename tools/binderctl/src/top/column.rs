// SPDX-License-Identifier: GPL-2.0
//! The columns of the table.

use std::cmp::Ordering;

use super::row::Row;
use crate::trace::text::duration;

/// A column, by which rows can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Column {
    /// The process's number.
    Pid,
    /// Its name.
    Name,
    /// The device.
    Device,
    /// Threads that use the device.
    Threads,
    /// Threads that make or serve a call.
    Busy,
    /// Threads that wait for work.
    Idle,
    /// Nodes that it owns.
    Nodes,
    /// References that it holds.
    Refs,
    /// Buffers in its space.
    Buffers,
    /// Calls a second that it is given.
    In,
    /// Calls a second that it makes.
    Out,
    /// Bytes that oneway calls may still take.
    Oneway,
    /// Half of the calls that it serves take no longer.
    Median,
    /// 99 % of the calls that it serves take no longer.
    P99,
}

/// All of them, from left to right.
pub const COLUMNS: [Column; 14] = {
    use Column::*;
    [Pid, Name, Device, Threads, Busy, Idle, Nodes, Refs, Buffers, In, Out, Oneway, Median, P99]
};

impl Column {
    /// What stands above it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Name => "PROCESS",
            Self::Device => "DEVICE",
            Self::Threads => "THR",
            Self::Busy => "BUSY",
            Self::Idle => "IDLE",
            Self::Nodes => "NODES",
            Self::Refs => "REFS",
            Self::Buffers => "BUFS",
            Self::In => "IN/s",
            Self::Out => "OUT/s",
            Self::Oneway => "1WAY",
            Self::Median => "MEDIAN",
            Self::P99 => "P99",
        }
    }

    /// Its width in a terminal of a width; none if there is no room for it.
    pub fn width(self, terminal: usize) -> Option<usize> {
        let is_wide = terminal >= 110;
        match self {
            Self::Pid => Some(7),
            Self::Name => Some(if is_wide { 16 } else { 12 }),
            Self::Device => is_wide.then_some(12),
            Self::Threads | Self::Busy => Some(4),
            Self::Idle | Self::Buffers => is_wide.then_some(5),
            Self::Nodes | Self::Refs => Some(5),
            Self::In | Self::Out => Some(7),
            Self::Oneway => Some(5),
            Self::Median | Self::P99 => Some(6),
        }
    }

    /// Whether it is text, which stands to the left.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::Device)
    }

    /// What stands in it.
    pub fn cell(self, row: &Row) -> String {
        let process = &row.process;
        let rate = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.0}"));
        match self {
            Self::Pid => row.key.pid.to_string(),
            Self::Name => row.name.clone(),
            Self::Device => process.context.clone(),
            Self::Threads => process.threads.len().to_string(),
            Self::Busy => process.busy().to_string(),
            Self::Idle => process.idle().to_string(),
            Self::Nodes => process.nodes.to_string(),
            Self::Refs => process.references.to_string(),
            Self::Buffers => process.buffers.to_string(),
            Self::In => rate(row.calls_in),
            Self::Out => rate(row.calls_out),
            Self::Oneway => process.oneway_free.map_or("-".into(), bytes),
            Self::Median => duration(row.latency.map(|latency| latency.median)),
            Self::P99 => duration(row.latency.map(|latency| latency.p99)),
        }
    }

    /// The order of two rows: names go up, and of numbers the largest is the first.
    pub fn order(self, one: &Row, other: &Row) -> Ordering {
        let by = |number: fn(&Row) -> f64| number(other).total_cmp(&number(one));
        match self {
            Self::Pid => one.key.cmp(&other.key),
            Self::Name => one.name.cmp(&other.name),
            Self::Device => one.process.context.cmp(&other.process.context),
            Self::Threads => by(|row| row.process.threads.len() as f64),
            Self::Busy => by(|row| row.process.busy() as f64),
            Self::Idle => by(|row| row.process.idle() as f64),
            Self::Nodes => by(|row| row.process.nodes as f64),
            Self::Refs => by(|row| row.process.references as f64),
            Self::Buffers => by(|row| row.process.buffers as f64),
            Self::In => by(|row| row.calls_in.unwrap_or(-1.0)),
            Self::Out => by(|row| row.calls_out.unwrap_or(-1.0)),
            // Who has least is in most trouble.
            Self::Oneway => by(|row| -row.process.oneway_free.map_or(f64::MAX, |free| free as f64)),
            Self::Median => by(|row| row.latency.map_or(-1.0, |latency| latency.median as f64)),
            Self::P99 => by(|row| row.latency.map_or(-1.0, |latency| latency.p99 as f64)),
        }
    }
}

/// Bytes in the unit that fits them.
pub fn bytes(count: i64) -> String {
    match count {
        ..10_240 => count.to_string(),
        10_240..10_485_760 => format!("{}K", count >> 10),
        _ => format!("{}M", count >> 20),
    }
}
