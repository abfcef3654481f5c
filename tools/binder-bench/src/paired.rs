// SPDX-License-Identifier: GPL-2.0
//! Two drivers in one kernel, next to each other: the same client calls the same server through one and the other in turns.
//!
//! Boots and processes differ, mainly in the layout of memory, and often by more than drivers do. Here both drivers
//! share boot and processes: one process has both devices open, and another serves both. Blocks of some milliseconds
//! alternate, in a random order for each two of them. Each two neighbours give a ratio; of these the middle one counts.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use clap::Args;
use serde::Serialize;

use crate::cli::{Placement, RunBasics};
use crate::exchange::{self, BinderCaller};
use crate::measure;
use crate::prelude::*;
use crate::registry;
use crate::result::{Block, Cell, Measured};
use crate::session::Session;
use crate::stage::Point;
use crate::stats::{self, Middle};

/// The name of the server on either device.
const SERVICE: &str = "paired";

#[derive(Args)]
pub struct PairedArgs {
    /// The driver to compare with: a name and the mount point of its binderfs, such as `c=/dev/binderfs`.
    #[arg(value_parser = side)]
    pub base: Side,
    /// The other driver.
    #[arg(value_parser = side)]
    pub other: Side,
    /// Measure requests of these sizes, in bytes; replies are empty.
    #[arg(long, value_delimiter = ',', default_values_t = [0], value_parser = clap::value_parser!(u32).range(0..=131_072))]
    pub sizes: Vec<u32>,
    /// Have the other driver defer the completions of replies.
    #[arg(long)]
    pub defer: bool,
    /// Measure each size and driver for this many seconds.
    #[arg(long, default_value_t = 30.0, value_parser = crate::cli::positive_seconds)]
    pub seconds: f64,
    /// Place client and server on these CPUs.
    #[arg(long, value_enum, default_value_t = Placement::Same)]
    pub placement: Placement,
    /// Write the result to this file, as JSON; `-` is the standard output.
    #[arg(long)]
    pub output: Option<PathBuf>,
}

/// A driver, by a name and the place where its binderfs is mounted.
#[derive(Clone, Debug)]
pub struct Side {
    name: String,
    binderfs: PathBuf,
}

fn side(text: &str) -> std::result::Result<Side, String> {
    match text.split_once('=') {
        Some((name, place)) if !name.is_empty() && !place.is_empty() => {
            Ok(Side { name: name.into(), binderfs: place.into() })
        }
        _ => Err("must be a name and a mounted binderfs, such as c=/dev/binderfs".into()),
    }
}

#[derive(Debug, Serialize)]
pub struct Paired {
    pub base: String,
    pub other: String,
    pub rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub size: u32,
    /// Microseconds of a round trip, the middle of the medians of all blocks: of the base and of the other driver.
    pub median_us: [f64; 2],
    /// The ratio of the other driver's median to the base's, from neighbouring blocks.
    pub median: Middle,
    /// The same of averages, in which a block's interruptions count.
    pub average: Middle,
}

pub fn run(args: &PairedArgs) -> Result<Paired> {
    let basics = [&args.base, &args.other].map(|side| RunBasics {
        driver: side.name.clone(),
        device: None,
        binderfs: side.binderfs.clone(),
        output: args.output.clone(),
        quiet: false,
    });
    let sessions = [Session::start(&basics[0], false)?, Session::start(&basics[1], false)?];
    let wishes = Some((args.placement, false));
    let (mut stage, mut other) = (Stage::new(&sessions[0], wishes)?, Stage::new(&sessions[1], wishes)?);
    stage.need_manager()?;
    other.need_manager()?;

    let devices = [stage.device.clone(), other.device.clone()];
    let largest = args.sizes.iter().copied().max().unwrap_or(0);
    let seat = stage.seat(0);
    let deferred = if args.defer { TransactionFlags::DEFER_COMPLETE } else { TransactionFlags::empty() };
    let flags = [TransactionFlags::empty(), deferred];
    stage.start("binder server", seat.server, |control| serve(&devices, flags, || control.ready()))?;
    let client = stage.caller("binder client", seat.client, || Client::new(&devices, largest))?;

    let mut rows = Vec::new();
    for &size in &args.sizes {
        let label = Label { size, ..Label::new("throughput", "") };
        let points = [0, 1].map(|side| Point::new(label.clone(), side, &[client]));
        rows.push(row(size, &measure::measure(&mut stage, &points, args.seconds)?)?);
    }
    Ok(Paired { base: args.base.name.clone(), other: args.other.name.clone(), rows })
}

/// Serves both devices, each by a thread of its own, in a loop, with the flags of its replies. Calls `ready` when both
/// are registered.
fn serve(
    devices: &[PathBuf; 2],
    flags: [TransactionFlags; 2],
    ready: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (tell, hear) = mpsc::channel();
    for (device, flags) in devices.clone().into_iter().zip(flags) {
        let tell = tell.clone();
        thread::spawn(move || {
            let ended = serve_one(&device, flags, || drop(tell.send(Ok(()))));
            tell.send(ended)
        });
    }
    // Each driver's thread reports that it is registered, or why it has ended.
    for told in hear.iter().take(devices.len()) {
        told?;
    }
    ready()?;
    hear.iter().collect()
}

fn serve_one(device: &Path, flags: TransactionFlags, registered: impl FnOnce()) -> Result<()> {
    let mut talker = Talker::open(device, SPACE)?;
    registry::register(&mut talker, SERVICE, 1)?;
    talker.enter_looper()?;
    registered();
    exchange::serve(talker.port().clone(), 0, flags, |_| 0)
}

/// A client of both drivers: the variant of a setting selects the driver.
struct Client {
    drivers: [BinderCaller; 2],
    side: usize,
}

impl Client {
    fn new(devices: &[PathBuf; 2], largest: u32) -> Result<Client> {
        let caller = |device: &Path| {
            let mut talker = Talker::open(device, SPACE)?;
            let handle = registry::look_up(&mut talker, SERVICE)?;
            Ok(BinderCaller::new(talker.port().clone(), handle, largest))
        };
        Ok(Client { drivers: [caller(&devices[0])?, caller(&devices[1])?], side: 0 })
    }
}

impl Caller for Client {
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.side = setting.variant as usize;
        self.drivers[self.side].set(setting)
    }

    #[inline(always)]
    fn call(&mut self) -> Result<()> {
        self.drivers[self.side].call()
    }
}

fn row(size: u32, cells: &[Cell]) -> Result<Row> {
    let blocks: Vec<&[Block]> = cells.iter().filter_map(blocks).collect();
    let &[base, other] = &blocks[..] else {
        return Err(Error::failed("one of two drivers was not timed"));
    };
    if base.len() != other.len() {
        return Err(Error::failed("a block had no calls"));
    }
    let middle = |blocks: &[Block]| stats::median(blocks.iter().map(|block| block.p50_ns).collect()) / 1000.0;
    let ratio = |figure| {
        stats::paired(base, other, figure)
            .ok_or_else(|| Kind::Usage.error("two blocks of each driver are needed: more --seconds"))
    };
    Ok(Row {
        size,
        median_us: [middle(base), middle(other)],
        median: ratio(|block| block.p50_ns)?,
        average: ratio(|block| block.mean_ns)?,
    })
}

fn blocks(cell: &Cell) -> Option<&[Block]> {
    let Measured::Latency(latency) = &cell.measured else { return None };
    Some(&latency.blocks)
}

impl Paired {
    pub fn table(&self) -> String {
        let Paired { base, other, rows } = self;
        let mut text = String::new();
        for Row { size, median_us: [first, second], median, average } in rows {
            let shown = |ratio: &Middle| format!("{:.3} [{:.3}, {:.3}]", ratio.point, ratio.low, ratio.high);
            let (median, average) = (shown(median), shown(average));
            let _ = write!(text, "{size:>7} bytes: {base} {first:.2} µs, {other} {second:.2} µs; ");
            let _ = writeln!(text, "{other} ÷ {base}: median {median}, average {average}");
        }
        text
    }
}
