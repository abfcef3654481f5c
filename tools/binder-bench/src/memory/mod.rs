// SPDX-License-Identifier: GPL-2.0
//! Kernel memory of objects: more and more of each are made, and the kernel's memory is read in between.
//!
//! All kernels count pages, so an object's bytes are the slope of a line through many objects: a slab's unused room is
//! shared out, as in real use. The kernel's own cost of a file or a mapping is subtracted: it is weighed with another
//! file in place of the device. Threads exist before they are weighed. At last the process that made the objects is killed,
//! and the work of kernel threads is measured.

mod endings;
mod makers;
mod references;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind::NotFound;
use std::time::Duration;

use binder_sys::kernel_memory;
use clap::Args;

use crate::cli::{wants, Placement, RunBasics};
use crate::prelude::*;
use crate::result::{Cell, Level, Measured, Memory, RunFile};
use crate::session::Session;
use crate::stage::TIMEOUT;
use crate::stats;
use crate::workers::Order;
pub use endings::ENDINGS;
use endings::{Ending, UNMOUNTED};
pub use makers::OBJECTS;
use makers::{Object, BINDERFS};

/// Long enough for what the kernel puts off.
const SETTLE: Duration = Duration::from_millis(60);

/// Long enough for the kernel to free the memory of earlier processes, some of it a second or more after their end.
const REST: Duration = Duration::from_secs(3);

#[derive(Args, Clone, Debug)]
pub struct MemoryArgs {
    #[command(flatten)]
    pub run: RunBasics,
    /// Measure these (default: all).
    #[arg(long, value_delimiter = ',')]
    pub kinds: Vec<String>,
    /// Add objects this many times; the line goes through one point more.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=16))]
    pub steps: u64,
}

pub fn run(args: &MemoryArgs) -> Result<RunFile> {
    let session = Session::start(&args.run, false)?;
    let mut cells = Vec::new();
    let can_be = |object: &&Object| args.run.device.is_none() || !BINDERFS.contains(&object.option);
    for &Object { name, portion, make, .. } in
        OBJECTS.iter().filter(|object| wants(&args.kinds, object.option)).filter(can_be)
    {
        come_to_rest();
        let mut stage = Stage::new(&session, None)?;
        let most = portion * (args.steps + 1);
        let (maker, control) = make(&mut stage, most)?;
        let mut weigh = |maker| levels(&mut stage, maker, (portion, portion), args.steps);
        let (objects, control) = (weigh(maker)?, control.map(weigh).transpose()?);
        let idle = work_of_kernel_threads(|| Ok(()))?;
        let work = work_of_kernel_threads(|| stage.workers.end(maker))?.saturating_sub(idle) / most;
        let ends = BTreeMap::from([("instructions of kernel threads".into(), work as f64)]);
        cells.push(cell(Label::new("memory", name), objects, control.unwrap_or_default(), ends));
    }
    session.finish(Placement::Same, cells)
}

/// Weighs what the driver that is loaded now keeps of what has ended.
pub fn run_retention(args: &MemoryArgs) -> Result<RunFile> {
    let session = Session::start(&args.run, false)?;
    let mut cells = Vec::new();
    let can_end = |ending: &&Ending| args.run.device.is_none() || ending.option != UNMOUNTED;
    for ending in ENDINGS.iter().filter(|ending| wants(&args.kinds, ending.option)).filter(can_end) {
        come_to_rest();
        let mut stage = Stage::new(&session, None)?;
        let maker = ending.maker(&mut stage)?;
        let before = referenced()?;
        let levels = levels(&mut stage, maker, (ending.ahead, ending.portion), args.steps)?;
        let ended = (ending.ahead + args.steps * ending.portion) as f64;
        let mut kept = referenced()?;
        kept.iter_mut()
            .for_each(|(kind, count)| *count = (*count - before.get(kind).unwrap_or(&0.0)) / ended);
        cells.push(cell(Label::new("retention", ending.name), levels, Vec::new(), kept));
    }
    session.finish(Placement::Same, cells)
}

/// The references after all lately ended objects are freed.
fn referenced() -> Result<BTreeMap<String, f64>> {
    std::thread::sleep(REST);
    references::count()
}

/// Nanoseconds for which kernel threads have a CPU during an action, and the rest that follows it.
fn work_of_kernel_threads(action: impl FnOnce() -> Result<()>) -> Result<u64> {
    let before = kernel_threads()?;
    action()?;
    std::thread::sleep(REST);
    Ok(kernel_threads()?.saturating_sub(before))
}

/// Nanoseconds for which kernel threads have had a CPU. Under `qemu -icount` a nanosecond is an instruction.
fn kernel_threads() -> Result<u64> {
    let tasks = fs::read_dir("/proc").context("/proc")?.flatten().map(|task| task.path());
    // Kernel threads have no executable.
    let threads = tasks.filter(|task| fs::read_link(task.join("exe")).is_err_and(|e| e.kind() == NotFound));
    fs::metadata("/proc/self/schedstat").context("/proc/self/schedstat, of CONFIG_SCHEDSTATS")?;
    let times = threads.filter_map(|task| fs::read_to_string(task.join("schedstat")).ok());
    Ok(times.filter_map(|time| time.split(' ').next()?.parse::<u64>().ok()).sum())
}

/// Waits for the ends of earlier processes, which otherwise leave slabs that objects of now share.
fn come_to_rest() {
    std::thread::sleep(REST);
    kernel_memory::shrink_slabs();
}

/// The kernel's memory while portions of objects are made one after the other.
fn levels(stage: &mut Stage, maker: Worker, (ahead, portion): (u64, u64), steps: u64) -> Result<Vec<Level>> {
    let mut make = |count| {
        stage.workers.order(maker, &Order::Go(count))?;
        stage.workers.collect(&[maker], TIMEOUT)
    };
    come_to_rest();
    // The first objects fill up slabs that others have begun, and tables that have room.
    make(ahead)?;
    let mut levels = vec![level(0)?];
    for step in 1..=steps {
        make(portion)?;
        levels.push(level(step * portion)?);
    }
    Ok(levels)
}

fn level(objects: u64) -> Result<Level> {
    std::thread::sleep(SETTLE);
    Ok(Level { objects, bytes: kernel_memory::bytes().context("the kernel's memory")? })
}

fn cell(label: Label, levels: Vec<Level>, control: Vec<Level>, references: BTreeMap<String, f64>) -> Cell {
    let slope = |levels: &[Level]| {
        let points: Vec<(f64, f64)> = levels.iter().map(|l| (l.objects as f64, l.bytes as f64)).collect();
        stats::line(&points).unwrap_or_default()
    };
    let (whole, taken_off) = (slope(&levels), slope(&control));
    let (bytes, plus_minus) = (whole.0 - taken_off.0, 2.0 * whole.1.hypot(taken_off.1));
    Cell { label, measured: Measured::Memory(Memory { levels, control, bytes, plus_minus, references }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everyone_pays_is_taken_off() {
        let levels =
            |each: u64| (0..5).map(move |n| Level { objects: n * 10, bytes: 7 + n * 10 * each }).collect();
        let weighed = |control: Vec<Level>| {
            let cell = cell(Label::new("memory", "x"), levels(500), control, BTreeMap::new());
            let Measured::Memory(memory) = cell.measured else { panic!("memory was weighed") };
            memory
        };
        let memory = weighed(levels(300));
        assert!((memory.bytes - 200.0).abs() < 1e-9 && memory.plus_minus < 1e-9, "{memory:?}");
        assert!((weighed(Vec::new()).bytes - 500.0).abs() < 1e-9);
    }
}
