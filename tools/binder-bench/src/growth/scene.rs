// SPDX-License-Identifier: GPL-2.0
//! The processes of one measurement, who do what they do in turns, and the phases that are counted.
//!
//! An actor is a process with a script of its own. Its script pauses where a phase ends: the coordinator resumes it
//! when the next one starts, and waits until it has paused again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use binder_sys::fs::mount_at;
use nix::mount::umount;
use nix::unistd::Pid;

use super::meter::Meter;
use crate::error::{Context, Result};
use crate::marks::{self, mark};
use crate::workers::{Control, Order, Worker, Workers};

/// An actor that has not answered for this long, by the guest's clock, is hung.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Phase {
    pub name: &'static str,
    /// The number of operations, if it is not the number of units.
    pub operations: Option<u64>,
    pub instructions: u64,
}

/// The processes of one measurement. Dropping it ends them.
pub struct Scene<'a> {
    pub device: PathBuf,
    meter: &'a Meter,
    workers: Workers,
    phases: Vec<Phase>,
    /// Nothing has happened since the last phase.
    settled: bool,
}

impl<'a> Scene<'a> {
    pub fn new(meter: &'a Meter, device: &Path) -> Result<Scene<'a>> {
        let (device, workers) = (device.to_owned(), Workers::new()?);
        Ok(Scene { device, meter, workers, phases: Vec::new(), settled: false })
    }

    /// Starts an actor, and waits until it pauses for the first time. It keeps what its script returns until it is killed.
    pub fn actor<T>(
        &mut self,
        name: &str,
        script: impl FnOnce(&mut Control, &Path) -> Result<T>,
    ) -> Result<Worker> {
        self.settled = false;
        let actor = self.workers.start(name, None, |control| {
            let _kept = script(control, &self.device)?;
            control.stop()
        })?;
        self.await_pause(actor)?;
        Ok(actor)
    }

    /// Counts what happens until `act` has returned and nothing is left to do.
    pub fn phase(&mut self, name: &'static str, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.phase_of(name, None, act)
    }

    /// The same for a phase of so many operations, however many units there are.
    pub fn phase_of(
        &mut self,
        name: &'static str,
        operations: impl Into<Option<u64>>,
        act: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if !self.settled {
            self.meter.settle();
        }
        let start = self.meter.now();
        mark::<{ marks::START }>();
        act(self)?;
        self.meter.settle();
        mark::<{ marks::END }>();
        let instructions = self.meter.now() - start;
        self.settled = true;
        self.phases.push(Phase { name, operations: operations.into(), instructions });
        Ok(())
    }

    pub fn turn(&mut self, name: &'static str, actor: Worker) -> Result<()> {
        self.phase(name, |scene| scene.run(actor))
    }

    /// The same of turns of one actor in a row.
    pub fn turns(&mut self, actor: Worker, names: &[&'static str]) -> Result<()> {
        names.iter().try_for_each(|name| self.turn(name, actor))
    }

    pub fn turn_of(&mut self, name: &'static str, operations: u64, actor: Worker) -> Result<()> {
        self.phase_of(name, operations, |scene| scene.run(actor))
    }

    pub fn kill(&mut self, name: &'static str, actor: Worker) -> Result<()> {
        self.phase(name, |scene| scene.end(actor))
    }

    /// Counts what reading the logs takes that have all that there is now.
    pub fn read_logs(&mut self) -> Result<()> {
        let mount = Path::new("/tmp/growing-logs");
        std::fs::create_dir_all(mount).context("a directory")?;
        mount_at(mount, Some("stats=global")).context("mounting binderfs")?;
        for (phase, log) in [("read state", "state"), ("read transactions", "transactions")] {
            let log = mount.join("binder_logs").join(log);
            self.phase(phase, |_| std::fs::read(log).map(drop).context("reading a log"))?;
        }
        umount(mount).context("umount")
    }

    pub fn run(&mut self, actor: Worker) -> Result<()> {
        self.go(actor)?;
        self.await_pause(actor)
    }

    pub fn go(&mut self, actor: Worker) -> Result<()> {
        self.settled = false;
        self.workers.order(actor, &Order::Go(1))
    }

    pub fn pid(&self, actor: Worker) -> Pid {
        self.workers.pid(actor)
    }

    pub fn end(&mut self, actor: Worker) -> Result<()> {
        self.settled = false;
        self.workers.end(actor)
    }

    /// Waits until an actor pauses; fails as soon as any is in trouble.
    pub fn await_pause(&mut self, actor: Worker) -> Result<()> {
        self.workers.collect(&[actor], PATIENCE).map(drop)
    }

    /// Ends all actors, and returns the counted phases, also after a failure.
    pub fn finish(mut self) -> Vec<Phase> {
        let phases = std::mem::take(&mut self.phases);
        let meter = self.meter;
        drop(self);
        meter.settle();
        phases
    }
}
