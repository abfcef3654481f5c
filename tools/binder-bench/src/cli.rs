// SPDX-License-Identifier: GPL-2.0
//! The command line.

use std::path::PathBuf;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;

use crate::clock::Source;
use crate::result::Workload;

/// Measures Binder drivers over raw ioctls, next to pipe and SEQPACKET ping-pongs in the same run.
///
/// Run it once per boot and driver, boots of the drivers taking turns, then give all results to `report`:
///
///   binder-bench run --driver c --output c-1.json
///   binder-bench report *.json
///
/// Exit codes: 0 done, 1 a system call or the driver failed, 2 bad argument, 3 no Binder here, 4 not permitted,
/// 5 a process of the benchmark died or hung, 6 a result file cannot be used.
#[derive(Parser)]
#[command(version, verbatim_doc_comment)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Measure the driver that is loaded now.
    Run(Box<RunArgs>),
    /// Merge results into a table.
    Report(ReportArgs),
    /// Print the JSON schema of result files.
    Schema,
}

/// What and how to measure.
#[derive(Args)]
pub struct RunArgs {
    /// Label of the driver in the result: `rust`, `c`, `upstream` …
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub driver: String,
    /// Where to find a device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// What carries the calls.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Workload::Binder, Workload::Pipe, Workload::Seqpacket])]
    pub workloads: Vec<Workload>,
    /// Payloads in bytes; a reply is as large as its request.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 4096, 65536], value_parser = clap::value_parser!(u32).range(0..=131072))]
    pub sizes: Vec<u32>,
    /// Numbers of client/server pairs that run at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub pairs: Vec<u32>,
    /// Seconds for each combination of workload, payload and pairs, spread over short blocks.
    #[arg(long, default_value_t = 0.5, value_parser = positive_seconds)]
    pub seconds: f64,
    /// Round trips of each client for each combination, instead of a time.
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub iterations: Option<u64>,
    /// Length of a block in milliseconds.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub block_ms: u64,
    /// Where the two processes of a pair run.
    #[arg(long, value_enum, default_value_t = Placement::Same)]
    pub placement: Placement,
    /// CPUs to use. By default all; in User Mode Linux the first, since its CPUs usually share one of the host's.
    #[arg(long, value_delimiter = ',')]
    pub cpus: Option<Vec<usize>>,
    /// Clock for single round trips; by default the time-stamp counter where it is steady.
    #[arg(long, value_enum)]
    pub clock: Option<Source>,
    /// Count instructions exactly instead: for a guest under `qemu -icount shift=0`, one pair.
    #[arg(long, conflicts_with_all = ["seconds", "iterations", "block_ms", "pairs", "clock"])]
    pub count: bool,
    /// Lengths of the short and the long window of `--count` in round trips, such as `10,40`.
    #[arg(long, requires = "count", value_parser = two_lengths)]
    pub windows: Option<(u64, u64)>,
    /// Where to write the result, as JSON; `-` is the standard output.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Say nothing while running.
    #[arg(long)]
    pub quiet: bool,
}

/// Where to find a device. Without any of these: `/dev/binderfs` if it is mounted, else an instance of our own.
#[derive(Args)]
#[group(multiple = false)]
pub struct DeviceArgs {
    /// Use this device; it must not have a context manager yet.
    #[arg(long)]
    pub device: Option<PathBuf>,
    /// Add a device of our own to the binderfs mounted here.
    #[arg(long)]
    pub binderfs: Option<PathBuf>,
    /// Mount an instance of binderfs for this run.
    #[arg(long)]
    pub mount: bool,
}

/// Where the two processes of a pair run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// Both on one CPU; pairs take turns through the CPUs of `--cpus`.
    Same,
    /// On two different CPUs, where `--cpus` has more than one.
    Other,
    /// Wherever the scheduler likes.
    Free,
}

impl Placement {
    /// The name in result files.
    pub fn name(self) -> &'static str {
        match self {
            Placement::Same => "same",
            Placement::Other => "other",
            Placement::Free => "free",
        }
    }
}

/// Which table to print.
#[derive(Args)]
pub struct ReportArgs {
    /// Results of `run`.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The driver that the others are compared with.
    #[arg(long, default_value = "c")]
    pub base: String,
    /// As Markdown.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

fn two_lengths(text: &str) -> Result<(u64, u64), String> {
    let parsed =
        text.split_once(',').and_then(|(short, long)| Some((short.parse().ok()?, long.parse().ok()?)));
    match parsed {
        Some((short, long)) if 0 < short && short < long => Ok((short, long)),
        _ => Err("must be two numbers, the smaller first, such as 10,40".into()),
    }
}

fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 86_400.0 => Ok(value),
        Ok(_) => Err("must be more than 0 and at most 86400".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bad_arguments_are_refused() {
        for line in [
            "b run",
            "b run --driver c --pairs 0",
            "b run --driver c --sizes 131073",
            "b run --driver c --seconds 0",
            "b run --driver c --seconds nan",
            "b run --driver c --iterations 5 --seconds 1",
            "b run --driver c --windows 5,6",
            "b run --driver c --count --windows 6,5",
            "b run --driver c --count --windows 6",
            "b run --driver c --count --pairs 2",
            "b run --driver c --device a --mount",
            "b report",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn lists_are_split_at_commas() {
        let Command::Run(run) = parse("b run --driver c --sizes 0,7 --pairs 3").unwrap().command else {
            panic!("run was asked for")
        };
        assert_eq!((run.sizes, run.pairs), (vec![0, 7], vec![3]));
    }
}
