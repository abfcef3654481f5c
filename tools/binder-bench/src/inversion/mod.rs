// SPDX-License-Identifier: GPL-2.0
//! How long a process waits when a stranger loses its CPU in the middle of an operation.
//!
//! Victim and server run on the first CPU. The attacker runs on the second one and has little right to it. It begins an [`operation`] at
//! an agreed moment. So many nanoseconds later, a hog takes the second CPU until the victim has finished, for [`BURST`] at most. When
//! the hog runs, the [`victim`] begins what it does, and its wait is measured. The moment of the hog sweeps over the operation.
//!
//! Under `qemu -icount` a nanosecond is an instruction, so the sweep preempts the attacker all along its operation, and repeats exactly.

mod operation;
mod starvation;
mod victim;

use std::sync::atomic::Ordering::Relaxed;

use clap::builder::PossibleValuesParser;
use clap::Args;

use crate::cli::{Placement, RunBasics};
use crate::prelude::*;
use crate::result::{Cell, Latency, Measured, RunFile};
use crate::session::Session;
use crate::shared::Memory;
use crate::stage::TIMEOUT;
use crate::stats;
use crate::workers::{sit, Order};
use operation::{Attacker, Operation, OPERATIONS};
use starvation::{now, sleep_until, Starvation};
use victim::Victim;

/// The CPU of victim and server, and that of attacker and hog.
const CPUS: [usize; 2] = [0, 1];

/// The longest burst of the hog: that of a real-time thread which decodes a frame.
const BURST: u64 = 20_000_000;

/// From the hog's timer to the victim's beginning: enough for the hog to have the CPU.
const DELAY: u64 = 60_000;

/// How often the wait is measured without a hog: its variation is what cannot be told from a wait that the attacker causes.
const CALM: u32 = 20;

/// An order to prepare the next point; all others are moments.
const PREPARE: u64 = 0;

#[derive(Args, Clone, Debug)]
pub struct InversionArgs {
    #[command(flatten)]
    pub run: RunBasics,
    /// Why the attacker loses its CPU.
    #[arg(long, value_enum, default_value_t = Starvation::Idle)]
    pub attacker: Starvation,
    /// Operations of the attacker; all if none is named.
    #[arg(long, value_delimiter = ';')]
    pub operations: Vec<String>,
    /// Moments of preemption in each repetition.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..))]
    pub points: u64,
    /// Repetitions; their moments lie between each other.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
}

pub fn names() -> PossibleValuesParser {
    OPERATIONS.iter().map(|operation| operation.name).collect::<Vec<_>>().into()
}

/// What the processes of a row share: moments, by the clock of [`now`].
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
    /// How long the victim has waited.
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
    let wanted = |operation: &&Operation| {
        args.operations.is_empty() || args.operations.iter().any(|wish| wish == operation.name)
    };
    let mut cells = Vec::new();
    for operation in OPERATIONS.iter().filter(wanted) {
        for victim in operation.victims {
            match Row::new(&session, args.attacker, operation, victim).and_then(|mut row| row.sweep(args)) {
                Ok(found) => cells.extend(found),
                // A driver that does not carry it out has no row.
                Err(error) => eprintln!("{}: {}: {error}", operation.name, victim.name),
            }
        }
    }
    session.finish(Placement::Other, cells)
}

/// The processes of one operation and one victim.
struct Row {
    stage: Stage,
    label: Label,
    range: u64,
    /// From the order to the attacker's beginning.
    lead: u64,
    moments: Moments,
    attacker: Worker,
    hog: Worker,
    victim: Worker,
}

impl Row {
    fn new(
        session: &Session,
        starvation: Starvation,
        operation: &'static Operation,
        victim: &'static Victim,
    ) -> Result<Row> {
        let moments = Moments(Memory::new(4096)?);
        let mut stage = Stage::new(session, None)?;
        for service in [victim::SERVICE, operation::BYSTANDER] {
            let serve = |talker| victim::serve(talker, &moments);
            stage.server(format!("server of the {service}"), Some(CPUS[0]), service, serve)?;
        }
        let device = stage.device.clone();
        let attacker = stage.start("attacker", Some(CPUS[1]), |control| {
            starvation.attacker()?;
            let mut attacker = Attacker::new(&device, &moments, operation);
            control.obey(|at| if at == PREPARE { attacker.prepare() } else { attacker.act(at) })
        })?;
        let hog = stage.start("hog", Some(CPUS[1]), |control| {
            starvation.hog()?;
            control.obey(|at| starvation::burst(&moments, at))
        })?;
        let run = |control: &mut Control| victim::run(control, &device, &moments, victim);
        let victim_process = stage.start("victim", Some(CPUS[0]), run)?;
        let label =
            Label::new("inversion", &format!("{}: {}: {}", starvation.name(), operation.name, victim.name));
        let (range, lead) = (operation.nanoseconds, starvation.lead());
        Ok(Row { stage, label, range, lead, moments, attacker, hog, victim: victim_process })
    }

    /// A cell without a hog, and one for each repetition.
    fn sweep(&mut self, args: &InversionArgs) -> Result<Vec<Cell>> {
        // What runs for the first time takes longer.
        self.point(None)?;
        let (mut calm, mut lengths) = (Vec::new(), Vec::new());
        for _ in 0..CALM {
            calm.push(self.point(None)?);
            lengths.push((self.moments.at(Moment::End) - self.moments.at(Moment::Begin)) as f64);
        }
        let length = stats::median(lengths) as u64;
        let range = self.range.max(length);
        let mut cells = vec![cell(self.label.clone(), &calm)];
        let (mut preempted, mut within) = (0, 0);
        for repeat in 0..args.repeats {
            let mut samples = Vec::new();
            for point in 0..args.points {
                let part = point * u64::from(args.repeats) + u64::from(repeat);
                let offset = range * part / (args.points * u64::from(args.repeats));
                samples.push(self.point(Some(offset))?);
                within += u64::from(offset < length);
                let hog = self.moments.at(Moment::Hog);
                preempted +=
                    u64::from(self.moments.at(Moment::Begin) < hog && hog < self.moments.at(Moment::End));
            }
            cells.push(cell(self.label.clone().with("repeat", repeat + 1), &samples));
        }
        if !args.run.quiet {
            eprintln!("{}: takes {length} ns, preempted at {preempted} of {within} points", self.label.case);
        }
        if preempted * 2 < within {
            return Err(Error::failed(format!(
                "the attacker lost its CPU at {preempted} of {within} points"
            )));
        }
        Ok(cells)
    }

    /// What the victim waits if the hog begins so long after the attacker; without a hog if there is no such moment.
    fn point(&mut self, offset: Option<u64>) -> Result<u64> {
        let workers = &mut self.stage.workers;
        self.moments.clear();
        for worker in [self.attacker, self.victim] {
            workers.order(worker, &Order::Go(PREPARE))?;
            workers.collect(&[worker], TIMEOUT)?;
        }
        let start = now() + self.lead;
        workers.order(self.attacker, &Order::Go(start))?;
        if let Some(offset) = offset {
            workers.order(self.hog, &Order::Go(start + offset))?;
        }
        let begin = start + offset.unwrap_or(self.range) + DELAY;
        workers.order(self.victim, &Order::Go(begin))?;
        let all = [self.victim, self.attacker, self.hog];
        workers.collect(if offset.is_some() { &all } else { &all[..2] }, TIMEOUT)?;
        Ok(self.moments.at(Moment::Waited))
    }
}

fn cell(label: Label, samples: &[u64]) -> Cell {
    let mut histogram = stats::new_histogram();
    let wall = samples.iter().sum::<u64>() as f64;
    let blocks = stats::summarise(samples, 1, wall, &mut histogram).into_iter().collect();
    Cell { label, measured: Measured::Latency(Latency { blocks, histogram: stats::to_pairs(&histogram) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own() {
        let mut names: Vec<_> = OPERATIONS
            .iter()
            .flat_map(|operation| operation.victims.iter().map(|victim| (operation.name, victim.name)))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
