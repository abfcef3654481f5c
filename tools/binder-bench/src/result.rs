// SPDX-License-Identifier: GPL-2.0
//! The result file: what one run on one boot of one driver saw.
//!
//! `binder-bench schema` prints the JSON schema that follows from these types.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

use crate::error::Context;
use crate::error::Error;
use crate::error::Result;

/// The version of this format; a file with another one is refused.
pub const SCHEMA: u32 = 1;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunFile {
    /// Version of this format.
    pub schema: u32,
    /// The label given with `--driver`, for instance `c`, `rust` or `upstream`.
    pub driver: String,
    /// Where the run took place.
    pub environment: Environment,
    /// One entry for each combination of workload, payload and number of pairs.
    pub cells: Vec<Cell>,
}

/// Facts about the machine that the run took place on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Version of binder-bench.
    pub tool: String,
    /// Kernel release and version as `uname` tells them.
    pub kernel: String,
    /// Machine as `uname` tells it.
    pub machine: String,
    /// CPUs that the run was allowed to use.
    pub cpus: Vec<usize>,
    /// Random id of the boot.
    pub boot_id: String,
    /// Clock behind all times: `tsc` or `monotonic`.
    pub clock: String,
    /// Where the processes of a pair ran: `same`, `other` or `free`.
    pub placement: String,
    /// Binder protocol version that the driver reported.
    pub protocol: i32,
}

/// Who carries the request and the reply.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// A synchronous Binder transaction through an ordinary handle.
    Binder,
    /// Two pipes.
    Pipe,
    /// A pair of `AF_UNIX` `SOCK_SEQPACKET` sockets.
    Seqpacket,
}

impl Workload {
    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Binder => "binder",
            Workload::Pipe => "pipe",
            Workload::Seqpacket => "seqpacket",
        }
    }
}

/// One point of the measurement: this workload, this payload, this many pairs at once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Who carries the request.
    pub workload: Workload,
    /// Payload of the request in bytes, and of the reply. For pipe and SEQPACKET 0 stands for one byte.
    pub size: u32,
    /// Client/server pairs that ran at the same time.
    pub pairs: u32,
    /// What was measured.
    pub measured: Measured,
}

/// What was measured in a cell.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measured {
    /// Time of each round trip.
    Latency(Latency),
    /// Guest instructions per round trip.
    Count(Count),
}

/// Times of all round trips of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The short blocks that this cell was measured in, in the order of time.
    pub blocks: Vec<Block>,
    /// All samples of all blocks: pairs of (nanoseconds, samples), ascending, three significant digits.
    pub histogram: Vec<(u64, u64)>,
}

/// One uninterrupted stretch of round trips of all pairs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Round trips of all clients.
    pub calls: u64,
    /// Nanoseconds from the first start to the last end among the clients.
    pub wall_ns: f64,
    /// Average nanoseconds of a round trip.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// Worst.
    pub max_ns: f64,
}

/// Exact instruction counts of a cell.
///
/// A window is `n` round trips between two readings of the clock. Windows of both lengths alternate; the
/// difference of their lower quartiles, divided by the difference of their lengths, has no trace of the readings.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// Round trips in a short window.
    pub n1: u64,
    /// Round trips in a long window.
    pub n2: u64,
    /// Instructions of each short window.
    pub t1: Vec<u64>,
    /// Instructions of each long window.
    pub t2: Vec<u64>,
    /// Instructions per round trip.
    pub instructions: f64,
}

impl RunFile {
    /// Reads a file and checks its version.
    pub fn load(path: &Path) -> Result<RunFile> {
        let bad = |e: &dyn std::fmt::Display| Error::BadInput(format!("{}: {e}", path.display()));
        let text = fs::read(path).map_err(|e| bad(&e))?;
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|e| bad(&e))?;
        match value.get("schema").and_then(|v| v.as_u64()) {
            Some(v) if v == u64::from(SCHEMA) => {}
            Some(v) => return Err(bad(&format!("format {v}, this binder-bench reads format {SCHEMA}"))),
            None => return Err(bad(&"not a result of binder-bench")),
        }
        serde_json::from_value(value).map_err(|e| bad(&e))
    }

    /// Writes the file in one step: a reader never sees half of it, and an old one stays until then.
    pub fn save(&self, path: &Path) -> Result<()> {
        let part = part_path(path);
        let what = || format!("cannot write {}", part.display());
        let mut file = fs::File::create(&part).context(what())?;
        serde_json::to_writer(&mut file, self).map_err(std::io::Error::from).context(what())?;
        file.write_all(b"\n").context(what())?;
        fs::rename(&part, path).context(format!("cannot write {}", path.display()))
    }
}

/// Fails early, before an hour of measuring, when a result could not be written in the end.
pub fn check_writable(path: &Path) -> Result<()> {
    let part = part_path(path);
    fs::File::create(&part).context(format!("cannot write {}", path.display()))?;
    fs::remove_file(&part).context(format!("cannot write {}", path.display()))
}

fn part_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn sample(driver: &str) -> RunFile {
        RunFile {
            schema: SCHEMA,
            driver: driver.into(),
            environment: Environment {
                tool: "t".into(),
                kernel: "k".into(),
                machine: "m".into(),
                cpus: vec![0],
                boot_id: "b".into(),
                clock: "tsc".into(),
                placement: "same".into(),
                protocol: 8,
            },
            cells: vec![Cell {
                workload: Workload::Binder,
                size: 0,
                pairs: 1,
                measured: Measured::Count(Count {
                    n1: 1,
                    n2: 2,
                    t1: vec![3],
                    t2: vec![5],
                    instructions: 2.0,
                }),
            }],
        }
    }

    #[test]
    fn a_file_survives_the_way_to_disk_and_back() {
        let path = std::env::temp_dir().join(format!("bb-result-{}.json", std::process::id()));
        sample("c").save(&path).unwrap();
        let back = RunFile::load(&path).unwrap();
        assert_eq!(back.driver, "c");
        let Measured::Count(count) = &back.cells[0].measured else { panic!("a count went in") };
        assert_eq!((count.n1, count.n2, &count.t2[..]), (1, 2, &[5][..]));
        assert!(!part_path(&path).exists());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn foreign_and_future_files_are_refused() {
        let path = std::env::temp_dir().join(format!("bb-foreign-{}.json", std::process::id()));
        for (text, word) in [("{}", "not a result"), ("{\"schema\":99}", "format 99"), ("[", "EOF")] {
            fs::write(&path, text).unwrap();
            let error = RunFile::load(&path).unwrap_err();
            assert!(matches!(error, Error::BadInput(_)));
            assert!(error.to_string().contains(word), "{error}");
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_unwritable_place_is_found_before_the_run() {
        assert!(check_writable(Path::new("/nonexistent/dir/x.json")).is_err());
    }
}
