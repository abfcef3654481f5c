// SPDX-License-Identifier: GPL-2.0
//! The program's commands.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};

use crate::cli::Common;
use crate::growth::{self, GrowthArgs};
use crate::inversion::{self, InversionArgs};
use crate::memory::{self, MemoryArgs};
use crate::paired::PairedArgs;
use crate::workload::{self, Selected, Workload};

/// Measures Binder drivers over raw ioctls.
///
/// Run it once per boot and driver, boots of the drivers taking turns, then give all results to `report`:
///
///   binder-bench throughput --driver c --output c-1.json
///   binder-bench report *.json
///
/// It uses its own context manager and its own device, so other processes are not disturbed.
///
/// Exit codes: 0 done, 1 a system call or the driver failed, 2 bad argument, 3 no Binder here, 4 not permitted,
/// 5 a process of the benchmark died or hung, 6 a result file cannot be used.
#[derive(Parser)]
#[command(version, verbatim_doc_comment)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Measure several workloads with their usual options, into one result.
    Run(Box<RunArgs>),
    /// Measure one workload.
    #[command(flatten)]
    Workload(Selected),
    /// Measure bytes of kernel memory of an idle process, a thread, a node, a reference, a call that waits …
    #[command(mut_arg("kinds", |kinds| kinds.long("objects").value_parser(of(memory::OBJECTS, |one| one.option))))]
    Memory(Box<MemoryArgs>),
    /// Measure bytes of kernel memory that stay when a process, a thread, a call … has ended.
    #[command(mut_arg("kinds", |kinds| kinds.long("endings").value_parser(of(memory::ENDINGS, |one| one.option))))]
    Retention(Box<MemoryArgs>),
    /// Measure round trips of two drivers in one kernel, in turns, by the same processes, such as `paired c=/dev/binderfs rust=/mnt`.
    Paired(Box<PairedArgs>),
    /// Count instructions of operations with more and more objects, handles, threads, calls that wait …
    #[command(mut_arg("quantities", |names| names.value_parser(of(growth::ALL, |one| one.name))))]
    Growth(Box<GrowthArgs>),
    /// Measure waits for a process that is preempted in the middle of an operation.
    #[command(mut_arg("operations", |names| names.value_parser(of(inversion::OPERATIONS, |one| one.name))))]
    Inversion(Box<InversionArgs>),
    /// Merge results into a table.
    Report(ReportArgs),
}

#[derive(Args)]
pub struct RunArgs {
    /// Run these workloads, in this order.
    #[arg(long, value_delimiter = ',', default_value = "all", value_parser = workload_names())]
    pub workloads: Vec<String>,
    #[command(flatten)]
    pub common: Common,
}

impl RunArgs {
    pub fn workloads(&self) -> Vec<Box<dyn Workload>> {
        let wanted = |name: &str| self.workloads.iter().any(|wish| wish == name || wish == "all");
        workload::all().into_iter().filter(|(name, _)| wanted(name)).map(|(_, workload)| workload).collect()
    }
}

fn of<T>(all: &'static [T], name: fn(&T) -> &'static str) -> PossibleValuesParser {
    all.iter().map(name).collect::<Vec<_>>().into()
}

fn workload_names() -> PossibleValuesParser {
    let names = workload::all().into_iter().map(|(name, _)| name);
    ["all"].into_iter().chain(names).collect::<Vec<_>>().into()
}

#[derive(Args)]
pub struct ReportArgs {
    /// Read these results of runs.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Compare the other drivers with this one.
    #[arg(long, default_value = "c")]
    pub base: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
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
            "b run --driver c --workloads nonsense",
            "b throughput --driver c --pairs 0",
            "b throughput --driver c --sizes 131073",
            "b run --driver c --seconds 0",
            "b run --driver c --seconds nan",
            "b run --driver c --windows 5,6",
            "b run --driver c --count --windows 6,5",
            "b run --driver c --count --windows 6",
            "b run --driver c --count --seconds 2",
            "b run --driver c --device a --binderfs b",
            "b report",
            "b paired c=/dev/binderfs",
            "b paired c=/dev/binderfs /mnt",
            "b paired c=/a rust=/b --seconds 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
