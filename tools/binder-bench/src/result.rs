// SPDX-License-Identifier: GPL-2.0
//! The result file: the figures of one run on one boot of one driver.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Context, Kind, Result};

/// The version of this format; a file with another one is refused.
const SCHEMA: u32 = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunFile {
    pub schema: u32,
    /// The label given with `--driver`, for instance `c`, `rust` or `upstream`.
    pub driver: String,
    /// Facts about the machine that the run took place on, by name.
    pub environment: Environment,
    pub cells: Vec<Cell>,
}

pub type Environment = BTreeMap<String, String>;

/// The label of a measurement, unique within a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// The workload: a subcommand of binder-bench.
    pub workload: String,
    /// The case of the workload; empty if it has only one.
    pub case: String,
    /// Bytes of a request.
    pub size: u32,
    /// Bytes of its reply.
    pub reply: u32,
    /// Clients at the same time. Each has a server of its own, but in `fanin`.
    pub pairs: u32,
    /// Units behind one sample, which is their average.
    pub batch: u32,
    /// The other parameters of this workload.
    pub parameters: BTreeMap<String, u32>,
}

impl Label {
    /// Without bytes, by one client.
    pub fn new(workload: &str, case: &str) -> Label {
        Label {
            workload: workload.into(),
            case: case.into(),
            size: 0,
            reply: 0,
            pairs: 1,
            batch: 1,
            parameters: BTreeMap::new(),
        }
    }

    pub fn with(mut self, parameter: &str, value: u32) -> Label {
        self.parameters.insert(parameter.into(), value);
        self
    }

    /// Workload, case and parameters in a few words; without sizes and clients.
    pub fn title(&self) -> String {
        let mut words = vec![self.workload.clone()];
        if !self.case.is_empty() {
            words.push(self.case.clone());
        }
        words.extend(self.parameters.iter().map(|(name, value)| format!("{name}={value}")));
        words.join(" ")
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    #[serde(flatten)]
    pub label: Label,
    pub measured: Measured,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measured {
    Latency(Latency),
    Count(Count),
    Memory(Memory),
    Growth(Growth),
}

/// Times of all samples of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// The short blocks that this cell was measured in, in the order of time.
    pub blocks: Vec<Block>,
    /// All samples of all blocks: pairs of (nanoseconds, samples), ascending, three significant digits.
    pub histogram: Vec<(u64, u64)>,
}

/// One uninterrupted stretch of calls of all clients.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Block {
    /// Units of all clients.
    pub calls: u64,
    pub wall_ns: f64,
    /// Average nanoseconds of a unit.
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub max_ns: f64,
}

/// Exact instruction counts of a cell.
///
/// A window is `n` calls (of [`Label::batch`] units each) between two readings of the clock. Windows of both lengths
/// alternate; the difference of their means, the highest quarter left out, divided by the difference of their lengths
/// has no trace of the readings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Count {
    pub n1: u64,
    pub n2: u64,
    pub t1: Vec<u64>,
    pub t2: Vec<u64>,
    pub instructions: f64,
}

/// The growth of the kernel's memory while more and more objects were made.
///
/// A straight line is laid through the levels, and one through those of a control: the same done without what is in question. The
/// difference of their slopes is what an object costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// Levels, the first before the first object that counts.
    pub levels: Vec<Level>,
    /// Those of the control; none where there is nothing to take off.
    pub control: Vec<Level>,
    pub bytes: f64,
    /// Half the width of their 95 % interval.
    pub plus_minus: f64,
    /// The references of each kind that an ended object keeps, or the work of kernel threads at an object's end.
    pub references: BTreeMap<String, f64>,
}

/// The kernel's memory with a number of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    pub objects: u64,
    pub bytes: u64,
}

/// Instructions of one phase with more and more of something.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Growth {
    /// Operations of the phase where they are as many whatever there is; none where there is one for each.
    pub operations: Option<u64>,
    /// The first with one.
    pub points: Vec<Grown>,
    /// The reason why there are no larger numbers, if there are none.
    pub stopped: Option<String>,
}

/// The costs of one phase with a number of objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Grown {
    pub count: u64,
    /// Instructions of the whole phase, of all processes and the kernel: the fewest of all repetitions.
    pub instructions: u64,
    /// The places of the phase's repetitions among all phases of the run, by which a plugin of QEMU names them.
    pub places: Vec<u64>,
    /// The longest stretch with preemption off that executed code of the driver.
    pub preempt_off: Option<Stretch>,
    /// The same with interrupts off.
    pub irqs_off: Option<Stretch>,
}

/// Instructions without a chance for others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stretch {
    pub instructions: u64,
    /// The function of the driver that executed most of them, or was there first.
    pub function: String,
}

impl RunFile {
    pub fn new(driver: &str, environment: Environment, cells: Vec<Cell>) -> RunFile {
        RunFile { schema: SCHEMA, driver: driver.into(), environment, cells }
    }

    /// Reads a file and checks its version.
    pub fn load(path: &Path) -> Result<RunFile> {
        let bad = |e: &dyn std::fmt::Display| Kind::BadInput.error(format!("{}: {e}", path.display()));
        let text = fs::read(path).map_err(|e| bad(&e))?;
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|e| bad(&e))?;
        match value.get("schema").and_then(|v| v.as_u64()) {
            Some(v) if v == u64::from(SCHEMA) => {}
            Some(v) => return Err(bad(&format!("format {v}, this binder-bench reads format {SCHEMA}"))),
            None => return Err(bad(&"not a result of binder-bench")),
        }
        serde_json::from_value(value).map_err(|e| bad(&e))
    }
}

pub fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map(|text| text + "\n").context("cannot make JSON")
}

pub fn save(result: &impl Serialize, path: &Path) -> Result<()> {
    fs::write(path, json(result)?).context(format!("cannot write {}", path.display()))
}

/// Fails before the measurement if the result cannot be written.
pub fn check_writable(path: &Path) -> Result<()> {
    let file = fs::File::options().append(true).create(true).open(path);
    file.map(drop).context(format!("cannot write {}", path.display()))
}
