// SPDX-License-Identifier: GPL-2.0
//! Waits of a process while a stranger loses its CPU in the middle of an operation.
//!
//! Victim and server run on the first CPU. The attacker runs on the second one and has little right to it. A third CPU, if there is one,
//! has what the kernel does on its own. The attacker begins an [`operation`] at an agreed moment. So many nanoseconds later, a hog takes the
//! second CPU until the victim has finished, for [`BURST`] at most. When the hog runs, the [`victim`] begins what it does, and its wait is
//! measured. The moment of the hog sweeps over the operation.
//!
//! Under `qemu -icount` a nanosecond is an instruction, so the sweep preempts the attacker all along its operation, and repeats exactly.

mod operation;
mod starvation;
mod victim;

use std::sync::atomic::Ordering::Relaxed;

use clap::Args;

use crate::cli::{wants, Placement, RunBasics};
use crate::prelude::*;
use crate::result::{Cell, Latency, Measured, RunFile};
use crate::session::Session;
use crate::shared::Memory;
use crate::stage::TIMEOUT;
use crate::stats;
use crate::workers::{sit, Order};
pub use operation::OPERATIONS;
use operation::{Attacker, Operation};
use starvation::{now, sleep_until, Starvation};
use victim::Victim;

/// The CPU of victim and server, and that of attacker and hog.
const CPUS: [usize; 2] = [0, 1];

/// The longest burst of the hog: that of a real-time thread which decodes a frame.
const BURST: u64 = 20_000_000;

/// From the hog's timer to the victim's beginning: enough for the hog to have the CPU.
const DELAY: u64 = 60_000;

/// At how many moments the wait is measured without a hog. Its variation is what the kernel's own work and the emulator's clock, which
/// counts what all CPUs do, add to it.
const CALM: u64 = 20;

/// An order to prepare the next point; all others are moments.
const PREPARE: u64 = 0;

#[derive(Args, Clone, Debug)]
pub struct InversionArgs {
    #[command(flatten)]
    pub run: RunBasics,
    /// Take the CPU from the attacker in this way.
    #[arg(long, value_enum, default_value_t = Starvation::Idle)]
    pub attacker: Starvation,
    /// Measure these operations of the attacker (default: all).
    #[arg(long, value_delimiter = ';')]
    pub operations: Vec<String>,
    /// Preempt the attacker at this many moments.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(2..))]
    pub points: u64,
}

/// The shared data of the processes of a row: moments, by the clock of [`now`].
struct Moments(Memory);

#[derive(Clone, Copy)]
enum Moment {
    /// The attacker's child is to begin.
    Due,
    /// The attacker begins, and ends.
    Begin,
    End,
    /// The hog gets the CPU.
    Hog,
    /// The server reads a oneway call of the victim.
    Received,
    /// The victim has what it waited for.
    Done,
    /// The victim's wait.
    Waited,
}

impl Moments {
    fn stamp(&self, moment: Moment) {
        self.set(moment, now());
    }

    fn set(&self, moment: Moment, at: u64) {
        self.0.word(0, moment as usize).store(at, Relaxed);
    }

    /// When it was; 0 if it was not yet.
    fn at(&self, moment: Moment) -> u64 {
        self.0.word(0, moment as usize).load(Relaxed)
    }

    fn clear(&self) {
        (0..=Moment::Waited as usize).for_each(|word| self.0.word(0, word).store(0, Relaxed));
    }

    /// Looks now and then until it has been.
    fn wait(&self, moment: Moment) -> u64 {
        while self.at(moment) == 0 {
            sleep_until(now() + 50_000);
        }
        self.at(moment)
    }
}

pub fn run(args: &InversionArgs) -> Result<RunFile> {
    let session = Session::start(&args.run, false)?;
    sit(Some(CPUS[0]))?;
    let mut cells = Vec::new();
    for operation in OPERATIONS.iter().filter(|operation| wants(&args.operations, operation.name)) {
        for victim in operation.victims {
            match sweep(&session, args, operation, victim) {
                Ok(found) => cells.extend(found),
                // A driver that does not carry it out has no row.
                Err(error) => eprintln!("{}: {}: {error}", operation.name, victim.name),
            }
        }
    }
    session.finish(Placement::Other, cells)
}

/// A cell without a hog, and one with a hog at all points of an operation.
fn sweep(
    session: &Session,
    args: &InversionArgs,
    operation: &'static Operation,
    victim: &Victim,
) -> Result<[Cell; 2]> {
    let (starvation, moments) = (args.attacker, &Moments(Memory::new(4096)?));
    let mut stage = Stage::new(session, None)?;
    for service in [victim::SERVICE, operation::BYSTANDER] {
        let serve = |talker| victim::serve(talker, moments);
        stage.server(format!("server of the {service}"), Some(CPUS[0]), service, serve)?;
    }
    let device = stage.device.clone();
    let attacker = stage.start("attacker", Some(CPUS[1]), |control| {
        starvation.attacker()?;
        let mut attacker = Attacker::new(&device, moments, operation);
        control.obey(|at| if at == PREPARE { attacker.prepare() } else { attacker.act(at) })
    })?;
    let hog = stage.start("hog", Some(CPUS[1]), |control| {
        starvation.hog()?;
        control.obey(|at| starvation::burst(moments, at))
    })?;
    let run = |control: &mut Control| victim::run(control, &device, moments, victim);
    let all = [stage.start("victim", Some(CPUS[0]), run)?, attacker, hog];

    // The wait of a victim that starts so long after the attacker, with a hog or without.
    let workers = &mut stage.workers;
    let mut point = |offset: u64, has_hog: bool| {
        moments.clear();
        for worker in [attacker, all[0]] {
            workers.order(worker, &Order::Go(PREPARE))?;
            workers.collect(&[worker], TIMEOUT)?;
        }
        let start = now() + starvation.lead();
        workers.order(attacker, &Order::Go(start))?;
        if has_hog {
            workers.order(hog, &Order::Go(start + offset))?;
        }
        workers.order(all[0], &Order::Go(start + offset + DELAY))?;
        workers.collect(if has_hog { &all } else { &all[..2] }, TIMEOUT)?;
        Ok(moments.at(Moment::Waited))
    };
    // The first run takes longer.
    point(0, false)?;
    let (mut calm, mut lengths) = (Vec::new(), Vec::new());
    for number in 0..CALM {
        calm.push(point(operation.nanoseconds * number / CALM, false)?);
        lengths.push((moments.at(Moment::End) - moments.at(Moment::Begin)) as f64);
    }
    let length = stats::median(lengths) as u64;
    let range = operation.nanoseconds.max(length);
    let (mut samples, mut preempted, mut within) = (Vec::new(), 0, 0);
    for number in 0..args.points {
        let offset = range * number / args.points;
        samples.push(point(offset, true)?);
        let [begin, end, hog] = [Moment::Begin, Moment::End, Moment::Hog].map(|moment| moments.at(moment));
        within += u64::from(offset < end - begin);
        preempted += u64::from(begin < hog && hog < end);
    }
    let case = format!("{}: {}: {}", starvation.name(), operation.name, victim.name);
    if !args.run.quiet {
        eprintln!("{case}: takes {length} ns, preempted at {preempted} of {within} points");
    }
    if preempted == 0 || preempted * 2 < within {
        return Err(Error::failed(format!("the attacker lost its CPU at {preempted} of {within} points")));
    }
    let label = Label::new("inversion", &case);
    Ok([cell(label.clone(), &calm), cell(label.with("hog", 1), &samples)])
}

fn cell(label: Label, samples: &[u64]) -> Cell {
    let mut histogram = stats::new_histogram();
    let wall = samples.iter().sum::<u64>() as f64;
    let blocks = stats::summarise(samples, 1, wall, &mut histogram).into_iter().collect();
    Cell { label, measured: Measured::Latency(Latency { blocks, histogram: stats::to_pairs(&histogram) }) }
}
