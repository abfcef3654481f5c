// SPDX-License-Identifier: GPL-2.0
//! What the kernel keeps of what has ended, while others hold what they may hold.
//!
//! A process makes objects and ends them, so many at a time, in each of the ways in which they can end. Whoever else is concerned
//! stays: a manager holds a node of each process, a caller its own thread. What the kernel's memory grows by is what is kept.

use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use binder_sys::Device;
use binder_sys::Parcel;
use binder_sys::TransactionFlags;
use clap::ValueEnum;
use nix::mount::mount;
use nix::mount::umount2;
use nix::mount::MntFlags;
use nix::mount::MsFlags;
use nix::sys::signal::kill;
use nix::sys::signal::Signal;
use nix::sys::wait::waitpid;
use nix::unistd::fork;
use nix::unistd::pipe;
use nix::unistd::read;
use nix::unistd::write;
use nix::unistd::ForkResult;

use super::makers;
use crate::crew::Member;
use crate::error::Context;
use crate::error::Error;
use crate::error::Result;
use crate::registry;
use crate::stage::Stage;
use crate::talk::Port;
use crate::talk::Talker;

/// What a process maps.
const SPACE: usize = 1 << 20;

/// What one received and did not free.
const RECEIVED: usize = 256 << 10;

/// Something, and how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Ending {
    /// A process of which somebody holds a node returns from its main function.
    ProcessExits,
    /// The same is killed.
    ProcessKilled,
    /// The same, with 256 KiB received.
    ReceiverKilled,
    /// The same while a call of its own is being served.
    CallerKilled,
    /// A device of which somebody holds a node is closed by a process that goes on.
    DeviceClosed,
    /// A thread of the pool exits without a word.
    ThreadExits,
    /// A thread that has made a call does.
    CallerExits,
    /// A thread says that it leaves.
    ThreadLeaves,
    /// A process holds and lets go of a hundred nodes.
    HandleReleased,
    /// A synchronous call is answered.
    CallAnswered,
    /// A oneway call is served.
    OnewayServed,
    /// A binderfs is unmounted.
    Unmounted,
}

impl Ending {
    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Ending::ProcessExits => "process exits, node held",
            Ending::ProcessKilled => "process killed, node held",
            Ending::ReceiverKilled => "process killed, node held, 256 KiB received",
            Ending::CallerKilled => "process killed, call of it being served",
            Ending::DeviceClosed => "device closed, node held",
            Ending::ThreadExits => "thread exits without a word",
            Ending::CallerExits => "thread exits after a call",
            Ending::ThreadLeaves => "BINDER_THREAD_EXIT",
            Ending::HandleReleased => "handle released",
            Ending::CallAnswered => "call answered",
            Ending::OnewayServed => "oneway call served",
            Ending::Unmounted => "binderfs unmounted",
        }
    }

    /// How many end at a time.
    pub fn portion(self) -> u64 {
        match self {
            Ending::Unmounted => 10,
            Ending::ProcessExits
            | Ending::ProcessKilled
            | Ending::ReceiverKilled
            | Ending::CallerKilled
            | Ending::DeviceClosed => 25,
            Ending::ThreadExits | Ending::CallerExits | Ending::ThreadLeaves => 100,
            Ending::HandleReleased => 5 * makers::NODES,
            Ending::CallAnswered | Ending::OnewayServed => 500,
        }
    }

    /// The process that makes and ends them.
    pub fn maker(self, stage: &mut Stage) -> Result<Member> {
        match self {
            Ending::HandleReleased => makers::nodes(stage)?,
            _ => echo(stage)?,
        };
        makers::start(stage, "process that ends things", move |control, device| {
            let mut ends = Ends::new(device)?;
            makers::obey(control, |count| ends.end(self, count))
        })
    }
}

/// A server that answers everything, and one that answers nothing.
fn echo(stage: &mut Stage) -> Result<Member> {
    let cpu = stage.seat(0).server;
    stage.server("server that does not answer".into(), cpu, "deaf".into(), |mut talker| {
        // What it has taken it serves for ever.
        talker.next_call()?;
        loop {
            std::thread::park();
        }
    })?;
    stage.server("server that answers".into(), cpu, makers::SERVICE.into(), |mut talker| loop {
        let call = talker.next_call()?;
        talker.out.free_buffer(call.buffer);
        if call.flags & TransactionFlags::ONE_WAY.bits() == 0 {
            talker.out.reply(&Parcel::new().to_caller(TransactionFlags::empty()));
        }
        talker.flush()?;
    })
}

/// Whoever makes and ends.
struct Ends {
    device: PathBuf,
    talker: Talker,
    service: u32,
    made: u64,
    holder: Option<makers::Holder>,
}

impl Ends {
    fn new(device: &Path) -> Result<Ends> {
        let mut talker = Talker::open(device)?;
        let service = registry::look_up(&mut talker, makers::SERVICE)?;
        Ok(Ends { device: device.to_owned(), talker, service, made: 0, holder: None })
    }

    fn end(&mut self, ending: Ending, count: u64) -> Result<()> {
        if ending == Ending::HandleReleased {
            return self.release(count);
        }
        for _ in 0..count {
            self.made += 1;
            match ending {
                Ending::ProcessExits
                | Ending::ProcessKilled
                | Ending::ReceiverKilled
                | Ending::CallerKilled => self.process(ending)?,
                Ending::DeviceClosed => drop(offer(&self.device, &self.name())?),
                Ending::ThreadExits | Ending::CallerExits | Ending::ThreadLeaves => self.thread(ending)?,
                Ending::CallAnswered => self.call()?,
                Ending::OnewayServed => {
                    self.talker.send(&small().to_handle(self.service, 1, TransactionFlags::ONE_WAY))?;
                    // Answered behind it.
                    self.call()?;
                }
                Ending::Unmounted => unmounted()?,
                Ending::HandleReleased => {}
            }
        }
        Ok(())
    }

    /// Of the node that is offered.
    fn name(&self) -> String {
        format!("ends {}", self.made)
    }

    fn call(&mut self) -> Result<()> {
        let reply = self.talker.call(&small().to_handle(self.service, 1, TransactionFlags::empty()))?;
        self.talker.out.free_buffer(reply.buffer);
        self.talker.flush()
    }

    /// A process lives and dies.
    fn process(&mut self, ending: Ending) -> Result<()> {
        let (wait, ready) = pipe().context("pipe")?;
        // SAFETY: this process has one thread, so no lock is left held in the child.
        let child = match unsafe { fork() }.context("fork")? {
            ForkResult::Child => {
                let end = live(&self.device, &self.name(), ending, &|| {
                    let _ = write(&ready, b"r");
                });
                if let Err(error) = end {
                    eprintln!("binder-bench: a process that was to end: {error}");
                    std::process::exit(1)
                }
                std::process::exit(0)
            }
            ForkResult::Parent { child } => child,
        };
        drop(ready);
        if read(wait.as_fd(), &mut [0]).context("waiting for a process")? == 0 {
            return Err(Error::Protocol("a process ended too early".into()));
        }
        if ending == Ending::ReceiverKilled {
            let name = self.name();
            let handle = registry::look_up(&mut self.talker, &name)?;
            let mut parcel = Parcel::new();
            parcel.bytes(&vec![0; RECEIVED]);
            self.talker.send(&parcel.to_handle(handle, 1, TransactionFlags::ONE_WAY))?;
        }
        if ending != Ending::ProcessExits {
            kill(child, Signal::SIGKILL).context("kill")?;
        }
        waitpid(child, None).context("waiting for a process's end").map(drop)
    }

    /// A thread comes and goes.
    fn thread(&mut self, ending: Ending) -> Result<()> {
        let (port, service) = (self.talker.port().clone(), self.service);
        let thread = std::thread::spawn(move || one_thread(port, service, ending));
        thread.join().map_err(|_| Error::Protocol("a thread panicked".into()))?
    }

    fn release(&mut self, count: u64) -> Result<()> {
        let holder = match &mut self.holder {
            Some(holder) => holder,
            none => none.insert(makers::Holder::new(&self.device)?),
        };
        (0..count / makers::NODES).try_for_each(|_| holder.take_and_release())
    }
}

fn one_thread(port: Arc<Port>, service: u32, ending: Ending) -> Result<()> {
    let mut talker = Talker::on(port);
    if ending == Ending::CallerExits {
        let reply = talker.call(&small().to_handle(service, 1, TransactionFlags::empty()))?;
        talker.out.free_buffer(reply.buffer);
    } else {
        talker.out.enter_looper();
    }
    talker.flush()?;
    if ending == Ending::ThreadLeaves {
        talker.port().device().thread_exit().context("BINDER_THREAD_EXIT")?;
    }
    Ok(())
}

fn small() -> Parcel {
    let mut parcel = Parcel::new();
    parcel.bytes(&[0; 64]);
    parcel
}

/// Opens the device, and gives the manager a node.
fn offer(device: &Path, name: &str) -> Result<Talker> {
    let mut talker = Talker::open_with(device, SPACE)?;
    registry::register(&mut talker, name, 1)?;
    Ok(talker)
}

fn live(device: &Path, name: &str, ending: Ending, ready: &dyn Fn()) -> Result<()> {
    let mut talker = offer(device, name)?;
    if ending == Ending::CallerKilled {
        let deaf = registry::look_up(&mut talker, "deaf")?;
        talker.out.transaction(&small().to_handle(deaf, 1, TransactionFlags::empty()));
        talker.flush()?;
    }
    ready();
    if ending != Ending::ProcessExits {
        loop {
            std::thread::park();
        }
    }
    Ok(())
}

/// A binderfs of its own, with a device that is open when it goes.
fn unmounted() -> Result<()> {
    let place = Path::new("/tmp/binder-bench-unmounted");
    std::fs::create_dir_all(place).context("making a directory")?;
    mount(Some("binder"), place, Some("binder"), MsFlags::empty(), None::<&str>)
        .context("mounting a binderfs")?;
    let device = Device::open(&place.join("binder")).context("opening its device")?;
    umount2(place, MntFlags::MNT_DETACH).context("unmounting it")?;
    drop(device);
    Ok(())
}
