// SPDX-License-Identifier: GPL-2.0
//! The processes around a test: the service manager, services, other clients.

use crate::workshop_aidl::IWorkshop::IWorkshop;
use anyhow::{anyhow, ensure, Context, Result};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use rsbinder::{hub, ProcessState, Strong};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The device that everybody uses, in the binderfs of the guest.
pub const DEVICE: &str = "binder";
/// For what must come true, but not at once.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Open the device for this process, with a pool of up to `threads` more threads than the first.
pub fn join_binder(threads: u32) -> Result<()> {
    let path = format!("{}/{DEVICE}", rsbinder::DEFAULT_BINDERFS_PATH);
    ProcessState::init(&path, threads).map_err(|error| anyhow!("opening {path}: {error}"))?;
    ProcessState::start_thread_pool();
    Ok(())
}

/// Polls until the check succeeds.
pub fn eventually(what: &str, mut check: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !check().with_context(|| what.to_owned())? {
        ensure!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// A process that ends with its owner.
pub struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    /// Start a program whose output is read line by line.
    pub fn start(program: &mut Command) -> Result<Self> {
        let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("a child without output")?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    /// Start this program in another role.
    pub fn play(arguments: &[&str]) -> Result<Self> {
        Self::start(Command::new(std::env::current_exe()?).args(arguments))
    }

    /// The next line that the process prints.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "a process ended instead of saying something");
        Ok(line.trim_end().to_owned())
    }

    /// Send a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.pid()), signal)?)
    }

    /// Stop the process with all its threads, and return when they have stopped: until then a thread
    /// of it may still take what comes.
    pub fn stop(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        let status = waitpid(Pid::from_raw(self.pid()), Some(WaitPidFlag::WUNTRACED))?;
        ensure!(matches!(status, WaitStatus::Stopped(..)), "not stopped but {status:?}");
        Ok(())
    }

    /// The process's id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Wait for the process to end by itself; whether it ended well.
    pub fn wait(&mut self) -> Result<bool> {
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running service manager.
pub struct Manager(Process);

impl Manager {
    /// Start rsbinder's service manager and wait until it answers.
    pub fn start(device: &str) -> Result<Self> {
        let mut program = Command::new("rsb_hub");
        program.args(["--insecure-allow-all", "--device", device]).stderr(Stdio::null());
        let mut manager = Self(Process::start(&mut program).context("starting rsb_hub")?);
        eventually("the service manager answers", || {
            ensure!(manager.0.child.try_wait()?.is_none(), "rsb_hub has ended");
            Ok(service_tool(&["--device", device, "check", "manager"])?.0)
        })?;
        Ok(manager)
    }
}

/// Runs rsbinder's `rsb_service`; returns whether it succeeded, and its output.
pub fn service_tool(arguments: &[&str]) -> Result<(bool, String)> {
    let ended = Command::new("rsb_service").args(arguments).output().context("starting rsb_service")?;
    Ok((ended.status.success(), String::from_utf8_lossy(&ended.stdout).trim().to_owned()))
}

/// A workshop in a process of its own.
pub struct Service {
    /// The process.
    pub process: Process,
    /// The service in it.
    pub workshop: Strong<dyn IWorkshop>,
}

impl Service {
    /// Start a workshop under `name`, whose pool grows by up to `threads` threads.
    pub fn start(name: &str, threads: u32) -> Result<Self> {
        let mut process = Process::play(&["serve", name, "--threads", &threads.to_string()])?;
        ensure!(process.line()? == "serving");
        let workshop = hub::check_interface(name).with_context(|| format!("looking {name} up"))?;
        Ok(Self { process, workshop })
    }
}
