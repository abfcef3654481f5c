// SPDX-License-Identifier: GPL-2.0
//! Random streams of commands, right and wrong, whose outcome must be the same on any driver.
//!
//! A seed decides everything: who is next, what it writes, and with it what everybody is told. Nobody
//! waits and nobody runs at the same time as another, so the outcome depends on the driver alone. What
//! comes back goes into a trace from which all is left out that may differ: pids are roles, buffers are
//! numbered as they come. A digest of the trace is printed for each seed; `make torture ONLY=fuzz` compares those of
//! two drivers, and the traces where they differ.

use crate::child::caught;
use crate::ops::WriteReadOp;
use crate::pids::GlobalPids;
use crate::port::Port;
use crate::runner::{in_new_namespaces, private_mounts, SCRATCH};
use crate::stage::Stage;
use crate::suite::Driver;
use binder_sys::*;
use nix::sys::wait::waitpid;
use nix::unistd::pipe;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

#[derive(clap::Args)]
pub struct FuzzArgs {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Print all that happens
    #[arg(long)]
    trace: bool,
}

/// Runs the seeds, and prints a line for each.
pub fn run(args: &FuzzArgs) -> anyhow::Result<()> {
    for seed in args.seed..args.seed + args.count {
        let (_, to) = pipe()?;
        let first = in_new_namespaces(to, |_| {
            let mut trace = String::new();
            let end = caught(|| {
                let pids = GlobalPids::new();
                private_mounts();
                // Which driver it is, nobody asks: nothing is expected to differ.
                trace = live(&Stage::new(Driver::C, Path::new(SCRATCH), pids), seed);
            });
            report(args, seed, &trace, end);
        })?;
        waitpid(first, None)?;
    }
    Ok(())
}

fn report(args: &FuzzArgs, seed: u64, trace: &str, end: Result<(), String>) {
    if args.trace {
        print!("{trace}");
    }
    let mut digest = DefaultHasher::new();
    trace.hash(&mut digest);
    match end {
        Ok(()) => println!("seed {seed} {:016x} {}", digest.finish(), trace.len()),
        Err(why) => println!("seed {seed} died: {why}"),
    }
}

/// The writes of a seed.
const STEPS: u32 = 60;
/// Handles, objects and cookies are few, so that right ones are met often.
const HANDLES: u32 = 6;
const OBJECTS: [u64; 4] = [0, 0x10, 0x20, 0x30];

/// One of the cast, and what it has received.
struct Role {
    name: char,
    port: Port,
    buffers: Vec<u64>,
}

struct Play {
    roles: Vec<Role>,
    /// Numbers of buffers, by role and address.
    numbers: HashMap<(char, u64), usize>,
    random: SmallRng,
    trace: String,
}

/// Plays one seed; gives the trace.
fn live(stage: &Stage, seed: u64) -> String {
    let ports = [('m', stage.manager()), ('a', stage.client()), ('b', stage.server())];
    let roles = ports.map(|(name, port)| {
        port.nonblocking(true);
        Role { name, port, buffers: Vec::new() }
    });
    let random = SmallRng::seed_from_u64(seed);
    let mut play = Play { roles: roles.into(), numbers: HashMap::new(), random, trace: String::new() };
    for _ in 0..STEPS {
        play.step();
    }
    for role in 0..play.roles.len() {
        play.survey(role);
    }
    play.trace
}

impl Play {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *from.choose(&mut self.random).expect("a choice")
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_ratio(percent, 100)
    }

    /// A role writes some commands, and usually reads.
    fn step(&mut self) {
        let role = self.random.random_range(0..self.roles.len());
        let mut commands = Commands::new();
        for _ in 0..self.random.random_range(0..4) {
            self.command(role, &mut commands);
        }
        let room = self.pick(&[512, 512, 512, 0, 80, 4, 160]);
        let name = self.roles[role].name;
        let bytes = commands.as_bytes().to_vec();
        writeln!(self.trace, "{name} writes {} for {room}", bytes.len()).expect("a string");
        let outcome = self.roles[role].port.raw(WriteReadOp { commands: bytes, room, ..Default::default() });
        writeln!(self.trace, "  errno {} wrote {}", outcome.errno as i32, outcome.write_consumed)
            .expect("a string");
        if outcome.errno as i32 == 0 {
            writeln!(self.trace, "  read {}", outcome.read_consumed).expect("a string");
            for item in outcome.returns() {
                self.received(role, &item);
            }
        }
        let error = self.roles[role].port.extended_error();
        writeln!(self.trace, "  error {error:x?}").expect("a string");
    }

    fn handle(&mut self) -> u32 {
        self.random.random_range(0..HANDLES)
    }

    /// An object that a role may send: its own, or one that it has been given.
    fn object(&mut self) -> FlatBinderObject {
        let ptr = self.pick(&OBJECTS);
        let cookie = if self.chance(95) { ptr + 1 } else { 0 };
        let handle = self.handle();
        match self.random.random_range(0..10) {
            0..=3 => FlatBinderObject::binder(ptr, cookie),
            4..=5 => FlatBinderObject::weak_binder(ptr, cookie),
            6..=8 => FlatBinderObject::strong_handle(handle),
            _ => FlatBinderObject::weak_handle(handle),
        }
    }

    fn parcel(&mut self) -> Parcel {
        let mut parcel = Parcel::new();
        for _ in 0..self.pick(&[0, 0, 1, 1, 2, 3]) {
            let padding = self.pick(&[0, 4, 8, 16]);
            parcel.data.extend(std::iter::repeat_n(0x55, padding));
            parcel.object(&self.object());
        }
        let tail = self.pick(&[0, 1, 7, 64, 3000]);
        parcel.data.extend(std::iter::repeat_n(0xaa, tail));
        parcel
    }

    /// A call or a reply, which is wrong in one way now and then.
    fn transaction(&mut self, role: usize) -> BinderTransactionData {
        let (parcel, handle) = (self.parcel(), self.handle());
        let code = self.random.random_range(0..100);
        let mut data = self.roles[role].port.place(handle, code, &parcel);
        data.flags = self.pick(&[0, 0, 0, 1, 1, 0x10, 0x20, 0x21]);
        match self.random.random_range(0..40) {
            0 => data.offsets_size += 4,
            1 => data.data_size = data.data_size.saturating_sub(8),
            2 => data.buffer = 8,
            3 => data.offsets = 8,
            4 => data.data_size = 3 << 20,
            5 => data.offsets_size = u64::MAX - 7,
            6 => data.buffer += 1,
            _ => {}
        }
        data
    }

    fn command(&mut self, role: usize, to: &mut Commands) {
        let handle = self.handle();
        let cookie = u64::from(self.handle());
        let ptr = self.pick(&OBJECTS);
        let wrong = u64::from(!self.chance(90));
        match self.random.random_range(0..60) {
            0..=13 => to.transaction(&self.transaction(role)),
            14..=23 => to.reply(&self.transaction(role)),
            24..=33 => {
                let known = self.roles[role].buffers.clone();
                let buffer = known.choose(&mut self.random).copied().unwrap_or(0x1000);
                to.free_buffer(buffer + wrong * 8)
            }
            34..=35 => to.increfs(handle),
            36..=38 => to.acquire(handle),
            39..=40 => to.release(handle),
            41..=42 => to.decrefs(handle),
            43..=45 => to.increfs_done(ptr, ptr + 1 + wrong),
            46..=48 => to.acquire_done(ptr, ptr + 1 + wrong),
            49..=50 => to.request_death(handle, cookie),
            51 => to.clear_death(handle, cookie),
            52 => to.dead_binder_done(cookie),
            53 => to.enter_looper(),
            54 => to.register_looper(),
            55 => to.exit_looper(),
            56 => to.command(codes::BC_ATTEMPT_ACQUIRE, &cookie),
            57 => to.command(self.random.random(), &cookie),
            _ => to.increfs(0),
        };
    }

    /// Notes what a role was told.
    fn received(&mut self, role: usize, item: &Return) {
        let name = self.roles[role].name;
        match item {
            Return::Transaction(data) | Return::Reply(data) => {
                let is_call = matches!(item, Return::Transaction(_));
                let next = self.numbers.len();
                let number = *self.numbers.entry((name, data.buffer)).or_insert(next);
                if !self.roles[role].buffers.contains(&data.buffer) {
                    self.roles[role].buffers.push(data.buffer);
                }
                let from = self.roles.iter().find(|other| other.port.actor.pid() == data.sender_pid);
                let from = from.map_or('-', |other| other.name);
                writeln!(
                    self.trace,
                    "  {} node {:x}/{:x} code {} flags {:x} from {from} {} size {}/{} in {number}",
                    if is_call { "call" } else { "reply" },
                    data.target,
                    data.cookie,
                    data.code,
                    data.flags,
                    data.sender_euid,
                    data.data_size,
                    data.offsets_size,
                )
                .expect("a string");
                self.contents(role, data);
            }
            other => writeln!(self.trace, "  {other:x?}").expect("a string"),
        }
    }

    /// Notes the data that came along, objects in their new terms.
    fn contents(&mut self, role: usize, data: &BinderTransactionData) {
        let port = &self.roles[role].port;
        let mut digest = DefaultHasher::new();
        port.data(data).hash(&mut digest);
        writeln!(self.trace, "    data {:016x}", digest.finish()).expect("a string");
        for index in 0..data.offsets_size / 8 {
            let object = port.object_at(data, index);
            writeln!(self.trace, "    {object:x?}").expect("a string");
        }
    }

    /// Notes what is left in the end.
    fn survey(&mut self, role: usize) {
        let port = &self.roles[role].port;
        let mut ptr = 0;
        loop {
            let info = port.node_debug_info(ptr);
            writeln!(self.trace, "{} has {info:x?}", self.roles[role].name).expect("a string");
            ptr = info.ptr;
            if ptr == 0 {
                return;
            }
        }
    }
}
