// SPDX-License-Identifier: GPL-2.0
//! What things cost in kernel memory: more and more of each are made, and the kernel's memory is read in between.
//!
//! Pages are all that every kernel counts, so an object's bytes are the slope of a line through many of them: what a slab has room
//! for besides is shared out, as it is in life. What the kernel charges anyone for a file or a mapping is weighed
//! in the same way, with another file in place of the device, and taken off; threads are there before they are weighed.

mod endings;
mod gauge;
mod makers;

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::ValueEnum;

use crate::cli::RunBasics;
use crate::error::Error;
use crate::error::Result;
use crate::order::Answer;
use crate::order::Order;
use crate::result::Cell;
use crate::result::Label;
use crate::result::Level;
use crate::result::Measured;
use crate::result::Memory;
use crate::result::Ran;
use crate::result::RunFile;
use crate::result::Unit;
use crate::run::Session;
use crate::run::Wanted;
use crate::stage::Stage;
use crate::stage::TIMEOUT;
use crate::stats;
use crate::workers::Worker;

pub use endings::Ending;

/// What rows are called in result files.
pub const NAME: &str = "memory";

/// What those are called that are about what is kept of what has ended.
pub const RETENTION: &str = "retention";

/// Long enough for what the kernel puts off.
const SETTLE: Duration = Duration::from_millis(60);

/// What can be weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Object {
    /// The device opened once more. Taken off: another file opened.
    Process,
    /// The device opened, and 1 MiB of it mapped. Taken off: the same with another file.
    MappedProcess,
    /// A thread that joins the pool and waits for work.
    Thread,
    /// A node with its first reference. Taken off: a reference.
    Node,
    /// A reference to a node that others refer to already.
    Reference,
    /// A request to be told of a node's death.
    DeathRequest,
    /// A call of 64 bytes that nobody has taken yet, of a thread that the driver knew before.
    Call,
    /// A oneway call of 64 bytes that nobody has taken yet.
    OnewayCall,
}

impl Object {
    /// The name in tables and files.
    fn name(self) -> &'static str {
        match self {
            Object::Process => "process",
            Object::MappedProcess => "process, 1 MiB mapped",
            Object::Thread => "thread",
            Object::Node => "node",
            Object::Reference => "reference",
            Object::DeathRequest => "death request",
            Object::Call => "call",
            Object::OnewayCall => "oneway call",
        }
    }

    /// How many are made at a time.
    fn portion(self) -> u64 {
        match self {
            Object::Thread | Object::Call | Object::Process | Object::MappedProcess => 200,
            Object::OnewayCall => 300,
            Object::Node | Object::Reference | Object::DeathRequest => 5 * makers::NODES,
        }
    }
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

/// Weighs objects with the driver that is loaded now.
pub fn run(args: &MemoryArgs) -> Result<RunFile> {
    let session = Session::start(&args.run, Wanted::Time(None), None)?;
    let mut objects = args.objects.clone();
    objects.sort_unstable();
    objects.dedup();
    let mut cells = Vec::new();
    for object in objects {
        let mut stage = Stage::plain(&session.site, session.clock, &session.cpus)?;
        let (levels, control) = Scales { stage: &mut stage, object, steps: args.steps }.weigh()?;
        cells.push(cell(Label::new(NAME, object.name()), levels, control));
    }
    session.finish("same", cells)
}

/// Weighs what the driver that is loaded now keeps of what has ended.
pub fn run_retention(args: &RetentionArgs) -> Result<RunFile> {
    let session = Session::start(&args.run, Wanted::Time(None), None)?;
    let mut endings = args.endings.clone();
    endings.sort_unstable();
    endings.dedup();
    let mut cells = Vec::new();
    let unloaded = endings.pop_if(|ending| *ending == Ending::Unloaded).is_some();
    for ending in endings {
        let mut stage = Stage::plain(&session.site, session.clock, &session.cpus)?;
        let maker = ending.maker(&mut stage)?;
        let make = |count| make(&mut stage, maker, count);
        let levels = levels_of(make, ending.ahead(), ending.portion(), args.steps)?;
        cells.push(cell(Label::new(RETENTION, ending.name()), levels, Vec::new()));
    }
    let mut file = session.finish("same", cells)?;
    if let (true, Some(path)) = (unloaded, &args.module) {
        file.cells.push(weigh_unloading(path, args.steps)?);
    }
    Ok(file)
}

/// What stays when the driver is unloaded.
fn weigh_unloading(module: &Path, steps: u64) -> Result<Cell> {
    let loader = endings::Loader::new(module)?;
    let ending = Ending::Unloaded;
    let levels = levels_of(|count| loader.cycle(count), ending.ahead(), ending.portion(), steps)?;
    loader.restore()?;
    Ok(cell(Label::new(RETENTION, ending.name()), levels, Vec::new()))
}

/// One object about to be weighed.
struct Scales<'a> {
    stage: &'a mut Stage,
    object: Object,
    steps: u64,
}

impl Scales<'_> {
    /// The levels while objects are made, and those of the control.
    fn weigh(&mut self) -> Result<(Vec<Level>, Vec<Level>)> {
        let all = self.object.portion() * (self.steps + 1);
        match self.object {
            Object::Process | Object::MappedProcess => {
                let mapped = self.object == Object::MappedProcess;
                let ours = makers::files(self.stage, true, mapped, all)?;
                let levels = self.levels(ours)?;
                let control = makers::files(self.stage, false, mapped, all)?;
                Ok((levels, self.levels(control)?))
            }
            Object::Thread => {
                let loopers = makers::loopers(self.stage, all)?;
                Ok((self.levels(loopers)?, Vec::new()))
            }
            Object::Node => {
                makers::nodes(self.stage)?;
                let (first, second) = (makers::holder(self.stage)?, makers::holder(self.stage)?);
                Ok((self.levels(first)?, self.levels(second)?))
            }
            Object::Reference => {
                makers::nodes(self.stage)?;
                let (first, second) = (makers::holder(self.stage)?, makers::holder(self.stage)?);
                self.make(first, all)?;
                Ok((self.levels(second)?, Vec::new()))
            }
            Object::DeathRequest => {
                makers::nodes(self.stage)?;
                let watcher = makers::watcher(self.stage, all)?;
                Ok((self.levels(watcher)?, Vec::new()))
            }
            Object::Call => {
                let callers = makers::callers(self.stage, all)?;
                Ok((self.levels(callers)?, Vec::new()))
            }
            Object::OnewayCall => {
                let sender = makers::oneway_sender(self.stage)?;
                Ok((self.levels(sender)?, Vec::new()))
            }
        }
    }

    fn levels(&mut self, maker: Worker) -> Result<Vec<Level>> {
        levels(self.stage, maker, self.object.portion(), self.steps)
    }

    fn make(&mut self, maker: Worker, count: u64) -> Result<()> {
        make(self.stage, maker, count)
    }
}

/// What the kernel uses while `maker` makes a portion of objects after the other.
fn levels(stage: &mut Stage, maker: Worker, portion: u64, steps: u64) -> Result<Vec<Level>> {
    levels_of(|count| make(stage, maker, count), portion, portion, steps)
}

/// The same, whoever makes them, after `ahead` of them.
fn levels_of(
    mut make: impl FnMut(u64) -> Result<()>,
    ahead: u64,
    portion: u64,
    steps: u64,
) -> Result<Vec<Level>> {
    std::thread::sleep(SETTLE);
    gauge::drop_caches();
    // What is made first fills up slabs that others have begun, and tables that have room.
    make(ahead)?;
    let mut levels = vec![level(0)?];
    for step in 1..=steps {
        make(portion)?;
        levels.push(level(step * portion)?);
    }
    Ok(levels)
}

fn make(stage: &mut Stage, maker: Worker, count: u64) -> Result<()> {
    stage.workers.order(maker, &Order::Make(count))?;
    match stage.workers.collect(&[maker], TIMEOUT)?.pop() {
        Some(Answer::Ready) => Ok(()),
        other => Err(Error::Protocol(format!("a process answered {other:?} when told to make objects"))),
    }
}

fn level(objects: u64) -> Result<Level> {
    std::thread::sleep(SETTLE);
    let reading = gauge::read()?;
    Ok(Level { objects, bytes: reading.bytes, slab: reading.slab })
}

fn cell(mut label: Label, levels: Vec<Level>, control: Vec<Level>) -> Cell {
    label.unit = Unit::Object;
    let slope = |levels: &[Level], of: fn(&Level) -> u64| {
        let points: Vec<(f64, f64)> = levels.iter().map(|l| (l.objects as f64, of(l) as f64)).collect();
        stats::line(&points).unwrap_or_default()
    };
    let cost = |of: fn(&Level) -> u64| {
        let (whole, taken_off) = (slope(&levels, of), slope(&control, of));
        (whole.0 - taken_off.0, 2.0 * whole.1.hypot(taken_off.1))
    };
    let ((bytes, plus_minus), (slab, _)) = (cost(|l| l.bytes), cost(|l| l.slab));
    let measured = Measured::Memory(Memory { levels, control, bytes, plus_minus, slab });
    Cell { label, measured, cpu: None, ran: Ran::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everyone_pays_is_taken_off() {
        let levels = |each: u64| {
            (0..5).map(move |n| Level { objects: n * 10, bytes: 7 + n * 10 * each, slab: n * each })
        };
        let made = cell(Label::new(NAME, "thread"), levels(500).collect(), levels(300).collect());
        let Measured::Memory(memory) = made.measured else { panic!("memory was weighed") };
        assert!((memory.bytes - 200.0).abs() < 1e-9 && (memory.slab - 20.0).abs() < 1e-9, "{memory:?}");
        assert!(memory.plus_minus < 1e-9);
        let alone = cell(Label::new(NAME, "reference"), levels(500).collect(), Vec::new());
        let Measured::Memory(memory) = alone.measured else { panic!("memory was weighed") };
        assert!((memory.bytes - 500.0).abs() < 1e-9);
    }
}
