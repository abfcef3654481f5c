// SPDX-License-Identifier: GPL-2.0
//! What Android's activity manager does to applications: it starts, freezes, thaws and kills them.

use crate::app;
use crate::cgroups::Group;
use crate::identity::{self, user};
use crate::pressure::Pressure;
use crate::shared::{Shared, Started};
use crate::system::APPLICATIONS;
use anyhow::{bail, Context};
use binder_sys::Device;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// How long a freezer waits for calls to end, in milliseconds: not at all, as Android does, or a little.
const TIMEOUTS: [u32; 3] = [0, 20, 100];
/// Frozen at a time, or about to be.
const MOST_CACHED: usize = 3;
/// Bit 0 of `sync_recv`: a call was refused. Bit 1: one came between the request and its end.
const SYNC_RECEIVED: u32 = 1;
const PENDING: u32 = 2;
const ASYNC_RECEIVED: u32 = 1;

/// What was done, and what came of it.
#[derive(Default)]
pub struct Deeds {
    pub started: u64,
    pub freezes: u64,
    pub busy: u64,
    pub pending: u64,
    pub thaws: u64,
    pub thawed_with_oneway: u64,
    pub killed_for_call: u64,
    pub killed_cached: u64,
    pub killed_in_use: u64,
    pub killed_for_pressure: u64,
    pub killed_for_memory: u64,
}

/// An application's process.
pub struct Running {
    /// Its number in the shared memory.
    pub id: u64,
    pid: Pid,
    group: Group,
    state: State,
}

/// What an application is to the activity manager.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Somebody looks at it.
    Used,
    /// Nobody does: it is to be frozen then, unless it is still called.
    Cached(Instant),
    /// It is to be thawed then.
    Frozen(Instant),
}

/// The activity manager.
pub struct Activity {
    shared: &'static Shared,
    started: &'static [Started],
    device: Device,
    pressure: Pressure,
    random: SmallRng,
    seed: u64,
    /// Those that run, one for each user.
    pub running: Vec<Running>,
    /// The numbers of those that have ended.
    pub ended: Vec<u64>,
    replaced: u64,
    hogs: u64,
    /// What it has done.
    pub deeds: Deeds,
}

impl Activity {
    /// Starts all applications.
    pub fn start(shared: &'static Shared, started: &'static [Started], seed: u64) -> anyhow::Result<Self> {
        let device = Device::open("/dev/binder").context("/dev/binder")?;
        let (random, running) = (SmallRng::seed_from_u64(seed), Vec::new());
        let pressure = Pressure::watch()?;
        let (ended, deeds) = (Vec::new(), Deeds::default());
        let mut activity = Self {
            shared,
            started,
            device,
            pressure,
            random,
            seed,
            running,
            ended,
            replaced: 0,
            hogs: 0,
            deeds,
        };
        for id in 0..APPLICATIONS {
            let next = activity.launch(id)?;
            activity.running.push(next);
        }
        Ok(activity)
    }

    fn launch(&mut self, id: u64) -> anyhow::Result<Running> {
        anyhow::ensure!(
            (id as usize) < self.started.len(),
            "too many applications were started: give it less time"
        );
        let (shared, started, seed) = (self.shared, self.started, self.seed);
        let uid = user::FIRST_APPLICATION + (id % APPLICATIONS) as u32;
        let what = move || app::run(id, seed, shared, started);
        let pid = identity::start(shared, "an application", uid, "untrusted_app", what);
        let group = Group::of(uid, pid)?;
        self.started[id as usize].go.store(true, SeqCst);
        self.deeds.started += 1;
        Ok(Running { id, pid, group, state: State::Used })
    }

    /// Does one of the things that an activity manager does.
    pub fn step(&mut self) -> anyhow::Result<()> {
        if self.pressure.is_felt() {
            self.kill_largest()?;
        }
        self.reap()?;
        for index in 0..self.running.len() {
            match self.running[index].state {
                State::Cached(until) if until <= Instant::now() => self.freeze(index)?,
                State::Frozen(until) if until <= Instant::now() => self.thaw(index)?,
                _ => {}
            }
        }
        for index in 0..self.running.len() {
            self.consider(index)?;
        }
        Ok(())
    }

    /// Does something with an application, or mostly nothing.
    fn consider(&mut self, index: usize) -> anyhow::Result<()> {
        let own = &self.started[self.running[index].id as usize];
        if !own.attached.load(SeqCst) || own.hog.load(SeqCst) {
            return Ok(());
        }
        let cached = self.running.iter().filter(|app| app.state != State::Used).count();
        let has_hog = self.running.iter().any(|app| self.started[app.id as usize].hog.load(SeqCst));
        match (self.running[index].state, self.random.random_range(0..1000)) {
            (State::Used, 0..=99) if cached < MOST_CACHED => {
                own.frozen.store(true, SeqCst);
                self.running[index].state = State::Cached(self.later(20..100));
            }
            (State::Used, 100..=103) if !has_hog => {
                // Each second one feels pressure before the kernel kills it.
                self.hogs += 1;
                if self.hogs % 2 == 0 {
                    self.running[index].group.limit_softly()?;
                }
                own.hog.store(true, SeqCst);
            }
            (State::Used, 104..=105) => {
                self.deeds.killed_in_use += 1;
                self.kill(index)?;
            }
            (State::Frozen(_), 0..=1) => {
                self.deeds.killed_cached += 1;
                self.kill(index)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn later(&mut self, milliseconds: std::ops::Range<u64>) -> Instant {
        Instant::now() + Duration::from_millis(self.random.random_range(milliseconds))
    }

    /// First no calls any more, then no CPU.
    fn freeze(&mut self, index: usize) -> anyhow::Result<()> {
        let own = &self.started[self.running[index].id as usize];
        let pid = self.running[index].pid.as_raw() as u32;
        let timeout = TIMEOUTS[self.random.random_range(0..TIMEOUTS.len())];
        own.freezes_tried.add();
        match self.device.freeze(pid, true, timeout) {
            Ok(()) => {}
            Err(Errno::EAGAIN) => {
                self.deeds.busy += 1;
                own.frozen.store(false, SeqCst);
                self.running[index].state = State::Used;
                return Ok(());
            }
            Err(why) => bail!("freezing an application fails: {why}"),
        }
        own.freezes_done.add();
        self.running[index].group.freeze(true)?;
        if self.device.frozen_info(pid)?.sync_recv & PENDING != 0 {
            // A call came meanwhile: later again.
            self.deeds.pending += 1;
            self.device.freeze(pid, false, 0)?;
            own.thaws_done.add();
            self.running[index].group.freeze(false)?;
            own.frozen.store(false, SeqCst);
            self.running[index].state = State::Used;
            return Ok(());
        }
        self.deeds.freezes += 1;
        self.running[index].state = State::Frozen(self.later(20..400));
        Ok(())
    }

    /// Lets an application run again, unless it has missed a call.
    fn thaw(&mut self, index: usize) -> anyhow::Result<()> {
        let pid = self.running[index].pid.as_raw() as u32;
        let missed = self.device.frozen_info(pid)?;
        if missed.sync_recv & SYNC_RECEIVED != 0 {
            self.deeds.killed_for_call += 1;
            return self.kill(index);
        }
        if missed.async_recv & ASYNC_RECEIVED != 0 {
            self.deeds.thawed_with_oneway += 1;
        }
        let own = &self.started[self.running[index].id as usize];
        self.device.freeze(pid, false, 0).context("thaw")?;
        own.thaws_done.add();
        self.running[index].group.freeze(false)?;
        self.running[index].state = State::Used;
        own.frozen.store(false, SeqCst);
        self.deeds.thaws += 1;
        Ok(())
    }

    /// What Android's low-memory killer does.
    fn kill_largest(&mut self) -> anyhow::Result<()> {
        let largest = (0..self.running.len()).max_by_key(|index| self.running[*index].group.memory());
        self.deeds.killed_for_pressure += 1;
        self.kill(largest.expect("at least one application"))
    }

    fn kill(&mut self, index: usize) -> anyhow::Result<()> {
        identity::end(self.running[index].pid);
        self.replace(index)
    }

    /// Starts an application anew that has ended.
    fn replace(&mut self, index: usize) -> anyhow::Result<()> {
        self.running[index].group.remove()?;
        // Each has its number alone, and numbers tell the user.
        let user = self.running[index].id % APPLICATIONS;
        self.replaced += 1;
        let next = self.launch(self.replaced * APPLICATIONS + user)?;
        let before = std::mem::replace(&mut self.running[index], next);
        self.ended.push(before.id);
        Ok(())
    }

    /// Finds out who has ended by itself: the kernel may kill who uses too much memory, and nobody else.
    pub fn reap(&mut self) -> anyhow::Result<()> {
        let ended = match waitpid(None, Some(WaitPidFlag::WNOHANG))? {
            WaitStatus::StillAlive => return Ok(()),
            status => status,
        };
        let WaitStatus::Signaled(pid, Signal::SIGKILL, _) = ended else {
            bail!("a process ended: {ended:?}")
        };
        let Some(index) = self.running.iter().position(|app| app.pid == pid) else {
            bail!("a service was killed: {ended:?}")
        };
        let app = &self.running[index];
        let told_to = self.started[app.id as usize].hog.load(SeqCst);
        anyhow::ensure!(told_to && app.group.was_killed_for_memory(), "an application was killed: {ended:?}");
        self.deeds.killed_for_memory += 1;
        self.replace(index)
    }

    /// Has all of them run, and none use too much memory.
    pub fn calm_down(&mut self) -> anyhow::Result<()> {
        self.reap()?;
        let uses_much = |app: &Running| self.started[app.id as usize].hog.load(SeqCst);
        while let Some(index) = self.running.iter().position(uses_much) {
            self.deeds.killed_cached += 1;
            self.kill(index)?;
        }
        while let Some(index) = self.running.iter().position(|app| matches!(app.state, State::Frozen(_))) {
            self.thaw(index)?;
        }
        Ok(())
    }

    /// Ends all of them.
    pub fn end(&mut self) -> anyhow::Result<()> {
        for app in std::mem::take(&mut self.running) {
            identity::end(app.pid);
            app.group.remove()?;
            self.ended.push(app.id);
        }
        Ok(())
    }
}
