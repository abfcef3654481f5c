// SPDX-License-Identifier: GPL-2.0
//! The command line.

use std::path::PathBuf;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;

use crate::clock::Source;
use crate::growth;
use crate::memory::Ending;
use crate::memory::Object;
use crate::pressure;
use crate::pressure::Kind;
use crate::result::Carrier;
use crate::workload;
use crate::workload::death;
use crate::workload::fanin;
use crate::workload::fds;
use crate::workload::freeze;
use crate::workload::handles;
use crate::workload::nested;
use crate::workload::objects;
use crate::workload::oneway;
use crate::workload::rpc;
use crate::workload::spam;
use crate::workload::throughput;
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
    /// AOSP's binderThroughputTest: client/server pairs times payloads.
    Throughput(Box<One<throughput::Options>>),
    /// AOSP's binderRpcBenchmark: ping, arrays of bytes, a string of two pages, a new binder.
    Rpc(Box<One<rpc::Options>>),
    /// Batches of calls that nobody answers.
    Oneway(Box<One<oneway::Options>>),
    /// Files sent along with calls.
    Fds(Box<One<fds::Options>>),
    /// Binder objects sent along with calls, dropped each time or held.
    Objects(Box<One<objects::Options>>),
    /// Many clients, one server process with a pool of threads.
    Fanin(Box<One<fanin::Options>>),
    /// Calls inside calls, down to some depth.
    Nested(Box<One<nested::Options>>),
    /// Freezing and thawing an idle process.
    Freeze(Box<One<freeze::Options>>),
    /// Death notifications: asked for and withdrawn, and sent.
    Death(Box<One<death::Options>>),
    /// A new handle in a process that has up to 100 000 already.
    Handles(Box<One<handles::Options>>),
    /// Oneway calls to a process whose space is nearly full.
    Spam(Box<One<spam::Options>>),
    /// Bytes of kernel memory of an idle process, a thread, a node, a reference, a call that waits …
    Memory(Box<MemoryArgs>),
    /// Bytes of kernel memory that stay when a process, a thread, a call … has ended.
    Retention(Box<RetentionArgs>),
    /// Calls, each checked, while the kernel takes memory back, and while it does not.
    Pressure(Box<PressureArgs>),
    /// Instructions of operations on more and more of something: objects, handles, threads, calls that wait …
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
            Command::Throughput(one) => Ok(one.parts()),
            Command::Rpc(one) => Ok(one.parts()),
            Command::Oneway(one) => Ok(one.parts()),
            Command::Fds(one) => Ok(one.parts()),
            Command::Objects(one) => Ok(one.parts()),
            Command::Fanin(one) => Ok(one.parts()),
            Command::Nested(one) => Ok(one.parts()),
            Command::Freeze(one) => Ok(one.parts()),
            Command::Death(one) => Ok(one.parts()),
            Command::Handles(one) => Ok(one.parts()),
            Command::Spam(one) => Ok(one.parts()),
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
        workload::all().into_iter().filter(|workload| wanted(workload.name())).collect()
    }
}

fn workload_names() -> clap::builder::PossibleValuesParser {
    let names = workload::all().into_iter().map(|workload| workload.name());
    ["all"].into_iter().chain(names).collect::<Vec<_>>().into()
}

/// One workload with its options.
#[derive(Args)]
pub struct One<O: Args> {
    /// What only this workload has.
    #[command(flatten)]
    pub options: O,
    /// What all have.
    #[command(flatten)]
    pub common: Common,
}

impl<O: Args + Workload + 'static> One<O> {
    fn parts(self) -> (Common, Vec<Box<dyn Workload>>) {
        (self.common, vec![Box::new(self.options)])
    }
}

/// Where, how and how long to measure.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Which driver, where, and where to.
    #[command(flatten)]
    pub run: RunBasics,
    /// Whose context manager to use.
    #[arg(long, value_enum, default_value_t = Manager::Own)]
    pub manager: Manager,
    /// Who carries calls: `binder` and yardsticks out of `pipe,seqpacket,futex,eventfd`, or `all`. Usually all for
    /// `throughput`, and `binder,pipe,seqpacket` for the rest.
    #[arg(long, value_parser = carriers)]
    pub carriers: Option<Carriers>,
    /// Seconds for each point of measurement, spread over short blocks.
    #[arg(long, default_value_t = 0.5, value_parser = positive_seconds)]
    pub seconds: f64,
    /// Calls of each client for each point, instead of a time.
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub iterations: Option<u64>,
    /// Length of a block in milliseconds.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub block_ms: u64,
    /// Where clients and their servers run.
    #[arg(long, value_enum, default_value_t = Placement::Same)]
    pub placement: Placement,
    /// CPUs to use. By default all; in User Mode Linux the first, since its CPUs usually share one of the host's.
    #[arg(long, value_delimiter = ',')]
    pub cpus: Option<Vec<usize>>,
    /// Clock for single calls; by default the time-stamp counter where it is steady.
    #[arg(long, value_enum)]
    pub clock: Option<Source>,
    /// Count instructions exactly instead: for a guest under `qemu -icount shift=0`; only points with one client.
    #[arg(long, conflicts_with_all = ["seconds", "iterations", "block_ms", "clock"])]
    pub count: bool,
    /// Lengths of the short and the long window of `--count` in calls, such as `10,40`.
    #[arg(long, requires = "count", value_parser = two_lengths)]
    pub windows: Option<(u64, u64)>,
}

/// What every measurement is told.
#[derive(Args, Clone, Debug)]
pub struct RunBasics {
    /// Label of the driver in the result: `rust`, `c`, `upstream` …
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub driver: String,
    /// Where to find a device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Where to write the result, as JSON; `-` is the standard output.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Say nothing while running.
    #[arg(long)]
    pub quiet: bool,
}

/// Which objects to weigh.
#[derive(Args, Clone, Debug)]
pub struct MemoryArgs {
    /// What is the same for all measurements.
    #[command(flatten)]
    pub run: RunBasics,
    /// Which objects.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = <Object as ValueEnum>::value_variants().to_vec())]
    pub objects: Vec<Object>,
    /// How often more of them are made; the line goes through so many points, and one.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=16))]
    pub steps: u64,
}

/// Which endings to weigh.
#[derive(Args, Clone, Debug)]
pub struct RetentionArgs {
    /// What is the same for all measurements.
    #[command(flatten)]
    pub run: RunBasics,
    /// Which endings.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = <Ending as ValueEnum>::value_variants().to_vec())]
    pub endings: Vec<Ending>,
    /// The driver's module, without which nobody unloads it.
    #[arg(long)]
    pub module: Option<PathBuf>,
    /// How often more of them are made and ended; the line goes through so many points, and one.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=16))]
    pub steps: u64,
}

/// What to have more and more of.
#[derive(Args, Clone, Debug)]
pub struct GrowthArgs {
    /// What is the same for all measurements.
    #[command(flatten)]
    pub run: RunBasics,
    /// Which quantities; all if none is named.
    #[arg(long, value_delimiter = ';', value_parser = growth::names())]
    pub quantities: Vec<String>,
    /// Name all quantities, and measure none.
    #[arg(long)]
    pub list: bool,
    /// Up to which size: 1 is N, 2 is 4 N, 3 is 16 N, 4 is 64 N.
    #[arg(long, default_value_t = 4)]
    pub steps: usize,
}

/// How to press, and for how long.
#[derive(Args, Clone, Debug)]
pub struct PressureArgs {
    /// What is the same for all measurements.
    #[command(flatten)]
    pub run: RunBasics,
    /// Who wants memory back.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = <Kind as ValueEnum>::value_variants().to_vec())]
    pub kinds: Vec<Kind>,
    /// Blocks of 256 quiet calls, and of as many squeezed ones.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(pressure::BLOCKS))]
    pub blocks: u64,
    /// Bytes of each question and each answer.
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=131_072))]
    pub size: u32,
    /// Count instructions instead of time: for a guest under `qemu -icount shift=0`.
    #[arg(long)]
    pub count: bool,
}

/// Where to find a device. Without any of these: `/dev/binderfs` if it is mounted, else an instance of our own.
#[derive(Args, Clone, Debug)]
#[group(multiple = false)]
pub struct DeviceArgs {
    /// Use this device; without `--manager existing` it must not have a context manager yet.
    #[arg(long)]
    pub device: Option<PathBuf>,
    /// Add a device of our own to the binderfs mounted here.
    #[arg(long)]
    pub binderfs: Option<PathBuf>,
    /// Mount an instance of binderfs for this run.
    #[arg(long)]
    pub mount: bool,
}

/// Whose context manager to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Manager {
    /// Our own, for this run.
    Own,
    /// A `binder-bench manage` that runs already on the device given with `--device`.
    Existing,
}

/// Where clients and their servers run.
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

/// Who carries calls in a run: each once, Binder first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carriers(Vec<Carrier>);

impl Carriers {
    /// Binder and every yardstick.
    pub fn all() -> Carriers {
        Carriers(Carrier::value_variants().to_vec())
    }

    /// Binder, and what tells whether the machine was disturbed.
    pub fn usual() -> Carriers {
        Carriers(vec![Carrier::Binder, Carrier::Pipe, Carrier::Seqpacket])
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Carrier> + '_ {
        self.0.iter().copied()
    }

    /// All but Binder.
    pub fn yardsticks(&self) -> impl Iterator<Item = Carrier> + '_ {
        self.iter().filter(|&carrier| carrier != Carrier::Binder)
    }

    /// Whether Binder is among them.
    pub fn binder(&self) -> bool {
        self.0.contains(&Carrier::Binder)
    }
}

fn carriers(text: &str) -> Result<Carriers, String> {
    if text == "all" {
        return Ok(Carriers::all());
    }
    let mut wanted =
        text.split(',').map(|name| Carrier::from_str(name, false)).collect::<Result<Vec<_>, _>>()?;
    wanted.sort_unstable();
    wanted.dedup();
    Ok(Carriers(wanted))
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
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn lists_are_split_at_commas() {
        let Command::Throughput(one) =
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
            let Command::Throughput(one) = parse(&format!("b throughput --driver c {line}")).unwrap().command
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
    fn carriers_come_once_and_in_order() {
        let seen = |text: &str| carriers(text).unwrap().iter().map(Carrier::name).collect::<Vec<_>>();
        assert_eq!(seen("pipe,binder,pipe"), ["binder", "pipe"]);
        assert_eq!(seen("all").len(), 5);
        assert!(!carriers("futex").unwrap().binder());
    }

    #[test]
    fn every_workload_has_a_subcommand_of_its_name() {
        for name in workload::all().iter().map(|workload| workload.name()) {
            let (common, workloads) =
                parse(&format!("b {name} --driver x")).unwrap().command.measurement().ok().unwrap();
            assert_eq!((common.run.driver.as_str(), workloads.len()), ("x", 1));
        }
        let (_, workloads) = parse("b run --driver x").unwrap().command.measurement().ok().unwrap();
        assert_eq!(workloads.len(), workload::all().len());
    }
}
