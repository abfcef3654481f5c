// SPDX-License-Identifier: GPL-2.0
//! What the coordinator and the processes of a run say to each other.

use serde::Deserialize;
use serde::Serialize;

/// What a client is told before it measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Bytes of a request.
    pub size: u32,
    /// Whatever else varies; each workload says what it means.
    pub variant: u32,
}

/// What a client saw in one block.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Samples {
    /// Clock at the first start.
    pub start: u64,
    /// Clock at the last end; what was not measured in between has been left out.
    pub end: u64,
    /// Ticks of each call.
    pub ticks: Vec<u64>,
    /// Calls before those that count, and those.
    pub calls: u64,
    /// CPU time of the client for the calls that count, in nanoseconds. None if it cannot be told from that of
    /// preparations.
    pub cpu_ns: Option<u64>,
}

/// When a block ends: whichever comes first.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// After so many calls.
    pub calls: u64,
    /// After so many ticks.
    pub ticks: u64,
}

/// What the coordinator asks of a client.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Time single calls.
    Block {
        /// What they are like.
        setting: Setting,
        /// Calls before the first that counts.
        warmup: u64,
        /// When to stop.
        limit: Limit,
    },
    /// Make so many more of what the process is there for.
    Make(u64),
    /// Count calls as a whole.
    Window {
        /// What they are like.
        setting: Setting,
        /// How many.
        calls: u64,
        /// How many clients have come together by then, since the run began, when all that are to start together are there; 0 for
        /// one that need not wait for others.
        gathered: u64,
    },
}

/// What a process tells the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Set up.
    Ready,
    /// A block is done.
    Samples(Samples),
    /// A window took so many ticks.
    Ticks(u64),
    /// It cannot go on.
    Failed {
        /// The exit code that this would be.
        code: u8,
        /// Why.
        text: String,
    },
}
