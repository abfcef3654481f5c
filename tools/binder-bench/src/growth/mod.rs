// SPDX-License-Identifier: GPL-2.0
//! How costs grow with the number of objects: instructions of each phase with 1, N, 4 N, 16 N and so on.
//!
//! The cost of one is subtracted from the others, so that fixed costs do not hide the growth. Under
//! `qemu -icount` the figures are of all processes and the kernel together, work that is put off included.

mod meter;
mod quantity;
mod scene;
mod service;

use clap::Args;

use crate::cli::{wants, Placement, RunBasics};
use crate::error::Result;
use crate::result::{Cell, Grown, Growth, Label, Measured, RunFile};
use crate::session::Session;
use meter::Meter;
use quantity::Quantity;
pub use quantity::ALL;
use scene::{Phase, Scene};

#[derive(Args, Clone, Debug)]
pub struct GrowthArgs {
    #[command(flatten)]
    pub run: RunBasics,
    /// Measure these quantities (default: all).
    #[arg(long, value_delimiter = ';')]
    pub quantities: Vec<String>,
    /// List all quantities, each after its count of numbers besides one, and measure none.
    #[arg(long)]
    pub list: bool,
    /// Measure up to this number: 1 is N, 2 is 4 N, 3 is 16 N ... (default: the largest of each quantity).
    #[arg(long, default_value_t = usize::MAX)]
    pub steps: usize,
}

/// The ratio of each number to the number before.
const STEP: u64 = 4;

/// The repetitions of each measurement, unless it takes long.
const REPEATS: u32 = 2;

/// Phases that took so many instructions together are not repeated: two runs differ by far less.
const LONG: u64 = 500_000_000;

/// A phase that is expected to take more instructions than this is left out.
const MOST: f64 = 3e9;

/// All quantities as lines, each with how many numbers there are besides one.
pub fn list() -> String {
    quantity::ALL
        .iter()
        .map(|quantity| format!("{}\t{}\n", numbers(quantity).count(), quantity.name))
        .collect()
}

fn numbers(quantity: &Quantity) -> impl Iterator<Item = u64> {
    let most = quantity.most;
    std::iter::successors(Some(quantity.least), |count| Some(count * STEP))
        .take_while(move |&count| count <= most)
}

pub fn run(args: &GrowthArgs) -> Result<RunFile> {
    let session = Session::start(&args.run, true)?;
    // Otherwise the kernel updates its statistics of memory every second, during a measurement.
    let _ = std::fs::write("/proc/sys/vm/stat_interval", "3600");
    // The kernel allows fewer threads in a guest with little memory than are measured.
    let _ = std::fs::write("/proc/sys/kernel/threads-max", "20000");
    let meter = Meter::start(session.clock)?;
    let mut series =
        Series { meter: &meter, session: &session, overhead: 0, place: 0, quiet: args.run.quiet };
    series.weigh_nothing()?;
    let cells = quantity::ALL
        .iter()
        .filter(|quantity| wants(&args.quantities, quantity.name))
        .flat_map(|quantity| series.measure(quantity, args.steps))
        .collect();
    session.finish(Placement::Same, cells)
}

struct Series<'a> {
    meter: &'a Meter,
    session: &'a Session<'a>,
    overhead: u64,
    /// Phases so far, in the order in which a plugin saw them.
    place: u64,
    quiet: bool,
}

impl Series<'_> {
    /// Measures the cost of finding no work left.
    fn weigh_nothing(&mut self) -> Result<()> {
        let mut least = u64::MAX;
        for _ in 0..5 {
            let mut scene = Scene::new(self.meter, &self.session.device)?;
            scene.phase("nothing", |_| Ok(()))?;
            least = scene.finish().iter().map(|phase| phase.instructions).fold(least, u64::min);
            self.place += 1;
        }
        self.overhead = least;
        Ok(())
    }

    /// All phases of one quantity, with more and more of it.
    fn measure(&mut self, quantity: &Quantity, steps: usize) -> Vec<Cell> {
        let mut grown: Vec<(&'static str, Growth)> = Vec::new();
        for count in std::iter::once(1).chain(numbers(quantity).take(steps)) {
            if let Some(why) = too_much(&grown, count) {
                grown.iter_mut().for_each(|(_, growth)| growth.stopped = Some(why.clone()));
                break;
            }
            // The first run may find caches empty that the second finds filled.
            let mut stopped = None;
            for repetition in 0..REPEATS {
                if repetition > 0 && taken(&grown) > LONG {
                    break;
                }
                stopped = stopped.or_else(|| self.run(quantity, count, &mut grown));
            }
            if let Some(why) = stopped {
                let why = format!("at {count}: {why}");
                grown.iter_mut().for_each(|(_, growth)| growth.stopped = Some(why.clone()));
                break;
            }
        }
        grown.into_iter().map(|(phase, growth)| cell(quantity, phase, growth)).collect()
    }

    /// One run with so many; why it could not be finished, if so.
    fn run(
        &mut self,
        quantity: &Quantity,
        count: u64,
        grown: &mut Vec<(&'static str, Growth)>,
    ) -> Option<String> {
        if !self.quiet {
            eprintln!("{} {count}", quantity.name);
        }
        let mut scene = match Scene::new(self.meter, &self.session.device) {
            Ok(scene) => scene,
            Err(error) => return Some(error.to_string()),
        };
        let ended = (quantity.run)(&mut scene, count);
        for Phase { name, operations, instructions } in scene.finish() {
            let known = grown.iter().position(|(phase, _)| *phase == name);
            let place = known.unwrap_or_else(|| {
                grown.push((name, Growth { operations, points: Vec::new(), stopped: None }));
                grown.len() - 1
            });
            let instructions = instructions.saturating_sub(self.overhead);
            let places = vec![self.place];
            let point = Grown { count, instructions, places, preempt_off: None, irqs_off: None };
            add(&mut grown[place].1.points, point);
            self.place += 1;
        }
        let why = ended.err()?.to_string();
        if grown.is_empty() {
            grown.push(("all", Growth { operations: None, points: Vec::new(), stopped: None }));
        }
        Some(why)
    }
}

/// Adds a point, or the figures of a repetition of it.
fn add(points: &mut Vec<Grown>, point: Grown) {
    match points.last_mut() {
        Some(last) if last.count == point.count => {
            last.instructions = last.instructions.min(point.instructions);
            last.places.extend(point.places);
        }
        _ => points.push(point),
    }
}

fn taken(grown: &[(&'static str, Growth)]) -> u64 {
    grown.iter().filter_map(|(_, growth)| Some(growth.points.last()?.instructions)).sum()
}

/// The reason why larger numbers are not tried, from the difference of the two last numbers.
fn too_much(grown: &[(&'static str, Growth)], count: u64) -> Option<String> {
    grown.iter().find_map(|(phase, growth)| {
        let [.., before, last] = &growth.points[..] else { return None };
        let factor = last.instructions as f64 / before.instructions as f64;
        let expected = last.instructions as f64 * factor;
        (expected > MOST)
            .then(|| format!("not tried with {count}: {phase} would take {expected:.1e} instructions"))
    })
}

fn cell(quantity: &Quantity, phase: &str, growth: Growth) -> Cell {
    let label = Label::new("growth", &format!("{}: {phase}", quantity.name));
    Cell { label, measured: Measured::Growth(growth) }
}
