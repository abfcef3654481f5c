// SPDX-License-Identifier: GPL-2.0
//! The program's commands.

use std::path::PathBuf;

use clap::Args;
use clap::Parser;
use clap::Subcommand;

use crate::cli::Common;
use crate::cli::GrowthArgs;
use crate::growth;
use crate::memory::MemoryArgs;
use crate::memory::RetentionArgs;
use crate::paired::PairedArgs;
use crate::pressure::PressureArgs;
use crate::workload::catalogue;
use crate::workload::catalogue::Selected;
use crate::workload::Workload;

/// Measures Binder drivers over raw ioctls, next to pipes, sockets, futexes and eventfds in the same run.
///
/// Run it once per boot and driver, boots of the drivers taking turns, then give all results to `report`:
///
///   binder-bench throughput --driver c --output c-1.json
///   binder-bench report *.json
///
/// It brings its own context manager and its own device where binderfs is there, so nothing else is disturbed.
///
/// Exit codes: 0 done, 1 a system call or the driver failed, 2 bad argument, 3 no Binder here, 4 not permitted,
/// 5 a process of the benchmark died or hung, 6 a result file cannot be used, 7 no context manager (or a foreign one).
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
    /// Measure several workloads with their usual options, into one result.
    Run(Box<RunArgs>),
    /// One workload.
    #[command(flatten)]
    Workload(Selected),
    /// Bytes of kernel memory of an idle process, a thread, a node, a reference, a call that waits …
    Memory(Box<MemoryArgs>),
    /// Bytes of kernel memory that stay when a process, a thread, a call … has ended.
    Retention(Box<RetentionArgs>),
    /// Calls, each checked, while the kernel takes memory back, and while it does not.
    Pressure(Box<PressureArgs>),
    /// Round trips of two drivers in one kernel, in turns, by the same processes: for example `paired c=/dev/binderfs rust=/mnt`.
    Paired(Box<PairedArgs>),
    /// Instructions of operations on more and more of something: objects, handles, threads, calls that wait …
    #[command(mut_arg("quantities", |names| names.value_parser(growth::names())))]
    Growth(Box<GrowthArgs>),
    /// Be the context manager of a device, for runs with `--manager existing`; until it is killed.
    Manage(ManageArgs),
    /// Merge results into a table.
    Report(ReportArgs),
    /// Compare two results, or two lists of them, where both measured the same.
    Compare(CompareArgs),
    /// Print results as CSV: a line for each block of time and each window of instructions.
    Csv(CsvArgs),
    /// Print the JSON schema of result files.
    Schema,
}

impl Command {
    /// What there is to be measured, if anything.
    pub fn measurement(self) -> Result<(Common, Vec<Box<dyn Workload>>), Command> {
        match self {
            Command::Run(args) => {
                let workloads = args.workloads();
                Ok((args.common, workloads))
            }
            Command::Workload(selected) => Ok(selected.measurement()),
            other => Err(other),
        }
    }
}

/// Several workloads.
#[derive(Args)]
pub struct RunArgs {
    /// Which workloads, in this order.
    #[arg(long, value_delimiter = ',', default_value = "all", value_parser = workload_names())]
    pub workloads: Vec<String>,
    /// What is the same for all.
    #[command(flatten)]
    pub common: Common,
}

impl RunArgs {
    fn workloads(&self) -> Vec<Box<dyn Workload>> {
        let wanted = |name: &str| self.workloads.iter().any(|wish| wish == name || wish == "all");
        catalogue::all().into_iter().filter(|workload| wanted(workload.name())).collect()
    }
}

fn workload_names() -> clap::builder::PossibleValuesParser {
    let names = catalogue::all().into_iter().map(|workload| workload.name());
    ["all"].into_iter().chain(names).collect::<Vec<_>>().into()
}

/// Which table to print.
#[derive(Args)]
pub struct ReportArgs {
    /// Results of runs.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The driver that the others are compared with.
    #[arg(long, default_value = "c")]
    pub base: String,
    /// How to print it.
    #[command(flatten)]
    pub form: Form,
    /// Only the two tables that Rust Binder was first proposed with, for each driver next to the base.
    #[arg(long, conflicts_with = "json")]
    pub rfc: bool,
}

/// How to print a report.
#[derive(Args)]
#[group(multiple = false)]
pub struct Form {
    /// As Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// What to compare.
#[derive(Args)]
pub struct CompareArgs {
    /// What comes first: a result, or several boots of one driver with commas between them.
    #[arg(value_delimiter = ',', num_args = 1, required = true)]
    pub before: Vec<PathBuf>,
    /// What is compared with it.
    #[arg(value_delimiter = ',', num_args = 1, required = true)]
    pub after: Vec<PathBuf>,
    /// Compare also what comes from different machines or was measured differently.
    #[arg(long)]
    pub anyway: bool,
    /// How to print it.
    #[command(flatten)]
    pub form: Form,
}

/// What to print as CSV.
#[derive(Args)]
pub struct CsvArgs {
    /// Results of runs.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// Whose manager to be.
#[derive(Args)]
pub struct ManageArgs {
    /// The device.
    #[arg(long)]
    pub device: PathBuf,
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
            "b run --driver c --carriers telepathy",
            "b throughput --driver c --pairs 0",
            "b throughput --driver c --sizes 131073",
            "b run --driver c --seconds 0",
            "b run --driver c --seconds nan",
            "b run --driver c --iterations 5 --seconds 1",
            "b run --driver c --windows 5,6",
            "b run --driver c --count --windows 6,5",
            "b run --driver c --count --windows 6",
            "b run --driver c --count --seconds 2",
            "b run --driver c --device a --mount",
            "b report",
            "b report --markdown --json x",
            "b compare x",
            "b csv",
            "b manage",
            "b paired c=/dev/binderfs",
            "b paired c=/dev/binderfs /mnt",
            "b paired c=/a rust=/b --seconds 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn lists_are_split_at_commas() {
        let Command::Workload(Selected::Throughput(one)) =
            parse("b throughput --driver c --sizes 0,7 --pairs 3").unwrap().command
        else {
            panic!("throughput was asked for")
        };
        assert_eq!((one.options.sizes, one.options.pairs), (vec![0, 7], vec![3]));
    }

    #[test]
    fn whoever_names_sizes_gets_no_others() {
        for (line, wanted) in [
            ("", vec![1 << 20]),
            ("--sizes 0", vec![]),
            ("--large 0", vec![]),
            ("--sizes 0 --large 200000", vec![200_000]),
        ] {
            let Command::Workload(Selected::Throughput(one)) =
                parse(&format!("b throughput --driver c {line}")).unwrap().command
            else {
                panic!("throughput was asked for")
            };
            assert_eq!(one.options.large(), wanted, "{line}");
        }
    }

    #[test]
    fn the_sides_of_a_comparison_may_be_lists() {
        let Command::Compare(args) = parse("b compare a,b c").unwrap().command else {
            panic!("compare was asked for")
        };
        assert_eq!((args.before.len(), args.after.len()), (2, 1));
    }

    #[test]
    fn every_workload_has_a_subcommand_of_its_name() {
        for name in catalogue::all().iter().map(|workload| workload.name()) {
            let (common, workloads) =
                parse(&format!("b {name} --driver x")).unwrap().command.measurement().ok().unwrap();
            assert_eq!((common.run.driver.as_str(), workloads.len()), ("x", 1));
        }
        let (_, workloads) = parse("b run --driver x").unwrap().command.measurement().ok().unwrap();
        assert_eq!(workloads.len(), catalogue::all().len());
    }
}
