// SPDX-License-Identifier: GPL-2.0
//! Waits of a process while a stranger loses its CPU in the middle of an operation.
//!
//! Victim and server run on the first CPU. The attacker runs on the second one and has little right to it. A third CPU, if there is one,
//! has what the kernel does on its own. The attacker begins an [`operation`] at an agreed moment. So many nanoseconds later, a hog takes the
//! second CPU until the victim has finished, for [`BURST`] at most. When the hog runs, the [`victim`] begins what it does, and its wait is
//! measured. The moment of the hog sweeps over the operation.
//!
//! Under `qemu -icount` a nanosecond is an instruction, so the sweep preempts the attacker all along its operation, and repeats exactly.
//!
//! With `--seed`, three attackers of different ranks begin one after the other, each while the one before acts. The seed chooses their
//! operations, all moments, and the hog.

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
use operation::Attacker;
pub use operation::OPERATIONS;
use starvation::{now, sleep_until, Starvation, AWAKE};
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

/// An order of a victim to prepare the next point, and the first of an attacker's, which are the numbers of operations. Greater ones are
/// moments.
const PREPARE: u64 = 0;

/// The random attackers, from the lowest rank to the highest, and their victims.
const RANKS: [Starvation; 3] = [Starvation::Idle, Starvation::Nice, Starvation::Realtime];
const VICTIMS: [&Victim; 4] = [&victim::CALL, &victim::ONEWAY, &victim::CALL_WITH_PAGES, &victim::OPEN];

/// The operations that need root.
const OF_ROOT: [&str; 2] = ["log read", "reclaim"];

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
    /// Measure the waits of these victims (default: all).
    #[arg(long, value_delimiter = ';')]
    pub victims: Vec<String>,
    /// Preempt the attacker at this many moments.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(2..))]
    pub points: u64,
    /// Have three attackers at a time do what this seed chooses.
    #[arg(long, conflicts_with_all = ["attacker", "operations"])]
    pub seed: Option<u64>,
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
    let is_wanted = |victim: &&&Victim| wants(&args.victims, victim.name);
    let mut add = |row: &str, victim: &Victim, found: Result<[Cell; 2]>| match found {
        Ok(found) => cells.extend(found),
        // A driver that does not carry it out has no row.
        Err(error) => eprintln!("{row}: {}: {error}", victim.name),
    };
    if let Some(seed) = args.seed {
        VICTIMS
            .iter()
            .filter(is_wanted)
            .for_each(|victim| add("random", victim, at_random(&session, args.points, seed, victim)));
        return session.finish(Placement::Other, cells);
    }
    for (number, operation) in OPERATIONS.iter().enumerate() {
        if wants(&args.operations, operation.name) {
            let victims = operation.victims.iter().filter(is_wanted);
            victims.for_each(|victim| add(operation.name, victim, sweep(&session, args, number, victim)));
        }
    }
    session.finish(Placement::Other, cells)
}

/// The processes of a row.
struct Scene<'a> {
    stage: Stage,
    moments: &'a Moments,
    /// Attackers with their hogs.
    ranks: Vec<(Starvation, Worker, Worker)>,
    victim: Worker,
}

impl<'a> Scene<'a> {
    fn new(session: &Session, moments: &'a Moments, ranks: &[Starvation], victim: &Victim) -> Result<Self> {
        let mut stage = Stage::new(session, None)?;
        for service in [victim::SERVICE, operation::BYSTANDER] {
            let serve = |talker| victim::serve(talker, moments);
            stage.server(format!("server of the {service}"), Some(CPUS[0]), service, serve)?;
        }
        let device = stage.device.clone();
        let mut started = Vec::new();
        for &rank in ranks {
            let attacker = stage.start("attacker", Some(CPUS[1]), |control| {
                rank.attacker()?;
                let mut attacker = Attacker::new(&device, moments);
                control.obey(|at| match OPERATIONS.get(at as usize) {
                    Some(operation) => attacker.prepare(operation),
                    None => attacker.act(at),
                })
            })?;
            let hog = stage.start("hog", Some(CPUS[1]), |control| {
                rank.hog()?;
                control.obey(|at| starvation::burst(moments, at))
            })?;
            started.push((rank, attacker, hog));
        }
        let run = |control: &mut Control| victim::run(control, &device, moments, victim);
        let victim = stage.start("victim", Some(CPUS[0]), run)?;
        Ok(Scene { stage, moments, ranks: started, victim })
    }

    /// The wait of the victim, which starts so long after the first attacker. `acts`: numbers of operations with their moments after the
    /// start, one for each rank. `hog`: the rank whose hog runs, if any.
    fn point(&mut self, acts: &[(usize, u64)], offset: u64, hog: Option<usize>) -> Result<u64> {
        self.moments.clear();
        let workers = &mut self.stage.workers;
        let mut all = vec![self.victim];
        let attackers = self.ranks.iter().zip(acts).map(|(&(_, attacker, _), &act)| (attacker, act));
        let prepared = attackers.clone().map(|(attacker, (number, _))| (attacker, number as u64));
        for (worker, order) in prepared.chain([(self.victim, PREPARE)]) {
            workers.order(worker, &Order::Go(order))?;
            workers.collect(&[worker], TIMEOUT)?;
        }
        let start = now() + self.ranks.iter().map(|(rank, ..)| rank.lead()).max().unwrap_or_default();
        for (attacker, (_, at)) in attackers {
            workers.order(attacker, &Order::Go(start + at))?;
            all.push(attacker);
        }
        if let Some(rank) = hog {
            workers.order(self.ranks[rank].2, &Order::Go(start + offset))?;
            all.push(self.ranks[rank].2);
        }
        workers.order(self.victim, &Order::Go(start + offset + DELAY))?;
        workers.collect(&all, TIMEOUT)?;
        Ok(self.moments.at(Moment::Waited))
    }
}

/// A cell without a hog, and one with a hog at all points of an operation.
fn sweep(session: &Session, args: &InversionArgs, number: usize, victim: &Victim) -> Result<[Cell; 2]> {
    let (starvation, moments) = (args.attacker, &Moments(Memory::new(4096)?));
    let operation = &OPERATIONS[number];
    let mut scene = Scene::new(session, moments, &[starvation], victim)?;
    let mut point = |offset, has_hog: bool| scene.point(&[(number, 0)], offset, has_hog.then_some(0));
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
    Ok(cells(&case, &calm, &samples))
}

/// A cell without attackers, and one with three at a time.
fn at_random(session: &Session, points: u64, seed: u64, victim: &Victim) -> Result<[Cell; 2]> {
    let moments = &Moments(Memory::new(4096)?);
    let mut scene = Scene::new(session, moments, &RANKS, victim)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    scene.point(&[], 0, None)?;
    let calm = (0..CALM).map(|_| scene.point(&[], 0, None)).collect::<Result<Vec<_>>>()?;
    let mut chosen: Vec<usize> =
        (0..OPERATIONS.len()).filter(|&at| !OF_ROOT.contains(&OPERATIONS[at].name)).collect();
    let mut samples = Vec::new();
    for _ in 0..points {
        rng.shuffle(&mut chosen);
        let (mut acts, mut at) = (Vec::new(), 0);
        for &number in &chosen[..RANKS.len()] {
            acts.push((number, at));
            at += AWAKE + rng.u64(..OPERATIONS[number].nanoseconds);
        }
        samples.push(scene.point(&acts, at, Some(rng.usize(..RANKS.len())))?);
    }
    Ok(cells(&format!("random: three at once, seed {seed}: {}", victim.name), &calm, &samples))
}

fn cells(case: &str, calm: &[u64], samples: &[u64]) -> [Cell; 2] {
    let label = Label::new("inversion", case);
    [cell(label.clone(), calm), cell(label.with("hog", 1), samples)]
}

fn cell(label: Label, samples: &[u64]) -> Cell {
    let mut histogram = stats::new_histogram();
    let wall = samples.iter().sum::<u64>() as f64;
    let blocks = stats::summarise(samples, 1, wall, &mut histogram).into_iter().collect();
    Cell { label, measured: Measured::Latency(Latency { blocks, histogram: stats::to_pairs(&histogram) }) }
}
