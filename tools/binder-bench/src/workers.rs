// SPDX-License-Identifier: GPL-2.0
//! The processes of a run: started, given orders, watched, and ended together.
//!
//! Each process has a socket to the coordinator. While the coordinator waits for one of them it watches all of
//! them, so that a killed server ends the run with its name and not with a hang.

use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use nix::poll::poll;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::sched::sched_setaffinity;
use nix::sched::CpuSet;
use nix::sys::prctl;
use nix::sys::signal::kill;
use nix::sys::signal::Signal;
use nix::sys::wait::waitpid;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::WaitStatus;
use nix::unistd::fork;
use nix::unistd::ForkResult;
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::error::Context;
use crate::error::Error;
use crate::error::Result;
use crate::order::Answer;
use crate::order::Order;
use crate::order::Samples;
use crate::shared::Page;

/// A process's end of its socket to the coordinator, and where it waits for other processes.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
    gathering: Arc<Page>,
}

impl Control {
    /// Waits for an order.
    pub fn order(&mut self) -> Result<Order> {
        receive(&mut self.socket).context("orders of the coordinator")
    }

    /// Tells the coordinator something.
    pub fn answer(&mut self, answer: &Answer) -> Result<()> {
        send(&mut self.socket, answer).context("answer to the coordinator")
    }

    /// Tells the coordinator about a block, and keeps the memory of the samples for the next one.
    pub fn answer_samples(&mut self, samples: Samples) -> Result<Samples> {
        let answer = Answer::Samples(samples);
        self.answer(&answer)?;
        let Answer::Samples(samples) = answer else { unreachable!("it was made two lines above") };
        Ok(samples)
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
}

/// One of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker(usize);

/// All processes of a run. Dropping the workers ends them.
#[derive(Debug)]
pub struct Workers {
    coordinator: Pid,
    processes: Vec<Process>,
    /// Its first word counts the processes that have come together.
    gathering: Arc<Page>,
}

impl Workers {
    /// Nobody there yet.
    pub fn new() -> Result<Workers> {
        Ok(Workers { coordinator: Pid::this(), processes: Vec::new(), gathering: Arc::new(Page::new()?) })
    }

    /// Starts a process. `body` runs in it and should only return when something has gone wrong.
    pub fn start(
        &mut self,
        name: String,
        cpu: Option<usize>,
        body: impl FnOnce(&mut Control) -> Result<()>,
    ) -> Result<Worker> {
        let (ours, theirs) = UnixStream::pair().context("control socket")?;
        // SAFETY: the coordinator has a single thread, so the child may do whatever its parent could.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Child => {
                drop(ours);
                let mut control = Control { socket: theirs, gathering: Arc::clone(&self.gathering) };
                let result = set_up(cpu).and_then(|()| body(&mut control));
                if let Err(error) = result {
                    let _ = control.answer(&Answer::Failed { code: error.code(), text: error.to_string() });
                }
                std::process::exit(0);
            }
            ForkResult::Parent { child } => {
                self.processes.push(Process { name, pid: child, control: ours });
                Ok(Worker(self.processes.len() - 1))
            }
        }
    }

    /// The process id of a worker.
    pub fn pid(&self, worker: Worker) -> Pid {
        self.processes[worker.0].pid
    }

    /// Sends an order to a worker.
    pub fn order(&mut self, worker: Worker, order: &Order) -> Result<()> {
        match send(&mut self.processes[worker.0].control, order) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.failure(worker.0, None)),
        }
    }

    /// Waits until each of `wanted` has answered once; fails as soon as any process has failed.
    pub fn collect(&mut self, wanted: &[Worker], timeout: Duration) -> Result<Vec<Answer>> {
        let mut answers: Vec<Option<Answer>> = wanted.iter().map(|_| None).collect();
        let deadline = Instant::now() + timeout;
        while let Some(missing) = answers.iter().position(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            let readable = self.readable(left)?;
            if readable.is_empty() && left.is_zero() {
                let name = &self.processes[wanted[missing].0].name;
                return Err(Error::PeerDied(format!(
                    "no answer from the {name} for {} s",
                    timeout.as_secs()
                )));
            }
            for index in readable {
                let answer = self.receive(index)?;
                match wanted.iter().position(|m| m.0 == index) {
                    Some(place) if answers[place].is_none() => answers[place] = Some(answer),
                    _ => {
                        return Err(Error::Protocol(format!(
                            "the {} spoke unasked",
                            self.processes[index].name
                        )))
                    }
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Waits until workers are set up.
    pub fn await_ready(&mut self, workers: &[Worker], timeout: Duration) -> Result<()> {
        self.collect(workers, timeout).map(drop)
    }

    /// Indices of processes that have said something or are gone.
    fn readable(&self, timeout: Duration) -> Result<Vec<usize>> {
        let mut fds: Vec<PollFd> =
            self.processes.iter().map(|p| PollFd::new(p.control.as_fd(), PollFlags::POLLIN)).collect();
        let milliseconds = timeout.as_millis().min(1000) as u16;
        poll(&mut fds, PollTimeout::from(milliseconds)).context("poll")?;
        Ok(fds.iter().enumerate().filter(|(_, fd)| fd.any() == Some(true)).map(|(index, _)| index).collect())
    }

    fn receive(&mut self, index: usize) -> Result<Answer> {
        match receive(&mut self.processes[index].control) {
            Ok(Answer::Failed { code, text }) => Err(self.failure(index, Some((code, text)))),
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.failure(index, None)),
        }
    }

    /// The error to report when a process has failed: a killed server is named before the client that saw its death.
    fn failure(&mut self, index: usize, said: Option<(u8, String)>) -> Error {
        std::thread::sleep(Duration::from_millis(100));
        for process in &self.processes {
            if let Ok(WaitStatus::Signaled(_, signal, _)) = waitpid(process.pid, Some(WaitPidFlag::WNOHANG)) {
                return Error::PeerDied(format!("the {} was killed by {signal}", process.name));
            }
        }
        let name = &self.processes[index].name;
        match said {
            Some((code, text)) => Error::of_another(code, format!("{name}: {text}")),
            None => Error::PeerDied(format!("the {name} ended without a word")),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // A child that unwinds has a copy of this and must not end the others.
        if Pid::this() != self.coordinator {
            return;
        }
        for process in &self.processes {
            let _ = kill(process.pid, Signal::SIGKILL);
        }
        for process in &self.processes {
            let _ = waitpid(process.pid, None);
        }
    }
}

/// The first steps of a child: die with the coordinator, stay on its CPU.
fn set_up(cpu: Option<usize>) -> Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL).context("PR_SET_PDEATHSIG")?;
    sit(cpu)
}

/// Has this thread stay on a CPU, if one is named.
pub fn sit(cpu: Option<usize>) -> Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpu).context(format!("CPU {cpu}"))?;
    sched_setaffinity(Pid::from_raw(0), &set).context(format!("cannot run on CPU {cpu}"))
}
