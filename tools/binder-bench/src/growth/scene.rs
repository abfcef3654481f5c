// SPDX-License-Identifier: GPL-2.0
//! The processes of one measurement, who do what they do in turns, and the phases that are counted.
//!
//! An actor is a process with a script of its own. Its script pauses where a phase ends: the coordinator tells it to go on
//! when the next one starts, and hears when it has paused again.

use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;

use nix::poll::poll;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::sys::prctl;
use nix::sys::signal::kill;
use nix::sys::signal::Signal;
use nix::sys::wait::waitpid;
use nix::unistd::fork;
use nix::unistd::ForkResult;
use nix::unistd::Pid;

use super::meter::Meter;
use crate::error::Context;
use crate::error::Error;
use crate::error::Result;
use crate::marks;

/// An actor that has said nothing for so long, by the guest's clock, is hung.
const PATIENCE: u16 = 20_000;

/// What an actor says when it has paused; anything else is the first byte of a complaint.
const PAUSED: u8 = 0;

/// An actor's side of the turns.
pub struct Turns(UnixStream);

impl Turns {
    /// Says that everything up to here is done, and waits to be told to go on.
    pub fn pause(&mut self) -> Result<()> {
        self.0.write_all(&[PAUSED]).context("telling the coordinator")?;
        self.0.read_exact(&mut [0]).context("waiting for the coordinator")
    }

    /// Says the same, and goes on by itself.
    pub fn tell_pause(&mut self) -> Result<()> {
        self.0.write_all(&[PAUSED]).context("telling the coordinator")
    }

    /// Pauses and never goes on.
    pub fn stop(&mut self) -> Result<()> {
        loop {
            self.pause()?;
        }
    }
}

/// One of the actors of a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor(usize);

struct Process {
    name: &'static str,
    pid: Pid,
    turns: UnixStream,
    alive: bool,
    paused: bool,
}

/// Instructions of one phase.
pub struct Phase {
    /// What it is called.
    pub name: &'static str,
    /// How many operations it has, where they are not as many as there are units.
    pub operations: Option<u64>,
    /// Instructions of all of them.
    pub instructions: u64,
}

/// The processes of one measurement. Dropping it ends them.
pub struct Scene<'a> {
    /// The device that everyone opens.
    pub device: PathBuf,
    meter: &'a Meter,
    coordinator: Pid,
    processes: Vec<Process>,
    phases: Vec<Phase>,
    /// Nothing has happened since the last phase.
    settled: bool,
}

impl<'a> Scene<'a> {
    /// Nobody there yet.
    pub fn new(meter: &'a Meter, device: &Path) -> Scene<'a> {
        let device = device.to_owned();
        Scene {
            device,
            meter,
            coordinator: Pid::this(),
            processes: Vec::new(),
            phases: Vec::new(),
            settled: false,
        }
    }

    /// Starts an actor, and waits until it pauses for the first time.
    pub fn actor(
        &mut self,
        name: &'static str,
        script: impl FnOnce(&mut Turns, &Path) -> Result<()>,
    ) -> Result<Actor> {
        self.settled = false;
        let (ours, theirs) = UnixStream::pair().context("socket of an actor")?;
        // SAFETY: the coordinator has a single thread, so the child may do whatever its parent could.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Child => {
                drop(ours);
                let mut turns = Turns(theirs);
                let ready = prctl::set_pdeathsig(Signal::SIGKILL).context("PR_SET_PDEATHSIG");
                if let Err(error) = ready.and_then(|()| script(&mut turns, &self.device)) {
                    let _ = turns.0.write_all(error.to_string().as_bytes());
                }
                std::process::exit(0);
            }
            ForkResult::Parent { child } => {
                self.processes.push(Process { name, pid: child, turns: ours, alive: true, paused: false });
                let actor = Actor(self.processes.len() - 1);
                self.await_pause(actor)?;
                Ok(actor)
            }
        }
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
        marks::start();
        act(self)?;
        self.meter.settle();
        marks::end();
        let instructions = self.meter.now() - start;
        self.settled = true;
        self.phases.push(Phase { name, operations: operations.into(), instructions });
        Ok(())
    }

    /// A phase that is one turn of one actor.
    pub fn turn(&mut self, name: &'static str, actor: Actor) -> Result<()> {
        self.phase(name, |scene| scene.run(actor))
    }

    /// The same with so many operations.
    pub fn turn_of(&mut self, name: &'static str, operations: u64, actor: Actor) -> Result<()> {
        self.phase_of(name, operations, |scene| scene.run(actor))
    }

    /// A phase that is the sudden end of an actor.
    pub fn kill(&mut self, name: &'static str, actor: Actor) -> Result<()> {
        self.phase(name, |scene| scene.end(actor))
    }

    /// Lets an actor run until it pauses again.
    pub fn run(&mut self, actor: Actor) -> Result<()> {
        self.go(actor)?;
        self.await_pause(actor)
    }

    /// Tells an actor to go on.
    pub fn go(&mut self, actor: Actor) -> Result<()> {
        self.settled = false;
        let process = &mut self.processes[actor.0];
        process.paused = false;
        process.turns.write_all(&[0]).context(process.name)
    }

    /// The process of an actor.
    pub fn pid(&self, actor: Actor) -> Pid {
        self.processes[actor.0].pid
    }

    /// Kills an actor and waits until it is gone.
    pub fn end(&mut self, actor: Actor) -> Result<()> {
        self.settled = false;
        let process = &mut self.processes[actor.0];
        process.alive = false;
        kill(process.pid, Signal::SIGKILL).context("kill")?;
        waitpid(process.pid, None).context("waitpid").map(drop)
    }

    /// Waits until an actor pauses; fails as soon as any is in trouble.
    pub fn await_pause(&mut self, actor: Actor) -> Result<()> {
        while !self.processes[actor.0].paused {
            // The socket of a dead actor has hung up, of which poll would tell at once, again and again.
            let mut alive: Vec<&mut Process> = self.processes.iter_mut().filter(|p| p.alive).collect();
            let mut fds: Vec<PollFd> =
                alive.iter().map(|p| PollFd::new(p.turns.as_fd(), PollFlags::POLLIN)).collect();
            let heard = poll(&mut fds, PollTimeout::from(PATIENCE)).context("poll")?;
            let speaking: Vec<bool> = fds.iter().map(|fd| fd.any() == Some(true)).collect();
            for (process, _) in alive.iter_mut().zip(speaking).filter(|(_, said)| *said) {
                process.hear()?;
            }
            if heard == 0 {
                return Err(Error::PeerDied(format!("no word from the {}", self.processes[actor.0].name)));
            }
        }
        Ok(())
    }

    /// Waits until an actor pauses that has been going on by itself.
    pub fn expect_pause(&mut self, actor: Actor) -> Result<()> {
        self.processes[actor.0].paused = false;
        self.await_pause(actor)
    }

    /// What was counted, also when the rest has failed.
    pub fn take_phases(&mut self) -> Vec<Phase> {
        std::mem::take(&mut self.phases)
    }
}

impl Process {
    fn hear(&mut self) -> Result<()> {
        let mut byte = [0];
        let length = self.turns.read(&mut byte).context(self.name)?;
        if length == 1 && byte[0] == PAUSED {
            self.paused = true;
            return Ok(());
        }
        let mut text = String::from_utf8_lossy(&byte[..length]).into_owned();
        let _ = self.turns.read_to_string(&mut text);
        Err(Error::PeerDied(format!("{}: {text}", self.name)))
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        // A child that unwinds has a copy of the scene, but it is not its to end.
        if Pid::this() != self.coordinator {
            return;
        }
        for process in self.processes.iter().filter(|p| p.alive) {
            let _ = kill(process.pid, Signal::SIGKILL);
            let _ = waitpid(process.pid, None);
        }
        self.meter.settle();
    }
}
