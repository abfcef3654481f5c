// SPDX-License-Identifier: GPL-2.0
//! One run: set up all pairs, then measure all cells in short blocks that take turns.
//!
//! What a machine does to a measurement (another load, a warmer CPU, a timer) comes and goes. In short blocks
//! that take turns it meets all cells alike, and a block is the unit that the report resamples.

use std::io::IsTerminal;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::sched::sched_getaffinity;
use nix::sched::CpuSet;
use nix::sys::utsname::uname;
use nix::unistd::Pid;

use crate::binder;
use crate::binder::BinderCaller;
use crate::caller;
use crate::caller::Caller;
use crate::caller::Limit;
use crate::caller::Samples;
use crate::cli::Placement;
use crate::cli::RunArgs;
use crate::clock;
use crate::clock::Clock;
use crate::count;
use crate::crew::Answer;
use crate::crew::Control;
use crate::crew::Crew;
use crate::crew::Member;
use crate::crew::Order;
use crate::device::Site;
use crate::error::Context;
use crate::error::Error;
use crate::error::Result;
use crate::result::check_writable;
use crate::result::Cell;
use crate::result::Environment;
use crate::result::Latency;
use crate::result::Measured;
use crate::result::RunFile;
use crate::result::Workload;
use crate::result::SCHEMA;
use crate::stats;
use crate::stream;
use crate::stream::End;
use crate::stream::StreamCaller;

/// A process that has not been heard of for so long is hung.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Room for the samples of one block: more round trips than a block of ten seconds has.
const ROOM: usize = 1 << 20;

/// Round trips at the start of each block that only warm caches.
const WARMUP: u64 = 32;

/// Any fixed number: each run visits the cells in the same shuffled orders.
const SEED: u64 = 0x5eed;

/// A point to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Who carries the calls.
    pub workload: Workload,
    /// Payload.
    pub size: u32,
    /// Pairs at the same time.
    pub pairs: u32,
}

/// Measures the driver that is loaded now.
pub fn run(args: &RunArgs) -> Result<RunFile> {
    if let Some(path) = args.output.as_deref().filter(|p| p.as_os_str() != "-") {
        check_writable(path)?;
    }
    let clock = if args.count { Clock::counting() } else { Clock::calibrated(args.clock)? };
    if args.count {
        clock::require_instruction_clock(&clock)?;
    }
    let site = Site::prepare(&args.device)?;
    let cpus = cpus(args)?;
    let points = points(args);
    let mut stage = Stage::set_up(args, &site, clock, &cpus)?;
    let cells = if args.count {
        count::measure(&mut stage, &points, args)?
    } else {
        measure(&mut stage, &points, args, &clock)?
    };
    drop(stage);
    Ok(RunFile {
        schema: SCHEMA,
        driver: args.driver.clone(),
        environment: environment(args, &site, &clock, cpus)?,
        cells,
    })
}

fn points(args: &RunArgs) -> Vec<Point> {
    let one = [1];
    let pairs: &[u32] = if args.count { &one } else { &args.pairs };
    let mut points = Vec::new();
    for &workload in &args.workloads {
        for &size in &args.sizes {
            for &pairs in pairs {
                let point = Point { workload, size, pairs };
                if !points.contains(&point) {
                    points.push(point);
                }
            }
        }
    }
    points
}

/// The CPUs of the run: those asked for, as far as the system allows us to use them.
fn cpus(args: &RunArgs) -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let allowed: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).collect();
    match &args.cpus {
        Some(wish) => match wish.iter().find(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => Err(Error::Usage(format!("--cpus: CPU {cpu} is not available; {allowed:?} are"))),
            None => Ok(wish.clone()),
        },
        None if in_user_mode_linux() => Ok(allowed[..1.min(allowed.len())].to_vec()),
        None => Ok(allowed),
    }
}

fn in_user_mode_linux() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux"))
}

fn environment(args: &RunArgs, site: &Site, clock: &Clock, cpus: Vec<usize>) -> Result<Environment> {
    let uts = uname().context("uname")?;
    let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
    Ok(Environment {
        tool: env!("CARGO_PKG_VERSION").into(),
        kernel: format!("{} {}", text(uts.release()), text(uts.version())),
        machine: text(uts.machine()),
        cpus,
        boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into(),
        clock: clock.name().into(),
        placement: args.placement.name().into(),
        protocol: site.protocol,
    })
}

/// All processes of a run, and which of them are the clients of which workload.
pub struct Stage {
    /// The processes.
    pub crew: Crew,
    clients: Vec<(Workload, Vec<Member>)>,
}

impl Stage {
    fn set_up(args: &RunArgs, site: &Site, clock: Clock, cpus: &[usize]) -> Result<Stage> {
        let mut stage = Stage { crew: Crew::default(), clients: Vec::new() };
        let pairs = if args.count { 1 } else { args.pairs.iter().copied().max().unwrap_or(1) };
        let largest = args.sizes.iter().copied().max().unwrap_or(0);
        if args.workloads.contains(&Workload::Binder) {
            stage.start_manager(site)?;
        }
        for &workload in &args.workloads {
            if stage.clients.iter().any(|(known, _)| *known == workload) {
                continue;
            }
            let mut members = Vec::new();
            for pair in 0..pairs {
                let (client_cpu, server_cpu) = place(args.placement, pair as usize, cpus);
                let name = |role: &str| format!("{} {role} of pair {}", workload.name(), pair + 1);
                let seat = Seat {
                    names: [name("server"), name("client")],
                    cpus: [server_cpu, client_cpu],
                    clock,
                    largest,
                };
                members.push(match workload {
                    Workload::Binder => stage.start_binder(site, pair.into(), seat)?,
                    Workload::Pipe => stage.start_stream(End::pipes()?, seat)?,
                    Workload::Seqpacket => stage.start_stream(End::seqpacket()?, seat)?,
                });
            }
            stage.clients.push((workload, members));
        }
        Ok(stage)
    }

    /// The clients that take part in a point.
    pub fn clients(&self, point: &Point) -> &[Member] {
        let (_, members) =
            self.clients.iter().find(|(w, _)| *w == point.workload).expect("all workloads are set up");
        &members[..point.pairs as usize]
    }

    fn start_manager(&mut self, site: &Site) -> Result<()> {
        let path = site.device.clone();
        let manager = self.crew.start("binder context manager".into(), None, move |control| {
            binder::open(&path)?.manage(|| control.answer(&Answer::Ready))
        })?;
        self.crew.await_ready(&[manager], PATIENCE)
    }

    fn start_binder(&mut self, site: &Site, pair: u64, seat: Seat) -> Result<Member> {
        let [server, client] = seat.names;
        let largest = seat.largest;
        let path = site.device.clone();
        let server = self.crew.start(server, seat.cpus[0], move |control| {
            let port = binder::open(&path)?;
            port.register(pair)?;
            control.answer(&Answer::Ready)?;
            binder::serve(port, largest)
        })?;
        self.crew.await_ready(&[server], PATIENCE)?;
        let path = site.device.clone();
        let client = self.crew.start(client, seat.cpus[1], move |control| {
            let port = binder::open(&path)?;
            let handle = port.look_up(pair)?;
            obey(control, BinderCaller::new(port, handle, seat.largest), &seat.clock)
        })?;
        self.crew.await_ready(&[client], PATIENCE)?;
        Ok(client)
    }

    fn start_stream(&mut self, (ours, theirs): (End, End), seat: Seat) -> Result<Member> {
        let [server, client] = seat.names;
        // Each process keeps only its own end, so that either notices when the other is gone.
        let mut ends = (Some(ours), Some(theirs));
        let server = self.crew.start(server, seat.cpus[0], |control| {
            drop(ends.0.take());
            control.answer(&Answer::Ready)?;
            stream::serve(ends.1.take().expect("taken once"), seat.largest)
        })?;
        let client = self.crew.start(client, seat.cpus[1], |control| {
            drop(ends.1.take());
            obey(control, StreamCaller::new(ends.0.take().expect("taken once"), seat.largest), &seat.clock)
        })?;
        self.crew.await_ready(&[server, client], PATIENCE)?;
        Ok(client)
    }
}

/// Where a pair sits and what it needs to know.
struct Seat {
    names: [String; 2],
    cpus: [Option<usize>; 2],
    clock: Clock,
    largest: u32,
}

/// CPUs of the client and of the server of a pair.
fn place(placement: Placement, pair: usize, cpus: &[usize]) -> (Option<usize>, Option<usize>) {
    let cpu = |turn: usize| cpus.get(turn % cpus.len().max(1)).copied();
    match placement {
        Placement::Free => (None, None),
        Placement::Same => (cpu(pair), cpu(pair)),
        Placement::Other => (cpu(2 * pair), cpu(2 * pair + 1)),
    }
}

/// A client's life: wait for an order, call, report.
fn obey<C: Caller>(control: &mut Control, mut caller: C, clock: &Clock) -> Result<()> {
    let mut samples = Samples { ticks: Vec::with_capacity(ROOM), ..Default::default() };
    control.answer(&Answer::Ready)?;
    loop {
        match control.order()? {
            Order::Block { size, warmup, limit } => {
                caller.set_size(size);
                caller::counted(&mut caller, clock, warmup)?;
                caller::timed(&mut caller, clock, limit, &mut samples)?;
                samples = control.hand_over(samples)?;
            }
            Order::Window { size, calls } => {
                caller.set_size(size);
                let ticks = caller::counted(&mut caller, clock, calls)?;
                control.answer(&Answer::Ticks(ticks))?;
            }
        }
    }
}

fn measure(stage: &mut Stage, points: &[Point], args: &RunArgs, clock: &Clock) -> Result<Vec<Cell>> {
    let block = Duration::from_millis(args.block_ms);
    let (rounds, limit) = match args.iterations {
        Some(calls) => {
            let rounds = calls.div_ceil(1000).clamp(1, 20);
            (rounds, Limit { calls: calls.div_ceil(rounds), ticks: u64::MAX })
        }
        None => {
            let rounds = (args.seconds / block.as_secs_f64()).ceil().max(1.0) as u64;
            (rounds, Limit { calls: ROOM as u64, ticks: clock.ticks(block) })
        }
    };
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut seen: Vec<(Latency, Histogram<u64>)> =
        points.iter().map(|_| (Latency::default(), stats::new_histogram())).collect();
    let mut order: Vec<usize> = (0..points.len()).collect();
    // Round 0 only warms up: page tables, slabs, the pages of receive spaces.
    for round in 0..=rounds {
        rng.shuffle(&mut order);
        progress(args, round, rounds);
        for &index in &order {
            let samples = run_block(stage, &points[index], limit)?;
            if round > 0 {
                let (latency, histogram) = &mut seen[index];
                latency.blocks.extend(summarise(&samples, clock, histogram));
            }
        }
    }
    let cells = points.iter().zip(seen).map(|(point, (mut latency, histogram))| {
        latency.histogram = stats::to_pairs(&histogram);
        Cell {
            workload: point.workload,
            size: point.size,
            pairs: point.pairs,
            measured: Measured::Latency(latency),
        }
    });
    Ok(cells.collect())
}

fn run_block(stage: &mut Stage, point: &Point, limit: Limit) -> Result<Vec<Samples>> {
    let clients = stage.clients(point).to_vec();
    for &client in &clients {
        stage.crew.order(client, &Order::Block { size: point.size, warmup: WARMUP, limit })?;
    }
    let answers = stage.crew.collect(&clients, patience(limit))?;
    answers
        .into_iter()
        .map(|answer| match answer {
            Answer::Samples(samples) => Ok(samples),
            other => Err(Error::Protocol(format!("a client answered {other:?} to a block"))),
        })
        .collect()
}

/// How long a block may take: a block without a time limit gets 100 ms for each call, many ticks.
fn patience(limit: Limit) -> Duration {
    if limit.ticks == u64::MAX {
        PATIENCE + Duration::from_millis(100) * u32::try_from(limit.calls).unwrap_or(u32::MAX)
    } else {
        PATIENCE
    }
}

fn summarise(
    clients: &[Samples],
    clock: &Clock,
    histogram: &mut Histogram<u64>,
) -> Option<crate::result::Block> {
    let start = clients.iter().map(|s| s.start).min()?;
    let end = clients.iter().map(|s| s.end).max()?;
    let ns: Vec<u64> = clients.iter().flat_map(|s| &s.ticks).map(|&t| clock.ns(t).round() as u64).collect();
    stats::summarise(&ns, clock.ns(end - start), histogram)
}

fn progress(args: &RunArgs, round: u64, rounds: u64) {
    if args.quiet || !std::io::stderr().is_terminal() {
        return;
    }
    let end = if round == rounds { '\n' } else { '\r' };
    eprint!("{}: round {round} of {rounds}{end}", args.driver);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_take_turns_through_the_cpus() {
        assert_eq!(place(Placement::Same, 3, &[4, 5]), (Some(5), Some(5)));
        assert_eq!(place(Placement::Other, 0, &[4, 5]), (Some(4), Some(5)));
        assert_eq!(place(Placement::Other, 1, &[4, 5, 6, 7]), (Some(6), Some(7)));
        assert_eq!(place(Placement::Free, 1, &[4]), (None, None));
        assert_eq!(place(Placement::Other, 1, &[9]), (Some(9), Some(9)));
    }
}
