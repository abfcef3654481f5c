// SPDX-License-Identifier: GPL-2.0
//! A process of a load: threads that serve, and threads that call all other processes.

use super::shared::{Shared, GO};
use super::worker::{self, insist, Process, Remote, Worker, FIND, PUBLISH, SUM};
use super::LoadArgs;
use anyhow::{ensure, Context};
use nix::sys::resource::{setrlimit, Resource};
use nix::unistd::{getpid, setuid, Uid};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The space that a process maps: libbinder's.
const SPACE: usize = (1 << 20) - 2 * 4096;

/// Random bytes in the largest message.
const LARGEST: usize = 4000;

/// Of so many calls, one is made of or by a process that is about to be frozen.
const HUSHED: u32 = 16;

/// The user of the process in a slot.
pub fn user(slot: u64) -> u32 {
    10_000 + slot as u32
}

/// Is the context manager, and makes processes known to each other.
pub fn manage(device: &Path, shared: &'static Shared, ready: impl FnOnce()) {
    let process = Process::open(device, SPACE, 0, shared).expect("open the device");
    process.device.set_context_manager().expect("become context manager");
    ready();
    Worker::new(&process, 0).enter_and_serve();
}

/// Serves and calls until the process is killed.
pub fn play(args: &LoadArgs, device: &Path, shared: &'static Shared, id: u32) -> anyhow::Result<()> {
    let slot = shared.record(id).slot.get();
    shared.record(id).pid.set(getpid().as_raw() as u64);
    // Or the C driver logs for each call that it cannot set the nice value.
    setrlimit(Resource::RLIMIT_NICE, 40, 40)?;
    setuid(Uid::from_raw(user(slot)))?;
    let process = Process::open(device, SPACE, id, shared)?;
    process.device.set_max_threads(slot as u32 % 4)?;
    publish(&process)?;
    shared.record(id).is_published.set(1);
    std::thread::scope(|scope| {
        for number in 1..=args.callers {
            let process = &process;
            scope.spawn(move || {
                let mut caller = Caller::new(args, shared, process, number);
                insist(caller.call_around().with_context(|| format!("caller {number} of process {id}")));
            });
        }
        let serve = || Worker::new(&process, 0).enter_and_serve();
        if slot % 4 == 1 {
            // The task that opened the device, its group's leader, has ended; other threads run.
            scope.spawn(serve);
            // SAFETY: The stack of the first thread is not unmapped, and nothing on it is dropped.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        serve();
    });
    Ok(())
}

fn publish(process: &Arc<Process>) -> anyhow::Result<()> {
    let mut worker = Worker::new(process, 0);
    let mut parcel = worker.message(&mut SmallRng::seed_from_u64(0), 0, 0);
    parcel.object(&worker::main_node());
    loop {
        let reply = worker.call((0, 0), PUBLISH, &parcel, 0)?;
        let reply = reply.context("the manager does not answer")?;
        let (is_held, _) = process.contents(&reply)?;
        worker.out.free_buffer(reply.buffer);
        if is_held == 1u64.to_ne_bytes() {
            return worker.flush();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread that calls.
struct Caller<'a> {
    args: &'a LoadArgs,
    shared: &'static Shared,
    process: &'a Arc<Process>,
    worker: Worker,
    number: u32,
    random: SmallRng,
    /// The number of oneway calls sent to each process.
    sent: HashMap<u32, u64>,
}

impl<'a> Caller<'a> {
    fn new(args: &'a LoadArgs, shared: &'static Shared, process: &'a Arc<Process>, number: u32) -> Self {
        let seed = args.seed << 40 | u64::from(process.id) << 8 | u64::from(number);
        let random = SmallRng::seed_from_u64(seed);
        let worker = Worker::new(process, number);
        Self { args, shared, process, worker, number, random, sent: HashMap::new() }
    }

    fn call_around(&mut self) -> anyhow::Result<()> {
        let mut next = Instant::now();
        loop {
            if self.shared.totals.phase.get() != GO {
                self.rest()?;
                next = Instant::now();
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next += Duration::from_micros(self.args.pace);
            if self.leaves_out(self.process.id) {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
            let own = self.shared.record(self.process.id).slot.get() as u32;
            let slot = match self.args.pairs {
                true => own ^ 1,
                false => (own + self.random.random_range(1..self.args.processes)) % self.args.processes,
            };
            match self.find(slot)? {
                Some(remote) if self.leaves_out(remote.id) => (),
                Some(remote) => self.call(&remote)?,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Returns whether to skip a call of or by a process that is about to be frozen: mostly yes.
    fn leaves_out(&mut self, id: u32) -> bool {
        self.shared.record(id).is_hushed.get() != 0 && self.random.random_range(0..HUSHED) > 0
    }

    /// Waits until the conductor ends the pause.
    fn rest(&mut self) -> anyhow::Result<()> {
        self.worker.flush()?;
        let own = self.shared.record(self.process.id);
        own.resting.add();
        while self.shared.totals.phase.get() != GO {
            if self.number == 1 {
                self.process.take_stock()?;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        own.resting.sub();
        Ok(())
    }

    /// The process in a slot, if there is one that is not dead.
    fn find(&mut self, slot: u32) -> anyhow::Result<Option<Arc<Remote>>> {
        let wanted = u64::from(slot);
        if let Some(known) = self.process.peer(wanted) {
            return Ok(Some(known));
        }
        let parcel = self.worker.message(&mut self.random, 0, 0);
        let reply = self.worker.call((0, 0), FIND | slot, &parcel, 0)?;
        let reply = reply.context("the manager does not answer")?;
        let (id, object) = self.process.contents(&reply)?;
        if let Some(handle) = object {
            let id = u64::from_ne_bytes(id.as_slice().try_into()?) as u32;
            ensure!(self.shared.record(id).slot.get() == wanted, "process {id} is found in slot {slot}");
            self.worker.hold(id, handle)?;
        }
        self.worker.out.free_buffer(reply.buffer);
        Ok(self.process.peer(wanted))
    }

    fn call(&mut self, remote: &Remote) -> anyhow::Result<()> {
        if self.random.random_range(0..100) < self.args.oneway {
            let sent = self.sent.entry(remote.id).or_default();
            let parcel = self.worker.message(&mut self.random, LARGEST, *sent);
            *sent += u64::from(self.worker.call_oneway(remote, &parcel)?);
            return Ok(());
        }
        let to = (remote.handle, remote.id);
        let is_answered = if self.random.random_range(0..100) < self.args.objects {
            self.worker.varied_call(to, &mut self.random, LARGEST)?
        } else {
            let parcel = self.worker.message(&mut self.random, LARGEST, 0);
            self.worker.call_checked(to, 0, &parcel, SUM)?
        };
        if is_answered {
            self.shared.totals.answered.add();
        }
        Ok(())
    }
}
