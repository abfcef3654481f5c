// SPDX-License-Identifier: GPL-2.0
//! Random streams of commands, right and wrong, whose outcome must be the same on any driver.
//!
//! A seed decides everything: the order of the roles, their writes, and so their returns. Nobody
//! waits, and one role runs at a time, so the outcome depends on the driver alone. The returns go
//! into a trace without what may differ: pids are roles, buffers are numbered in their order. The
//! program prints a digest of the trace for each seed; `make torture ONLY=fuzz` compares those of
//! two drivers, and the traces where they differ.

use crate::child::caught;
use crate::freezer::Freezer;
use crate::ops::{Op, WriteReadOp};
use crate::pages::page;
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
    /// The driver that is loaded: decides in which pid namespace pids are frozen
    #[arg(long, value_enum, default_value_t = Driver::Rust)]
    driver: Driver,
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
                trace = live(&Stage::new(args.driver, Path::new(SCRATCH), pids), seed);
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
/// A read that has less room than this left may have left something.
const NEARLY_FULL: u64 = 100;
const OBJECTS: [u64; 4] = [0, 0x10, 0x20, 0x30];

/// A role, and its received buffers.
struct Role {
    name: char,
    port: Port,
    /// The number by which it is frozen.
    pid: u32,
    buffers: Vec<u64>,
    /// The handles that it has been given.
    handles: Vec<u32>,
    /// How many calls it serves.
    serves: u32,
    is_frozen: bool,
    /// A part of its space is elsewhere: its buffers cannot be read.
    is_moved: bool,
    /// Its thread has read all that it could at its last step.
    is_drained: bool,
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
        let pid = stage.pid_to_freeze(&port.actor);
        Role {
            name,
            port,
            pid,
            buffers: Vec::new(),
            handles: if name == 'm' { vec![] } else { vec![0] },
            serves: 0,
            is_frozen: false,
            is_moved: false,
            is_drained: false,
        }
    });
    let random = SmallRng::seed_from_u64(seed);
    let mut play = Play { roles: roles.into(), numbers: HashMap::new(), random, trace: String::new() };
    for _ in 0..STEPS {
        match play.random.random_range(0..40) {
            0..=4 => play.freeze(),
            5 => play.move_a_page(),
            6 => play.leave(),
            _ => play.step(),
        }
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
        let has_read = outcome.errno as i32 == 0;
        self.roles[role].is_drained = has_read && outcome.read_consumed + NEARLY_FULL <= room as u64;
        if has_read {
            writeln!(self.trace, "  read {}", outcome.read_consumed).expect("a string");
            for item in outcome.returns() {
                self.received(role, &item);
            }
        }
        let error = self.roles[role].port.extended_error();
        writeln!(self.trace, "  error {error:x?}").expect("a string");
    }

    /// A role freezes or thaws a process, perhaps itself, or reads its frozen state. None is frozen
    /// twice: the C driver thaws without notice if that fails.
    fn freeze(&mut self) {
        let [by, of] = [0; 2].map(|_| self.random.random_range(0..self.roles.len()));
        let freezer = Freezer::by(self.roles[by].port.clone(), self.roles[of].pid);
        let names = [by, of].map(|role| self.roles[role].name);
        let told = match self.random.random_range(0..6) {
            0 => format!("{:x?}", freezer.info()),
            1..=3 if !self.roles[of].is_frozen => {
                let frozen = freezer.freeze(0);
                self.roles[of].is_frozen = frozen.is_ok();
                format!("freeze {frozen:?}")
            }
            _ => {
                self.roles[of].is_frozen = false;
                format!("thaw {:?}", freezer.thaw())
            }
        };
        writeln!(self.trace, "{names:?} {told}").expect("a string");
    }

    /// A role moves a part of its space, once in a while. No calls reach it any more.
    fn move_a_page(&mut self) {
        let role = self.random.random_range(0..self.roles.len());
        if self.roles[role].is_moved || self.chance(70) {
            return;
        }
        let (address, _) = self.roles[role].port.space.expect("a space");
        let part = Op::Move { address: address + page() as u64, length: page() };
        let moved = self.roles[role].port.actor.number(part).is_ok();
        self.roles[role].is_moved = true;
        writeln!(self.trace, "{} moves a page: {moved}", self.roles[role].name).expect("a string");
    }

    /// A role's thread leaves, and is a new thread from then on. It may have calls, made or served,
    /// and unread work. The C driver drops counts that the thread has not read.
    fn leave(&mut self) {
        let Role { name, port, is_drained, .. } = &self.roles[self.random.random_range(0..self.roles.len())];
        if !is_drained {
            return;
        }
        writeln!(self.trace, "{name} leaves {:?}", port.ioctl(ioctl::BINDER_THREAD_EXIT, 0i32))
            .expect("a string");
        // In C the first read of a thread returns at once. This read has no room for work.
        port.raw(WriteReadOp { room: 4, ..Default::default() });
    }

    /// Mostly a handle that the role has been given.
    fn handle(&mut self, role: usize) -> u32 {
        let known = self.roles[role].handles.clone();
        match known.choose(&mut self.random) {
            Some(handle) if self.chance(85) => *handle,
            _ => self.random.random_range(0..HANDLES),
        }
    }

    /// An object that a role may send: its own, or one that it has been given.
    fn object(&mut self, role: usize) -> FlatBinderObject {
        let ptr = self.pick(&OBJECTS);
        let cookie = if self.chance(95) { ptr + 1 } else { 0 };
        let handle = self.handle(role);
        match self.random.random_range(0..10) {
            0..=3 => FlatBinderObject::binder(ptr, cookie),
            4..=5 => FlatBinderObject::weak_binder(ptr, cookie),
            6..=8 => FlatBinderObject::strong_handle(handle),
            _ => FlatBinderObject::weak_handle(handle),
        }
    }

    fn parcel(&mut self, role: usize) -> Parcel {
        let mut parcel = Parcel::new();
        for _ in 0..self.pick(&[0, 0, 1, 1, 2, 3]) {
            let padding = self.pick(&[0, 4, 8, 16]);
            parcel.data.extend(std::iter::repeat_n(0x55, padding));
            parcel.object(&self.object(role));
        }
        let tail = self.pick(&[0, 1, 7, 64, 3000]);
        parcel.data.extend(std::iter::repeat_n(0xaa, tail));
        parcel
    }

    /// A call or a reply, which is wrong in one way now and then.
    fn transaction(&mut self, role: usize) -> BinderTransactionData {
        let (parcel, handle) = (self.parcel(role), self.handle(role));
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
        let handle = self.handle(role);
        let cookie = u64::from(self.handle(role));
        let ptr = self.pick(&OBJECTS);
        let wrong = u64::from(!self.chance(90));
        if self.roles[role].serves > 0 && self.chance(40) {
            self.roles[role].serves -= 1;
            to.reply(&self.transaction(role));
            return;
        }
        match self.random.random_range(0..64) {
            0..=19 => to.transaction(&self.transaction(role)),
            20..=23 => to.reply(&self.transaction(role)),
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
            58..=59 => to.request_freeze(handle, cookie),
            60 => to.clear_freeze(handle, cookie),
            61 => to.freeze_done(cookie),
            _ => to.increfs(0),
        };
    }

    /// Adds a role's return to the trace.
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
                let needs_reply = is_call && data.flags & TransactionFlags::ONE_WAY.bits() == 0;
                self.roles[role].serves += u32::from(needs_reply);
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
        if self.roles[role].is_moved {
            return;
        }
        let Role { port, handles, .. } = &mut self.roles[role];
        let mut digest = DefaultHasher::new();
        port.data(data).hash(&mut digest);
        writeln!(self.trace, "    data {:016x}", digest.finish()).expect("a string");
        for index in 0..data.offsets_size / 8 {
            let object = port.object_at(data, index);
            let is_handle = matches!(object.kind, ObjectType::HANDLE | ObjectType::WEAK_HANDLE);
            if is_handle && !handles.contains(&object.handle()) {
                handles.push(object.handle());
            }
            writeln!(self.trace, "    {object:x?}").expect("a string");
        }
    }

    /// Adds the role's nodes and handles at the end to the trace.
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
