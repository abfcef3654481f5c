// SPDX-License-Identifier: GPL-2.0
//! Two drivers in one kernel, next to each other: the same client calls the same server through one and the other in turns.
//!
//! What one boot or one process differs from the next by, the layout of memory above all, is often more than what drivers
//! differ by. Here both have it: one process has both devices open, another serves both, and blocks of some milliseconds
//! alternate, in an order that is drawn anew for each two of them. Each two neighbours give a ratio; of these the middle one counts.

use std::fmt::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use clap::Args;
use serde::Serialize;

use crate::caller::Caller;
use crate::cli::Common;
use crate::cli::Conditions;
use crate::cli::DeviceArgs;
use crate::cli::Manager;
use crate::cli::RunBasics;
use crate::error::Error;
use crate::error::Result;
use crate::exchange;
use crate::exchange::BinderCaller;
use crate::floor;
use crate::floor::Added;
use crate::floor::Nothing;
use crate::measure;
use crate::order::Answer;
use crate::order::Setting;
use crate::registry;
use crate::result::Block;
use crate::result::Cell;
use crate::result::Label;
use crate::result::Measured;
use crate::result::RunFile;
use crate::run::Session;
use crate::run::Wanted;
use crate::stage::Point;
use crate::stage::Stage;
use crate::stats;
use crate::stats::Figure;
use crate::stats::Middle;
use crate::talk::Talker;
use crate::yardstick::handoff;
use crate::yardstick::handoff::Bells;
use crate::yardstick::handoff::HandoffCaller;
use crate::yardstick::handoff::Table;

/// What the server is registered as on either device.
const SERVICE: &str = "paired";

/// Which drivers, and how to measure them.
#[derive(Args)]
pub struct PairedArgs {
    /// What the other one is divided by: a name, and where its binderfs is mounted, such as `c=/dev/binderfs`.
    #[arg(value_parser = side)]
    pub base: Side,
    /// The other driver.
    #[arg(value_parser = side)]
    pub other: Side,
    /// Bytes of a request; replies are empty.
    #[arg(long, value_delimiter = ',', default_values_t = [0], value_parser = clap::value_parser!(u32).range(0..=131_072))]
    pub sizes: Vec<u32>,
    /// Seconds for each size and driver.
    #[arg(long, default_value_t = 30.0, value_parser = crate::cli::positive_seconds)]
    pub seconds: f64,
    /// Under which conditions.
    #[command(flatten)]
    pub conditions: Conditions,
    /// Where to write the result, as JSON; `-` is the standard output.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Say nothing while running.
    #[arg(long)]
    pub quiet: bool,
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

/// What came out.
#[derive(Debug, Serialize)]
pub struct Paired {
    /// One for each size.
    pub rows: Vec<Row>,
    /// What was measured of the base, as a run of it alone would have told.
    pub base: RunFile,
    /// The same of the other driver.
    pub other: RunFile,
}

/// The two drivers with requests of one size.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Bytes of a request.
    pub size: u32,
    /// Microseconds of a round trip, the middle of the medians of all blocks: of the base and of the other driver.
    pub median_us: [f64; 2],
    /// What neighbouring blocks say of the other driver's median next to the base's.
    pub median: Middle,
    /// The same of averages, in which a block's interruptions count.
    pub average: Middle,
    /// Of empty requests, what the drivers add to what nobody can save.
    pub added: Option<Added>,
}

/// Measures both.
pub fn run(args: &PairedArgs) -> Result<Paired> {
    let commons = [&args.base, &args.other].map(|side| common(args, side));
    let conditions = &args.conditions;
    let (clock, cpus) = (Wanted::Time(conditions.clock), conditions.cpus.as_deref());
    let sessions =
        [Session::start(&commons[0].run, clock, cpus)?, Session::start(&commons[1].run, clock, cpus)?];
    let stage = |n: usize| Stage::new(&commons[n], &sessions[n].site, sessions[n].clock, &sessions[n].cpus);
    let (mut stage, mut other) = (stage(0)?, stage(1)?);
    stage.need_manager()?;
    other.need_manager()?;

    let devices = [stage.device.clone(), other.device.clone()];
    // Client and server live as long as they use it.
    let table: &'static Table = Box::leak(Box::new(Table::new(0, Bells::futex())?));
    let largest = args.sizes.iter().copied().max().unwrap_or(0);
    let seat = stage.seat(0);
    let theirs = devices.clone();
    let server = stage.start("binder server".into(), seat.server, move |control| {
        serve(theirs, table, largest, || control.answer(&Answer::Ready))
    })?;
    let client =
        stage.caller("binder client".into(), seat.client, move || Client::new(&devices, table, largest))?;

    let (mut rows, mut cells) = (Vec::new(), [Vec::new(), Vec::new()]);
    for &size in &args.sizes {
        let mut label = Label::new("throughput", "");
        label.size = size;
        let point = |side| Point::new(label.clone()).variant(side).clients(&[client]).servers(&[server]);
        let variants = if size == 0 { NOTHING + 1 } else { HANDOVER };
        let points: Vec<Point> = (0..variants).map(point).collect();
        let measured = measure::measure(&mut stage, &points, &commons[0])?;
        rows.push(row(size, &measured)?);
        for (cells, cell) in cells.iter_mut().zip(measured) {
            cells.push(cell);
        }
    }
    let placement = conditions.placement.name();
    let [base, other] = sessions;
    let [of_base, of_other] = cells;
    Ok(Paired { rows, base: base.finish(placement, of_base)?, other: other.finish(placement, of_other)? })
}

fn common(args: &PairedArgs, side: &Side) -> Common {
    let device = DeviceArgs { device: None, binderfs: Some(side.binderfs.clone()), mount: false };
    Common {
        run: RunBasics { driver: side.name.clone(), device, output: args.output.clone(), quiet: args.quiet },
        manager: Manager::Own,
        carriers: None,
        seconds: args.seconds,
        iterations: None,
        conditions: args.conditions.clone(),
        count: false,
        together: false,
        windows: None,
    }
}

/// Serves both devices and the table, each by a thread of its own, for ever. Calls `ready` when both are registered.
fn serve(
    devices: [PathBuf; 2],
    table: &'static Table,
    largest: u32,
    ready: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (tell, hear) = mpsc::channel();
    for device in devices.clone() {
        let tell = tell.clone();
        thread::spawn(move || {
            let ended = serve_one(&device, largest, || drop(tell.send(Ok(()))));
            tell.send(ended)
        });
    }
    thread::spawn(move || tell.send(handoff::serve(table, false)));
    // Each driver's thread says that it is registered, or why it has ended.
    for told in hear.iter().take(devices.len()) {
        told?;
    }
    ready()?;
    hear.iter().collect()
}

fn serve_one(device: &Path, largest: u32, registered: impl FnOnce()) -> Result<()> {
    let mut talker = Talker::open(device)?;
    registry::register(&mut talker, SERVICE, 1)?;
    talker.out.enter_looper();
    talker.flush()?;
    registered();
    exchange::serve(talker.port().clone(), largest, |_| 0)
}

/// The variants of settings, besides 0 and 1 for the drivers: who calls by the table, and who calls nobody.
const HANDOVER: u32 = 2;
const NOTHING: u32 = 3;

/// A client of all: the variant of a setting says what it calls.
struct Client {
    drivers: [BinderCaller; 2],
    table: HandoffCaller<'static>,
    variant: u32,
}

impl Client {
    fn new(devices: &[PathBuf; 2], table: &'static Table, largest: u32) -> Result<Client> {
        let caller = |device| {
            let mut talker = Talker::open(device)?;
            let handle = registry::look_up(&mut talker, SERVICE)?;
            Ok(BinderCaller::new(talker.port().clone(), handle, largest))
        };
        let drivers = [caller(&devices[0])?, caller(&devices[1])?];
        Ok(Client { drivers, table: HandoffCaller::new(table), variant: 0 })
    }
}

impl Caller for Client {
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.variant = setting.variant;
        match setting.variant {
            HANDOVER => self.table.set(setting),
            NOTHING => Nothing.set(setting),
            side => self.drivers[side as usize].set(setting),
        }
    }

    #[inline(always)]
    fn call(&mut self) -> Result<()> {
        match self.variant {
            HANDOVER => self.table.call(),
            NOTHING => Nothing.call(),
            side => self.drivers[side as usize].call(),
        }
    }
}

fn row(size: u32, cells: &[Cell]) -> Result<Row> {
    let blocks: Vec<&[Block]> = cells.iter().filter_map(blocks).collect();
    let [base, other, floor @ ..] = &blocks[..] else {
        return Err(Error::Protocol("one of two drivers was not timed".into()));
    };
    if blocks.iter().any(|each| each.len() != base.len()) {
        return Err(Error::Protocol("a block had no calls: --block-ms is too short for this machine".into()));
    }
    let middle = |blocks| stats::middle(blocks, Figure::P50) / 1000.0;
    let ratio = |figure| {
        stats::paired(base, other, figure).ok_or_else(|| {
            Error::Usage("two blocks of each driver are needed: more --seconds, or less --block-ms".into())
        })
    };
    let added = match floor {
        [handover, nothing] => floor::added([base, other], handover, nothing),
        _ => None,
    };
    Ok(Row {
        added,
        size,
        median_us: [middle(base), middle(other)],
        median: ratio(Figure::P50)?,
        average: ratio(Figure::Mean)?,
    })
}

fn blocks(cell: &Cell) -> Option<&[Block]> {
    match &cell.measured {
        Measured::Latency(latency) => Some(&latency.blocks),
        _ => None,
    }
}

impl Paired {
    /// A line for each size.
    pub fn table(&self) -> String {
        let (base, other) = (&self.base.driver, &self.other.driver);
        let title = format!("{other} ÷ {base}");
        let mut text = format!(
            "{:>7} {:>12} {:>12}   {:<30} {:<30}\n",
            "bytes",
            format!("{base}, µs"),
            format!("{other}, µs"),
            format!("{title}, median [95 %]"),
            "average [95 %]"
        );
        for row in &self.rows {
            let shown =
                |middle: &Middle| format!("{:.3} [{:.3}, {:.3}]", middle.point, middle.low, middle.high);
            let [first, second] = row.median_us;
            let _ = writeln!(
                text,
                "{:>7} {first:>12.2} {second:>12.2}   {:<30} {:<30}",
                row.size,
                shown(&row.median),
                shown(&row.average)
            );
        }
        for added in self.rows.iter().filter_map(|row| row.added.as_ref()) {
            let Added { floor_us, added_us: [first, second], ratio } = added;
            let _ = writeln!(
                text,
                "Two switches and three system calls take {floor_us:.2} µs of an empty call; {base} adds {first:.2}, {other} {second:.2}: {:.3} [{:.3}, {:.3}]",
                ratio.point, ratio.low, ratio.high
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_name_and_a_place() {
        let found = side("c=/dev/binder=fs").unwrap();
        assert_eq!((found.name.as_str(), found.binderfs), ("c", PathBuf::from("/dev/binder=fs")));
        for text in ["", "c", "=x", "c="] {
            assert!(side(text).is_err(), "{text}");
        }
    }
}
