// SPDX-License-Identifier: GPL-2.0
//! Calls while the kernel takes memory back, next to calls while it does not.
//!
//! One client, one server, one CPU. Quiet blocks and squeezed ones take turns; each begins with a large call, which leaves the driver
//! with pages that nobody uses. Then portions of calls follow, each of them timed and every answer checked; in a squeezed
//! block, memory is asked for before each portion. Nothing runs besides, so what a squeezed call takes longer is what
//! it costs to get back what was taken, and not the time of whoever took it.

mod squeezer;

use std::ops::Range;

use binder_sys::BinderTransactionData;
use binder_sys::Parcel;
use binder_sys::TransactionFlags;
use clap::Args;
use clap::ValueEnum;
use nix::sched::sched_setaffinity;
use nix::sched::CpuSet;
use nix::unistd::Pid;

use crate::cli::RunBasics;
use crate::clock::Clock;
use crate::error::Context;
use crate::error::Error;
use crate::error::Result;
use crate::registry;
use crate::result::Cell;
use crate::result::Label;
use crate::result::Measured;
use crate::result::Pressure;
use crate::result::Ran;
use crate::result::RunFile;
use crate::result::Times;
use crate::run::Session;
use crate::run::Wanted;
use crate::stage::Stage;
use crate::stats;
use crate::talk::Talker;

pub use squeezer::Kind;
use squeezer::Squeezer;

/// What rows are called in result files.
pub const NAME: &str = "pressure";

/// Bytes of the call that each block begins with, and of its answer.
const LARGE: usize = 384 << 10;

/// Calls between two squeezes.
const PORTION: usize = 32;

/// Portions of a block.
const PORTIONS: usize = 8;

/// Calls before the first block.
const WARMUP: usize = 200;

/// How to press, and for how long.
#[derive(Args, Clone, Debug)]
pub struct PressureArgs {
    /// What is the same for all measurements.
    #[command(flatten)]
    pub run: RunBasics,
    /// Who wants memory back.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = <Kind as ValueEnum>::value_variants().to_vec())]
    pub kinds: Vec<Kind>,
    /// Blocks of 256 quiet calls, and of as many squeezed ones.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(BLOCKS))]
    pub blocks: u64,
    /// Bytes of each question and each answer.
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=131_072))]
    pub size: u32,
    /// Count instructions instead of time: for a guest under `qemu -icount shift=0`.
    #[arg(long)]
    pub count: bool,
}

/// Measures the driver that is loaded now.
pub fn run(args: &PressureArgs) -> Result<RunFile> {
    let clock = if args.count { Wanted::Instructions } else { Wanted::Time(None) };
    let mut session = Session::start(&args.run, clock, None)?;
    session.cpus.truncate(1);
    stay_on(&session.cpus)?;
    let mut kinds = args.kinds.clone();
    kinds.sort_unstable();
    kinds.dedup();
    let cells = kinds.into_iter().map(|kind| measure(kind, args, &session)).collect::<Result<_>>()?;
    session.finish("same", cells)
}

fn stay_on(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu).context(format!("CPU {cpu}"))?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).context(format!("cannot run on CPUs {cpus:?}"))
}

fn measure(kind: Kind, args: &PressureArgs, session: &Session) -> Result<Cell> {
    let clock = session.clock;
    let mut stage = Stage::plain(&session.site, clock, &session.cpus)?;
    let cpu = stage.seat(0).server;
    let server = stage.server("server under pressure".into(), cpu, NAME.into(), serve)?;
    let mut talker = Talker::open(&stage.device)?;
    let handle = registry::look_up(&mut talker, NAME)?;
    let squeezer = Squeezer::new(kind, &[Pid::this(), stage.workers.pid(server)])?;
    let mut client = Client { talker, handle, clock, number: 0, room: Vec::new() };
    let mut ignored = Seen::new();
    (0..WARMUP).try_for_each(|_| client.call(args.size as usize, &mut ignored))?;
    let mut seen = [Seen::new(), Seen::new()];
    let (mut squeezes, mut taken_back) = (0, 0);
    for block in 0..2 * args.blocks {
        let is_squeezed = block % 2 == 1;
        client.call(LARGE, &mut ignored)?;
        for _ in 0..PORTIONS {
            if is_squeezed {
                taken_back += squeezer.squeeze()?;
                squeezes += 1;
            }
            let seen = &mut seen[usize::from(is_squeezed)];
            (0..PORTION).try_for_each(|_| client.call(args.size as usize, seen))?;
        }
    }
    let [quiet, squeezed] = seen.map(Seen::into_times);
    let mut label = Label::new(NAME, kind.name());
    (label.size, label.reply) = (args.size, args.size);
    let measured = Measured::Pressure(Pressure {
        instructions: args.count,
        quiet,
        squeezed,
        squeezes,
        taken_back,
        large_failed: ignored.failed,
    });
    Ok(Cell { label, measured, cpu: None, ran: Ran::default() })
}

/// What was seen of some calls.
struct Seen {
    histogram: hdrhistogram::Histogram<u64>,
    failed: u64,
}

impl Seen {
    fn new() -> Seen {
        Seen { histogram: stats::new_histogram(), failed: 0 }
    }

    fn into_times(self) -> Times {
        Times { failed: self.failed, histogram: stats::to_pairs(&self.histogram) }
    }
}

struct Client {
    talker: Talker,
    handle: u32,
    clock: Clock,
    number: u64,
    room: Vec<u8>,
}

impl Client {
    /// Calls, and notes how long it took, or that it failed: it was refused, or its answer is not what it should be.
    fn call(&mut self, size: usize, seen: &mut Seen) -> Result<()> {
        self.number += 1;
        let mut question = Parcel::new();
        question.data.resize(size, 0);
        fastrand::Rng::with_seed(self.number).fill(&mut question.data);
        let call = question.to_handle(self.handle, 1, TransactionFlags::empty());
        let start = self.clock.now();
        let reply = match self.talker.call(&call) {
            Ok(reply) => reply,
            Err(Error::Protocol(why)) => {
                eprintln!("binder-bench: call {} failed: {why}", self.number);
                seen.failed += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let ticks = self.clock.now() - start;
        self.room.resize(size, 0);
        let whole = reply.data_size as usize == size;
        if whole {
            self.talker.port().read(&reply, &mut self.room)?;
        }
        self.talker.out.free_buffer(reply.buffer);
        self.talker.flush()?;
        if whole && self.room.iter().zip(&question.data).all(|(&got, &sent)| got == answer(sent)) {
            seen.histogram += self.clock.ns(ticks).round() as u64;
        } else {
            eprintln!("binder-bench: the answer of call {} is wrong", self.number);
            seen.failed += 1;
        }
        Ok(())
    }
}

fn answer(byte: u8) -> u8 {
    byte ^ 0x5a
}

fn serve(mut talker: Talker) -> Result<()> {
    let mut parcel = Parcel::new();
    loop {
        let call: BinderTransactionData = talker.next_call()?;
        parcel.data.resize(call.data_size as usize, 0);
        talker.port().read(&call, &mut parcel.data)?;
        for byte in &mut parcel.data {
            *byte = answer(*byte);
        }
        talker.out.free_buffer(call.buffer).reply(&parcel.to_caller(TransactionFlags::empty()));
        talker.flush()?;
    }
}

/// How many blocks of each kind there may be.
pub const BLOCKS: Range<u64> = 1..1000;
