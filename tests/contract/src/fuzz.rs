// SPDX-License-Identifier: GPL-2.0
//! Random streams of commands, right and wrong, whose outcome must be the same on any driver.
//!
//! A seed decides everything: the order of the threads, their writes, and so their returns. One
//! thread runs at a time, so the outcome depends on the driver alone. A thread that waits does so
//! until it is interrupted, or is frozen while another one runs. The returns go
//! into a trace without what may differ: pids are names, buffers are numbered in their order, and
//! addresses count from the buffer. The program prints a digest of the trace for each seed;
//! `make torture ONLY=fuzz` compares those of two drivers. Where they differ it leaves out steps, as
//! long as they still differ: each step draws its own random numbers.

use crate::cgroup::Cgroup;
use crate::child::caught;
use crate::freezer::Freezer;
use crate::logs::until;
use crate::ops::{Op, WriteReadOp};
use crate::pages::page;
use crate::pids::GlobalPids;
use crate::port::{stream, Port};
use crate::runner::{in_new_namespaces, private_mounts, SCRATCH};
use crate::sg::{array_bytes, SgParcel};
use crate::stage::Stage;
use crate::suite::Driver;
use binder_sys::*;
use clap::ValueEnum;
use nix::errno::Errno;
use nix::sys::wait::waitpid;
use nix::unistd::pipe;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::fmt::Write;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter;
use std::path::Path;
use std::time::Duration;

#[derive(clap::Args)]
pub struct FuzzArgs {
    /// The drivers to run each seed on, and their filesystems: one decides in which pid namespace pids are frozen
    #[arg(long, value_delimiter = ',', value_parser = loaded, default_value = "rust=binder")]
    drivers: Vec<(Driver, String)>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Print all that happens
    #[arg(long)]
    trace: bool,
    /// The steps to take, of all; all if none is named
    #[arg(long, value_delimiter = ',')]
    steps: Vec<u32>,
}

/// A driver, and the name of its filesystem.
fn loaded(word: &str) -> Result<(Driver, String), String> {
    let (driver, filesystem) = word.split_once('=').ok_or("DRIVER=FILESYSTEM")?;
    Ok((Driver::from_str(driver, false)?, filesystem.into()))
}

/// Runs the seeds, each on every driver in turn, and prints a line for each run.
pub fn run(args: &FuzzArgs) -> anyhow::Result<()> {
    for seed in args.seed..args.seed + args.count {
        for (driver, filesystem) in &args.drivers {
            let (_, to) = pipe()?;
            let first = in_new_namespaces(to, |_| {
                let (mut trace, mut commands) = (String::new(), 0);
                let end = caught(|| {
                    let pids = GlobalPids::new();
                    private_mounts();
                    let stage = Stage::named(filesystem, *driver, Path::new(SCRATCH), pids);
                    (trace, commands) = live(&stage, seed, &args.steps);
                });
                report(args, seed, &trace, commands, end);
            })?;
            waitpid(first, None)?;
        }
    }
    Ok(())
}

fn report(args: &FuzzArgs, seed: u64, trace: &str, commands: u32, end: Result<(), String>) {
    if args.trace {
        print!("{trace}");
    }
    let mut digest = DefaultHasher::new();
    trace.hash(&mut digest);
    match end {
        Ok(()) => println!("seed {seed} {:016x} {commands}", digest.finish()),
        Err(why) => println!("seed {seed} died: {why}"),
    }
}

/// The steps of a seed.
const STEPS: u32 = 480;
/// Handles, objects and cookies are few, so that right ones are met often.
const HANDLES: u32 = 6;
const OBJECTS: [u64; 4] = [0, 0x10, 0x20, 0x30];
/// Time for a worker of the driver.
const FLUSHED: Duration = Duration::from_millis(60);

/// A process, and what its threads share.
struct Process {
    name: char,
    /// The number by which it is frozen.
    pid: u32,
    global_pid: u32,
    /// A descriptor that it may send.
    file: i32,
    /// The buffers that it has received and not freed. Drivers may put them at different places.
    buffers: Vec<u64>,
    /// The handles that it has been given.
    handles: Vec<u32>,
    is_frozen: bool,
    /// A part of its space is elsewhere: its buffers cannot be read.
    is_moved: bool,
}

/// A thread.
struct Role {
    name: char,
    process: usize,
    port: Port,
    /// How many calls it serves.
    serves: u32,
    /// How many calls it has made or served.
    calls: u32,
    /// It has made a call: another one is wrong until the outcome is there.
    awaits: bool,
    /// An outcome of one of its calls may be there, unread. The C driver loses it if a second one follows.
    may_be_told: bool,
}

struct Play<'a> {
    stage: &'a Stage,
    processes: Vec<Process>,
    roles: Vec<Role>,
    /// The number of buffers received.
    received: usize,
    commands: u32,
    random: SmallRng,
    trace: String,
}

/// Plays these steps of a seed; gives the trace, and how many commands were written.
fn live(stage: &Stage, seed: u64, steps: &[u32]) -> (String, u32) {
    let mut play = Play {
        stage,
        processes: Vec::new(),
        roles: Vec::new(),
        received: 0,
        commands: 0,
        random: SmallRng::seed_from_u64(seed),
        trace: String::new(),
    };
    for (name, port) in [('m', stage.file_manager()), ('a', stage.client()), ('b', stage.server())] {
        play.add(name, port);
    }
    for step in (0..STEPS).filter(|step| steps.is_empty() || steps.contains(step)) {
        play.random = SmallRng::seed_from_u64(seed << 8 | u64::from(step));
        writeln!(play.trace, "step {step}").expect("a string");
        match play.random.random_range(0..44) {
            0..=4 => play.freeze(),
            5 => play.move_a_page(),
            6 => play.leave(),
            7 => play.die(),
            8 => play.poll(),
            9 => play.flush(),
            10..=11 => play.wait(),
            12..=13 => play.freeze_by_cgroup(),
            _ => play.step(),
        }
    }
    for process in 0..play.processes.len() {
        play.survey(process);
    }
    (play.trace, play.commands)
}

impl<'a> Play<'a> {
    /// Adds a process with two threads; the manager has one.
    fn add(&mut self, name: char, port: Port) {
        port.nonblocking(true);
        let process = self.processes.len();
        self.processes.push(Process {
            name,
            pid: self.stage.pid_to_freeze(&port.actor),
            global_pid: self.stage.global_pid(&port),
            file: port.actor.give(&File::open("/dev/null").expect("a file")),
            buffers: Vec::new(),
            handles: if name == 'm' { vec![] } else { vec![0] },
            is_frozen: false,
            is_moved: false,
        });
        let second = (name != 'm').then(|| (name.to_ascii_uppercase(), port.thread()));
        for (name, port) in iter::once((name, port)).chain(second) {
            let role = Role { name, process, port, serves: 0, calls: 0, awaits: false, may_be_told: false };
            self.roles.push(role);
        }
    }

    /// The process of a role.
    fn of(&mut self, role: usize) -> &mut Process {
        &mut self.processes[self.roles[role].process]
    }

    /// A process and one of its threads.
    fn some_process(&mut self) -> (usize, Port) {
        let process = self.random.random_range(0..self.processes.len());
        let port = self.roles.iter().find(|role| role.process == process).expect("a thread").port.clone();
        (process, port)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *from.choose(&mut self.random).expect("a choice")
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_ratio(percent, 100)
    }

    /// A role writes some commands, and usually reads.
    fn step(&mut self) {
        let role = self.random.random_range(0..self.roles.len());
        self.step_of(role);
    }

    fn step_of(&mut self, role: usize) {
        let mut commands = Commands::new();
        for _ in 0..self.random.random_range(0..4) {
            self.command(role, &mut commands);
            self.commands += 1;
        }
        let room = self.pick(&[512, 512, 512, 0, 80, 160]);
        self.write_read(role, &commands, room);
    }

    /// Returns whether it has read.
    fn write_read(&mut self, role: usize, commands: &Commands, room: usize) -> bool {
        let name = self.roles[role].name;
        let bytes = commands.as_bytes().to_vec();
        writeln!(self.trace, "{name} writes {} for {room}", bytes.len()).expect("a string");
        self.roles[role].port.start_raw(WriteReadOp { commands: bytes, room, ..Default::default() });
        self.finish(role)
    }

    /// The same for what is out.
    fn finish(&mut self, role: usize) -> bool {
        let outcome = self.roles[role].port.finish_raw();
        writeln!(self.trace, "  errno {} wrote {}", outcome.errno as i32, outcome.write_consumed)
            .expect("a string");
        let has_read = outcome.errno as i32 == 0;
        self.roles[role].may_be_told &= outcome.errno != Errno::EAGAIN;
        if has_read {
            writeln!(self.trace, "  read {}", outcome.read_consumed).expect("a string");
            for item in outcome.returns() {
                self.received(role, &item);
            }
        }
        let error = self.roles[role].port.extended_error();
        writeln!(self.trace, "  error {error:x?}").expect("a string");
        has_read
    }

    /// A thread freezes or thaws a process, perhaps its own, or reads its frozen state. None is
    /// frozen or thawed twice: the C driver thaws without notice if the former fails, and notifies
    /// of the latter. In C, both queue node updates for nothing (`freeze::makes_nothing_readable`).
    /// Confirmations before that queue the same updates in either driver, if a thread can make them.
    fn freeze(&mut self) {
        let by = self.random.random_range(0..self.roles.len());
        let kind = self.random.random_range(0..6);
        let (process, _) = self.some_process();
        let confirmed = stream(|to| OBJECTS.iter().fold(to, |to, ptr| to.increfs_done(*ptr, ptr + 1)));
        // A thread with an unread error executes no command.
        let of_process = self.roles.iter().filter(|role| role.process == process);
        let confirm = |role: &Role| role.port.raw(WriteReadOp::of(&confirmed)).write_consumed > 0;
        if of_process.filter(|role| confirm(role)).count() == 0 {
            return;
        }
        let of = &mut self.processes[process];
        let freezer = Freezer::by(self.roles[by].port.clone(), of.pid);
        let told = match kind {
            1..=3 if !of.is_frozen => {
                let frozen = freezer.freeze(0);
                of.is_frozen = frozen.is_ok();
                format!("freeze {frozen:?}")
            }
            1..=5 if of.is_frozen => {
                of.is_frozen = false;
                format!("thaw {:?}", freezer.thaw())
            }
            _ => format!("{:x?}", freezer.info()),
        };
        writeln!(self.trace, "{} of {} {told}", self.roles[by].name, of.name).expect("a string");
    }

    /// A process moves a part of its space, once in a while. No calls reach it any more.
    fn move_a_page(&mut self) {
        let (process, port) = self.some_process();
        if self.processes[process].is_moved || self.chance(90) {
            return;
        }
        let (address, _) = port.space.expect("a space");
        let part = Op::Move { address: address + page() as u64, length: page() };
        let moved = port.actor.number(part).is_ok();
        let of = &mut self.processes[process];
        of.is_moved = true;
        writeln!(self.trace, "{} moves a page: {moved}", of.name).expect("a string");
    }

    /// A process other than the manager is killed, once in a while, and another one takes its name.
    fn die(&mut self) {
        let (process, port) = self.some_process();
        let Process { name, pid, global_pid, .. } = self.processes[process];
        if name == 'm' || self.chance(60) {
            return;
        }
        port.kill();
        self.ends_calls();
        Freezer { port: self.roles[0].port.clone(), pid, global_pid }.wait_released(self.stage);
        writeln!(self.trace, "{name} dies").expect("a string");
        let last = self.roles.len();
        self.add(name, self.stage.client());
        // In the places of the dead ones.
        let mut added = self.roles.split_off(last).into_iter();
        for role in self.roles.iter_mut().filter(|role| role.process == process) {
            *role = Role { process, ..added.next().expect("as many threads") };
        }
        self.processes.swap_remove(process);
    }

    /// A thread polls, and reads.
    fn poll(&mut self) {
        let role = self.random.random_range(0..self.roles.len());
        let is_readable = self.roles[role].port.poll(0) != 0;
        let has_read = self.write_read(role, &Commands::new(), 512);
        // A read may return nothing after all: an update of a node may have become needless.
        writeln!(self.trace, "  was readable: {}", is_readable || !has_read).expect("a string");
    }

    /// A role reads until something comes; returns whether it waits.
    fn begin_to_wait(&mut self, role: usize) -> bool {
        let port = &self.roles[role].port;
        port.nonblocking(false);
        port.start_read();
        let waits = port.actor.is_blocked();
        writeln!(self.trace, "{} waits: {waits}", self.roles[role].name).expect("a string");
        waits
    }

    fn end_to_wait(&mut self, role: usize) {
        self.finish(role);
        self.roles[role].port.nonblocking(true);
    }

    /// A thread waits, and is interrupted.
    fn wait(&mut self) {
        let role = self.random.random_range(0..self.roles.len());
        if self.begin_to_wait(role) {
            self.roles[role].port.actor.interrupt();
        }
        self.end_to_wait(role);
    }

    /// A process, of which a thread may be waiting, gets no CPU while a thread of another one writes.
    fn freeze_by_cgroup(&mut self) {
        let role = self.random.random_range(0..self.roles.len());
        let Role { process, port, .. } = &self.roles[role];
        let (process, pid) = (*process, port.actor.pid());
        let name = self.processes[process].name;
        let cgroup = Cgroup::new(&format!("fuzz-{name}")).expect("a cgroup");
        cgroup.add(pid).expect("move into it");
        let reads = self.chance(70);
        if reads {
            self.begin_to_wait(role);
        }
        cgroup.freeze(true).expect("freeze");
        until("frozen processes", || cgroup.is_frozen().expect("the events").then_some(()));
        writeln!(self.trace, "no CPU for {name}").expect("a string");
        let others: Vec<_> =
            (0..self.roles.len()).filter(|other| self.roles[*other].process != process).collect();
        let other = self.pick(&others);
        self.step_of(other);
        cgroup.freeze(false).expect("thaw");
        if reads {
            self.end_to_wait(role);
        }
    }

    /// A process forks another one, which ends: its copy of the device is closed.
    fn flush(&mut self) {
        let (process, port) = self.some_process();
        if self.chance(70) {
            return;
        }
        port.actor.fork().exit();
        writeln!(self.trace, "{} has had a child", self.processes[process].name).expect("a string");
        // After C's worker has run, the next read of each thread returns at once.
        std::thread::sleep(FLUSHED);
        for role in self.roles.iter().filter(|role| role.process == process) {
            role.port.raw(WriteReadOp { room: 4, ..Default::default() });
        }
    }

    /// A role's thread leaves, and is a new thread from then on. It may have a call, made or served;
    /// of several, C fails the innermost alone (`deaths::middle_of_a_chain`). C drops updates that
    /// the thread has not read, and loses the space of a reply (`leaving::exit_with_a`).
    fn leave(&mut self) {
        let role = self.random.random_range(0..self.roles.len());
        // After a first read, one that returns nothing finds nothing.
        let reads = (0..).take_while(|_| self.write_read(role, &Commands::new(), 512)).count();
        if reads == 0 || self.roles[role].calls > 1 {
            return;
        }
        self.roles[role].calls = 0;
        let Role { name, port, .. } = &self.roles[role];
        writeln!(self.trace, "{name} leaves {:?}", port.ioctl(ioctl::BINDER_THREAD_EXIT, 0i32))
            .expect("a string");
        // In C the first read of a thread returns at once. This read has no room for work.
        port.raw(WriteReadOp { room: 4, ..Default::default() });
        self.ends_calls();
    }

    /// Calls may end at this step.
    fn ends_calls(&mut self) {
        self.roles.iter_mut().for_each(|role| role.may_be_told |= role.calls > 0);
    }

    /// Mostly a handle that the role has been given.
    fn handle(&mut self, role: usize) -> u32 {
        let known = self.of(role).handles.clone();
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
        let flags = self.pick(&[ObjectFlags::ACCEPTS_FDS, ObjectFlags::ACCEPTS_FDS, ObjectFlags::empty()]);
        match self.random.random_range(0..10) {
            0..=3 => FlatBinderObject::binder(ptr, cookie).with_flags(flags),
            4..=5 => FlatBinderObject::weak_binder(ptr, cookie).with_flags(flags),
            6..=8 => FlatBinderObject::strong_handle(handle),
            _ => FlatBinderObject::weak_handle(handle),
        }
    }

    /// A descriptor that a role may send, or none.
    fn file(&mut self, role: usize) -> i32 {
        let file = self.of(role).file;
        self.pick(&[file, file, file, file, file, file, file, 900])
    }

    /// Appends a file, a block, a block in a block, or an array of files.
    fn append(&mut self, role: usize, to: &mut SgParcel) {
        let arena = self.roles[role].port.arena.clone();
        let length = self.pick(&[0, 1, 8, 24, 100]);
        match self.random.random_range(0..8) {
            0..=1 => to.fd(self.file(role)),
            2..=3 => to.block(&arena, &vec![0x77; length]),
            4..=5 => {
                let block = to.block(&arena, &[0x77; 32]);
                let parent = if self.chance(90) { block } else { self.random.random_range(0..4) };
                let at = self.pick(&[0, 0, 8, 8, 24, 24, 4, 96]);
                to.child(&arena, &vec![0x88; length], parent, at)
            }
            _ => {
                let files = [self.file(role), self.file(role)];
                let block = to.block(&arena, &array_bytes(&files));
                let count = self.pick(&[2, 2, 2, 2, 2, 2, 2, 1, 1, 0, 3, 1 << 62]);
                to.array(block, self.pick(&[0, 0, 0, 0, 0, 4]), count)
            }
        };
    }

    fn parcel(&mut self, role: usize) -> SgParcel {
        let mut sg = SgParcel::new();
        for _ in 0..self.pick(&[0, 0, 1, 1, 2, 3]) {
            let padding = self.pick(&[0, 4, 8, 16]);
            sg.parcel.data.extend(iter::repeat_n(0x55, padding));
            match self.chance(60) {
                true => drop(sg.object(&self.object(role))),
                false => self.append(role, &mut sg),
            }
        }
        let tail = self.pick(&[0, 1, 7, 64, 3000]);
        sg.parcel.data.extend(iter::repeat_n(0xaa, tail));
        sg
    }

    /// A call or a reply, which is wrong in one way now and then, and whether it is to be sent with
    /// room for blocks.
    fn transaction(&mut self, role: usize) -> (BinderTransactionDataSg, bool) {
        let (parcel, handle) = (self.parcel(role), self.handle(role));
        let code = self.random.random_range(0..100);
        let mut data = self.roles[role].port.place(handle, code, &parcel.parcel);
        data.flags = self.pick(&[0, 0, 0, 1, 1, 0x10, 0x10, 0x20, 0x21, 0x51]);
        let mut buffers_size = parcel.room;
        match self.random.random_range(0..40) {
            0 => data.offsets_size += 4,
            1 => data.data_size = data.data_size.saturating_sub(8),
            2 => data.buffer = 8,
            3 => data.offsets = 8,
            4 => data.data_size = 3 << 20,
            5 => data.offsets_size = u64::MAX - 7,
            6 => data.buffer += 1,
            7 => buffers_size += self.pick(&[4, 8, 3 << 20]),
            8 => buffers_size = buffers_size.saturating_sub(8),
            _ => {}
        }
        let with_room = buffers_size != 0 && self.chance(95) || self.chance(10);
        (BinderTransactionDataSg { data, buffers_size }, with_room)
    }

    fn call<'c>(&mut self, role: usize, to: &'c mut Commands) -> &'c mut Commands {
        let (data, with_room) = self.transaction(role);
        let awaits = data.data.flags & TransactionFlags::ONE_WAY.bits() == 0;
        self.roles[role].awaits |= awaits;
        self.roles[role].calls += u32::from(awaits);
        match (data, with_room) {
            (data, true) => to.transaction_sg(&data),
            (data, false) => to.transaction(&data.data),
        }
    }

    fn reply<'c>(&mut self, role: usize, to: &'c mut Commands) -> &'c mut Commands {
        self.ends_calls();
        match self.transaction(role) {
            (data, true) => to.reply_sg(&data),
            (data, false) => to.reply(&data.data),
        }
    }

    fn command(&mut self, role: usize, to: &mut Commands) {
        let handle = self.handle(role);
        let cookie = u64::from(self.handle(role));
        let ptr = self.pick(&OBJECTS);
        let wrong = u64::from(!self.chance(90));
        if self.roles[role].serves > 0 && self.chance(70) {
            self.roles[role].serves -= 1;
            self.reply(role, to);
            return;
        }
        match self.random.random_range(0..64) {
            0..=19 if !self.roles[role].may_be_told && (!self.roles[role].awaits || self.chance(20)) => {
                self.call(role, to)
            }
            20..=23 if self.chance(30) => self.reply(role, to),
            24..=33 => {
                let known = self.of(role).buffers.len();
                let chosen = self.random.random_range(0..known.max(1));
                match self.of(role).buffers.get(chosen).copied() {
                    Some(buffer) if wrong == 0 => {
                        self.of(role).buffers.swap_remove(chosen);
                        // Once in a while it is freed twice.
                        (0..=u32::from(self.chance(10))).fold(to, |to, _| to.free_buffer(buffer))
                    }
                    buffer => to.free_buffer(buffer.unwrap_or(0x1000) + wrong * 4),
                }
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

    /// Adds a thread's return to the trace.
    fn received(&mut self, role: usize, item: &Return) {
        self.roles[role].awaits &=
            !matches!(item, Return::Reply(_) | Return::FailedReply | Return::DeadReply | Return::FrozenReply);
        let (Return::Transaction(data) | Return::Reply(data)) = item else {
            return writeln!(self.trace, "  {item:x?}").expect("a string");
        };
        let is_call = matches!(item, Return::Transaction(_));
        self.of(role).buffers.push(data.buffer);
        self.received += 1;
        let needs_reply = is_call && data.flags & TransactionFlags::ONE_WAY.bits() == 0;
        self.roles[role].serves += u32::from(needs_reply);
        self.roles[role].calls += u32::from(needs_reply);
        let from = self.roles.iter().find(|other| other.port.actor.pid() == data.sender_pid);
        let from = from.map_or('-', |other| self.processes[other.process].name);
        let kind = if is_call { "call" } else { "reply" };
        let BinderTransactionData {
            target, cookie, code, flags, sender_euid, data_size, offsets_size, ..
        } = *data;
        writeln!(
            self.trace,
            "  {kind} node {target:x}/{cookie:x} code {code} flags {flags:x} from {from} {sender_euid} \
             size {data_size}/{offsets_size} in {}",
            self.received,
        )
        .expect("a string");
        if !self.of(role).is_moved {
            self.contents(role, data);
        }
    }

    /// Notes the data that came along, objects in their new terms, and blocks.
    fn contents(&mut self, role: usize, data: &BinderTransactionData) {
        let Role { process, port, .. } = &self.roles[role];
        let handles = &mut self.processes[*process].handles;
        let told = |bytes: &[u8]| {
            let mut digest = DefaultHasher::new();
            counted_from(data.buffer, port.space.expect("a space"), bytes).hash(&mut digest);
            digest.finish()
        };
        writeln!(self.trace, "    data {:016x}", told(&port.data(data))).expect("a string");
        for index in 0..data.offsets_size / 8 {
            let object = port.object_at(data, index);
            if matches!(object.kind, ObjectType::HANDLE | ObjectType::WEAK_HANDLE)
                && !handles.contains(&object.handle())
            {
                handles.push(object.handle());
            }
            if object.kind == ObjectType::PTR {
                writeln!(self.trace, "    block {:016x}", told(&port.received_block(data, index)))
                    .expect("a string");
            } else {
                writeln!(self.trace, "    {object:x?}").expect("a string");
            }
        }
    }

    /// Adds a process's nodes at the end to the trace.
    fn survey(&mut self, process: usize) {
        let port = &self.roles.iter().find(|role| role.process == process).expect("a thread").port;
        let mut ptr = 0;
        loop {
            let info = port.node_debug_info(ptr);
            writeln!(self.trace, "{} has {info:x?}", self.processes[process].name).expect("a string");
            ptr = info.ptr;
            if ptr == 0 {
                return;
            }
        }
    }
}

/// Data in which addresses of the receiver's space count from `base`, since drivers may put a buffer
/// at different places.
fn counted_from(base: u64, (space, length): (u64, usize), bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in (0..bytes.len().saturating_sub(7)).step_by(4) {
        let word = u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if (space..space + length as u64).contains(&word) {
            bytes[at..at + 8].copy_from_slice(&word.wrapping_sub(base).to_ne_bytes());
        }
    }
    bytes
}
