// SPDX-License-Identifier: GPL-2.0
//! Two drivers in one kernel, next to each other: the same client calls the same server through one and the other in turns.
//!
//! What one boot or one process differs from the next by, the layout of memory above all, is often more than what drivers
//! differ by. Here both have it: one process has both devices open, another serves both, and blocks of some milliseconds
//! alternate, in an order that is drawn anew for each two of them. Each two neighbours give a ratio; of these the middle one counts.
//!
//! With empty requests the floor is measured, too, which no driver can save: two switches between the same two processes, and the
//! system calls from which they start. A round trip through Binder is three system calls. Two processes that hand over by futexes make
//! four, so the time of one that does nothing (`getppid`) is taken off theirs. What a futex itself does stays in, which is in favour of
//! neither driver.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use clap::Args;
use serde::Serialize;

use crate::cli::{Common, DeviceArgs, Manager, Placement, RunBasics};
use crate::exchange::{self, BinderCaller};
use crate::measure;
use crate::prelude::*;
use crate::registry;
use crate::result::{Block, Cell, Measured, RunFile};
use crate::session::Session;
use crate::stage::Point;
use crate::stats::{self, Figure, Middle};
use crate::yardstick::handoff::{self, HandoffCaller, Table};

/// What the server is registered as on either device.
const SERVICE: &str = "paired";

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
    /// Where client and server run.
    #[arg(long, value_enum, default_value_t = Placement::Same)]
    pub placement: Placement,
    /// Where to write the result, as JSON; `-` is the standard output.
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
    pub rows: Vec<Row>,
    /// What was measured of the base, as a run of it alone would have told.
    pub base: RunFile,
    /// The same of the other driver.
    pub other: RunFile,
}

#[derive(Debug, Serialize)]
pub struct Row {
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

/// What two drivers add to the floor.
#[derive(Debug, PartialEq, Serialize)]
pub struct Added {
    /// Microseconds of the floor, the middle of all rounds.
    pub floor_us: f64,
    /// What the base and the other driver add to it, in the same way.
    pub added_us: [f64; 2],
    /// The other driver's share next to the base's: of each round, and the middle of all.
    pub ratio: Middle,
}

pub fn run(args: &PairedArgs) -> Result<Paired> {
    let commons = [&args.base, &args.other].map(|side| common(args, side));
    let sessions = [Session::start(&commons[0].run, false)?, Session::start(&commons[1].run, false)?];
    let mut stage = Stage::new(&sessions[0], Some(&commons[0]))?;
    let mut other = Stage::new(&sessions[1], Some(&commons[1]))?;
    stage.need_manager()?;
    other.need_manager()?;

    let devices = [stage.device.clone(), other.device.clone()];
    // Client and server live as long as they use it.
    let table: &'static Table = Box::leak(Box::new(Table::new(0)?));
    let largest = args.sizes.iter().copied().max().unwrap_or(0);
    let seat = stage.seat(0);
    let server = stage
        .start("binder server", seat.server, |control| serve(&devices, table, largest, || control.ready()))?;
    let client = stage.caller("binder client", seat.client, || Client::new(&devices, table, largest))?;

    let (mut rows, mut cells) = (Vec::new(), [Vec::new(), Vec::new()]);
    for &size in &args.sizes {
        let label = Label { size, ..Label::new("throughput", "") };
        let point = |side| Point::new(label.clone(), side, &[client], &[server]);
        let variants = if size == 0 { NOTHING + 1 } else { HANDOVER };
        let points: Vec<Point> = (0..variants).map(point).collect();
        let measured = measure::measure(&mut stage, &points, &commons[0])?;
        rows.push(row(size, &measured)?);
        for (cells, cell) in cells.iter_mut().zip(measured) {
            cells.push(cell);
        }
    }
    let placement = args.placement.name();
    let [base, other] = sessions;
    let [of_base, of_other] = cells;
    Ok(Paired { rows, base: base.finish(placement, of_base)?, other: other.finish(placement, of_other)? })
}

fn common(args: &PairedArgs, side: &Side) -> Common {
    let device = DeviceArgs { binderfs: Some(side.binderfs.clone()), ..Default::default() };
    Common {
        run: RunBasics { driver: side.name.clone(), device, output: args.output.clone(), quiet: false },
        manager: Manager::Own,
        carriers: None,
        seconds: args.seconds,
        iterations: None,
        placement: args.placement,
        count: false,
        together: false,
        windows: None,
    }
}

/// Serves both devices and the table, each by a thread of its own, for ever. Calls `ready` when both are registered.
fn serve(
    devices: &[PathBuf; 2],
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
    let mut talker = Talker::open(device, SPACE)?;
    registry::register(&mut talker, SERVICE, 1)?;
    talker.enter_looper()?;
    registered();
    exchange::serve(talker.port().clone(), largest, |_| 0)
}

/// The variants of settings, besides 0 and 1 for the drivers: who calls by the table, and who calls nobody.
const HANDOVER: u32 = 2;
const NOTHING: u32 = 3;

/// System calls that do nothing in one call of nobody.
const SYSTEM_CALLS: u32 = 4;

/// A client of all: the variant of a setting says what it calls.
struct Client {
    drivers: [BinderCaller; 2],
    table: HandoffCaller<'static>,
    variant: u32,
}

impl Client {
    fn new(devices: &[PathBuf; 2], table: &'static Table, largest: u32) -> Result<Client> {
        let caller = |device: &Path| {
            let mut talker = Talker::open(device, SPACE)?;
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
            NOTHING => Ok(()),
            side => self.drivers[side as usize].set(setting),
        }
    }

    #[inline(always)]
    fn call(&mut self) -> Result<()> {
        match self.variant {
            HANDOVER => self.table.call(),
            NOTHING => {
                for _ in 0..SYSTEM_CALLS {
                    std::hint::black_box(nix::unistd::getppid());
                }
                Ok(())
            }
            side => self.drivers[side as usize].call(),
        }
    }
}

fn row(size: u32, cells: &[Cell]) -> Result<Row> {
    let blocks: Vec<&[Block]> = cells.iter().filter_map(blocks).collect();
    let [base, other, floor @ ..] = &blocks[..] else {
        return Err(Error::failed("one of two drivers was not timed"));
    };
    if blocks.iter().any(|each| each.len() != base.len()) {
        return Err(Error::failed("a block had no calls"));
    }
    let middle = |blocks| stats::middle(blocks, Figure::P50) / 1000.0;
    let ratio = |figure| {
        stats::paired(base, other, figure)
            .ok_or_else(|| Kind::Usage.error("two blocks of each driver are needed: more --seconds"))
    };
    let added = match floor {
        [handover, nothing] => added([base, other], handover, nothing),
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

/// Blocks that took turns: of both drivers, of processes that hand over by futexes, and of system calls that do nothing. None if
/// there are fewer than two rounds, or if a driver adds nothing in most of them.
pub fn added(drivers: [&[Block]; 2], handover: &[Block], nothing: &[Block]) -> Option<Added> {
    let us = |block: &Block| block.p50_ns / 1000.0;
    let floors: Vec<f64> =
        handover.iter().zip(nothing).map(|(a, b)| us(a) - us(b) / f64::from(SYSTEM_CALLS)).collect();
    let above = |blocks: &[Block]| -> Vec<f64> {
        blocks.iter().zip(&floors).map(|(block, floor)| us(block) - floor).collect()
    };
    let [base, other] = drivers.map(above);
    // A round that the machine disturbed may have any ratio; the middle one of all does not notice.
    let ratio = stats::middle_of(base.iter().zip(&other).map(|(a, b)| b / a).collect())?;
    let [base, other, floor] = [base, other, floors].map(stats::middle_of);
    let added_us = [base?.point, other?.point];
    let has_seen_all = added_us.iter().all(|&us| us > 0.0);
    has_seen_all.then_some(Added { floor_us: floor?.point, added_us, ratio })
}

fn blocks(cell: &Cell) -> Option<&[Block]> {
    match &cell.measured {
        Measured::Latency(latency) => Some(&latency.blocks),
        _ => None,
    }
}

impl Paired {
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

    fn made(us: &[f64]) -> Vec<Block> {
        us.iter()
            .map(|&us| stats::summarise(&[(us * 1000.0) as u64], 1, us, &mut stats::new_histogram()).unwrap())
            .collect()
    }

    #[test]
    fn the_floor_is_taken_off_in_each_round() {
        // The machine is half as fast in the second round, and the floor with it.
        let (base, other) = (made(&[30.0, 60.0, 30.0]), made(&[25.0, 50.0, 25.0]));
        let (handover, nothing) = (made(&[21.0, 42.0, 21.0]), made(&[4.0, 8.0, 4.0]));
        let seen = added([&base, &other], &handover, &nothing).unwrap();
        // A block's quantiles have three digits.
        let is_about = |seen: f64, us: f64| (seen - us).abs() < 0.05;
        assert!(
            is_about(seen.floor_us, 20.0)
                && is_about(seen.added_us[0], 10.0)
                && is_about(seen.added_us[1], 5.0),
            "{seen:?}"
        );
        assert!(is_about(seen.ratio.low, 0.5) && is_about(seen.ratio.high, 0.5), "{seen:?}");
    }

    #[test]
    fn a_driver_that_adds_nothing_was_not_measured() {
        let (base, other) = (made(&[30.0, 30.0]), made(&[20.0, 19.0]));
        assert_eq!(added([&base, &other], &made(&[21.0, 21.0]), &made(&[4.0, 4.0])), None);
        assert_eq!(added([&base[..1], &base[..1]], &other[..1], &other[..1]), None);
    }
}
