// SPDX-License-Identifier: GPL-2.0
//! The processes of a run: started, given orders, watched, and ended together.
//!
//! Each process has a socket to the coordinator. The coordinator waits for all of them at once, so a killed server ends
//! the run with its name and not with a hang.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sched::{sched_setaffinity, CpuSet};
use nix::sys::prctl;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::{fork, pipe, read, write, ForkResult, Pid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Kind, Result};
use crate::shared::Memory;

/// The parameters of a client's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    pub size: u32,
    /// Another parameter, with a meaning in each workload.
    pub variant: u32,
}

/// The samples of a client in one block.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Samples {
    /// Clock at the first start.
    pub start: u64,
    /// Clock at the last end, without the unmeasured time between calls.
    pub end: u64,
    pub ticks: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Time single calls for so many ticks, after some that only warm caches.
    Block { setting: Setting, warmup: u64, ticks: u64 },
    /// Count calls as a whole. `gathered`: how many clients have come together since the run began when all that start together are
    /// there; 0 for one that starts alone.
    Window { setting: Setting, calls: u64, gathered: u64 },
    /// Do the process's work this many times.
    Go(u64),
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Set up, or done.
    Ready,
    /// A block is done.
    Samples(Samples),
    /// A window took so many ticks.
    Ticks(u64),
    /// The process has failed.
    Failed(Error),
}

/// A process's end of its socket to the coordinator, and where it waits for other processes.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
    gathering: Arc<Memory>,
}

impl Control {
    pub fn order(&mut self) -> Result<Order> {
        receive(&mut self.socket).context("orders of the coordinator")
    }

    pub fn answer(&mut self, answer: &Answer) -> Result<()> {
        send(&mut self.socket, answer).context("answer to the coordinator")
    }

    /// Answers that all is done up to here, without waiting for an order.
    pub fn ready(&mut self) -> Result<()> {
        self.answer(&Answer::Ready)
    }

    /// Answers that all is done up to here, and waits for the order to do so much more.
    pub fn pause(&mut self) -> Result<u64> {
        self.ready()?;
        match self.order()? {
            Order::Go(count) => Ok(count),
            order => Err(Error::failed(format!("a process that measures nothing got the order {order:?}"))),
        }
    }

    pub fn stop(&mut self) -> Result<()> {
        loop {
            self.pause()?;
        }
    }

    /// Calls `act` with each number that the coordinator orders, in a loop.
    pub fn obey(&mut self, mut act: impl FnMut(u64) -> Result<()>) -> Result<()> {
        loop {
            let count = self.pause()?;
            act(count)?;
        }
    }

    /// Waits until so many have come here since the run began; 0 is not waited for.
    pub fn gather(&self, gathered: u64) {
        if gathered == 0 {
            return;
        }
        let here = self.gathering.word(0, 0);
        here.fetch_add(1, Ordering::AcqRel);
        while here.load(Ordering::Acquire) < gathered {
            std::thread::yield_now();
        }
    }
}

fn send<T: Serialize>(stream: &mut UnixStream, message: &T) -> std::io::Result<()> {
    let text = serde_json::to_vec(message)?;
    stream.write_all(&(text.len() as u32).to_ne_bytes())?;
    stream.write_all(&text)
}

fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> std::io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut text = vec![0; u32::from_ne_bytes(length) as usize];
    stream.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

#[derive(Debug)]
struct Process {
    name: String,
    pid: Pid,
    control: UnixStream,
    alive: bool,
    /// Its answer, until it is collected.
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker(usize);

/// All processes of a run. Dropping the workers ends them.
#[derive(Debug)]
pub struct Workers {
    coordinator: Pid,
    processes: Vec<Process>,
    /// Its first word counts the processes that have come together.
    gathering: Arc<Memory>,
}

impl Workers {
    pub fn new() -> Result<Workers> {
        Ok(Workers {
            coordinator: Pid::this(),
            processes: Vec::new(),
            gathering: Arc::new(Memory::new(4096)?),
        })
    }

    /// Starts a process. `body` runs in it and should only return when something has gone wrong.
    pub fn start(
        &mut self,
        name: impl Into<String>,
        cpu: Option<usize>,
        body: impl FnOnce(&mut Control) -> Result<()>,
    ) -> Result<Worker> {
        let (ours, theirs) = UnixStream::pair().context("control socket")?;
        // SAFETY: the coordinator has a single thread, so the child may do whatever its parent could.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Child => {
                drop(ours);
                let mut control = Control { socket: theirs, gathering: Arc::clone(&self.gathering) };
                // Die with the coordinator, stay on the CPU.
                let ready = prctl::set_pdeathsig(Signal::SIGKILL).context("PR_SET_PDEATHSIG");
                if let Err(error) = ready.and_then(|()| sit(cpu)).and_then(|()| body(&mut control)) {
                    let _ = control.answer(&Answer::Failed(error));
                }
                std::process::exit(0);
            }
            ForkResult::Parent { child: pid } => {
                let name = name.into();
                self.processes.push(Process { name, pid, control: ours, alive: true, answer: None });
                Ok(Worker(self.processes.len() - 1))
            }
        }
    }

    pub fn pid(&self, worker: Worker) -> Pid {
        self.processes[worker.0].pid
    }

    pub fn order(&mut self, worker: Worker, order: &Order) -> Result<()> {
        send(&mut self.processes[worker.0].control, order).map_err(|_| self.failure(worker.0, None))
    }

    /// Waits until each of `wanted` has answered once; fails as soon as any process has failed.
    pub fn collect(&mut self, wanted: &[Worker], timeout: Duration) -> Result<Vec<Answer>> {
        let deadline = Instant::now() + timeout;
        while let Some(missing) = wanted.iter().find(|one| self.processes[one.0].answer.is_none()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let readable = self.readable(left)?;
            if readable.is_empty() && left.is_zero() {
                let (name, seconds) = (&self.processes[missing.0].name, timeout.as_secs());
                return Err(Kind::PeerDied.error(format!("no answer from the {name} for {seconds} s")));
            }
            for index in readable {
                let answer = self.receive(index)?;
                if self.processes[index].answer.replace(answer).is_some() {
                    return Err(Error::failed(format!("the {} spoke unasked", self.processes[index].name)));
                }
            }
        }
        Ok(wanted.iter().filter_map(|one| self.processes[one.0].answer.take()).collect())
    }

    /// Kills a worker and waits until it is gone.
    pub fn end(&mut self, worker: Worker) -> Result<()> {
        let process = &mut self.processes[worker.0];
        process.alive = false;
        kill(process.pid, Signal::SIGKILL).context("kill")?;
        waitpid(process.pid, None).context("waitpid").map(drop)
    }

    /// Indices of processes that have answered or have ended.
    fn readable(&self, timeout: Duration) -> Result<Vec<usize>> {
        // The socket of an ended process has hung up, so poll would report it each time.
        let alive: Vec<usize> = (0..self.processes.len()).filter(|&at| self.processes[at].alive).collect();
        let socket = |&at: &usize| PollFd::new(self.processes[at].control.as_fd(), PollFlags::POLLIN);
        let mut fds: Vec<PollFd> = alive.iter().map(socket).collect();
        let milliseconds = timeout.as_millis().min(1000) as u16;
        poll(&mut fds, PollTimeout::from(milliseconds)).context("poll")?;
        Ok(alive.into_iter().zip(&fds).filter(|(_, fd)| fd.any() == Some(true)).map(|(at, _)| at).collect())
    }

    fn receive(&mut self, index: usize) -> Result<Answer> {
        match receive(&mut self.processes[index].control) {
            Ok(Answer::Failed(error)) => Err(self.failure(index, Some(error))),
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.failure(index, None)),
        }
    }

    /// The error to report when a process has failed: a killed server is named before the client that saw its death.
    fn failure(&mut self, index: usize, said: Option<Error>) -> Error {
        std::thread::sleep(Duration::from_millis(100));
        for process in self.processes.iter_mut().filter(|process| process.alive) {
            if let Ok(WaitStatus::Signaled(_, signal, _)) = waitpid(process.pid, Some(WaitPidFlag::WNOHANG)) {
                process.alive = false;
                return Kind::PeerDied.error(format!("the {} was killed by {signal}", process.name));
            }
        }
        let name = &self.processes[index].name;
        match said {
            Some(Error { kind, text }) => kind.error(format!("{name}: {text}")),
            None => Kind::PeerDied.error(format!("the {name} ended without a word")),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // A child that unwinds has a copy of this and must not end the others.
        if Pid::this() != self.coordinator {
            return;
        }
        let alive = || self.processes.iter().filter(|process| process.alive);
        for process in alive() {
            let _ = kill(process.pid, Signal::SIGKILL);
        }
        for process in alive() {
            let _ = waitpid(process.pid, None);
        }
    }
}

/// Starts a process of a worker's or the coordinator's, which ends with `life`, and waits until `life` has called what it is given.
pub fn child(life: impl FnOnce(&dyn Fn() -> Result<()>) -> Result<()>) -> Result<Pid> {
    let (wait, ready) = pipe().context("pipe")?;
    // SAFETY: the caller, a worker or the coordinator, has one thread, so no lock is left held in the child.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Child => {
            let lived = life(&|| write(&ready, b"r").context("telling the parent").map(drop));
            if let Err(error) = &lived {
                eprintln!("binder-bench: a process that was to end: {error}");
            }
            std::process::exit(i32::from(lived.is_err()))
        }
        ForkResult::Parent { child } => {
            drop(ready);
            match read(&wait, &mut [0]).context("waiting for a process")? {
                0 => Err(Error::failed("a process ended too early")),
                _ => Ok(child),
            }
        }
    }
}

/// Has this thread stay on a CPU, if one is named.
pub fn sit(cpu: Option<usize>) -> Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpu).context(format!("CPU {cpu}"))?;
    sched_setaffinity(Pid::from_raw(0), &set).context(format!("cannot run on CPU {cpu}"))
}
