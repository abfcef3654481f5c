// SPDX-License-Identifier: GPL-2.0
//! What the kernel keeps of what has ended, while others hold what they may hold.
//!
//! A process makes objects and ends them, so many at a time, in each of the ways in which they can end. Whoever else is concerned
//! stays: a manager holds a node of each process, a caller its own thread. What the kernel's memory grows by is what is kept.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use binder_sys::BinderFdObject;
use binder_sys::Device;
use binder_sys::ObjectType;
use binder_sys::Parcel;
use binder_sys::Return;
use binder_sys::TransactionFlags;
use clap::ValueEnum;
use nix::kmod::delete_module;
use nix::kmod::finit_module;
use nix::kmod::DeleteModuleFlags;
use nix::kmod::ModuleInitFlags;
use nix::mount::mount;
use nix::mount::umount2;
use nix::mount::MntFlags;
use nix::mount::MsFlags;
use nix::sys::epoll::Epoll;
use nix::sys::epoll::EpollCreateFlags;
use nix::sys::epoll::EpollEvent;
use nix::sys::epoll::EpollFlags;
use nix::sys::epoll::EpollTimeout;
use nix::sys::signal::kill;
use nix::sys::signal::Signal;
use nix::sys::wait::waitpid;
use nix::unistd::fork;
use nix::unistd::pipe;
use nix::unistd::read;
use nix::unistd::write;
use nix::unistd::ForkResult;

use super::makers;
use crate::device::USUAL_MOUNT;
use crate::error::Context;
use crate::error::Error;
use crate::error::Result;
use crate::registry;
use crate::stage::Stage;
use crate::talk::unexpected;
use crate::talk::Port;
use crate::talk::Talker;
use crate::workers::Worker;

/// What a process maps.
const SPACE: usize = 1 << 20;

/// What one received and did not free.
const RECEIVED: usize = 256 << 10;

/// How often the driver is loaded and unloaded before what stays is weighed. The kernel's own slabs grow with the first few hundred
/// times, and then no more: docs/memory.md.
const LOADS_AHEAD: u64 = 600;

/// The same of processes of which nobody holds anything in the end.
const PROCESSES_AHEAD: u64 = 1000;

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
    /// The same with three oneway calls to it that it has not read.
    OnewayUnread,
    /// The same with a file sent to it that it has not read.
    FileUnread,
    /// The same with a call to it that it has not read.
    CalleeKilled,
    /// A process is killed that wanted to hear of the death and of the freezing of a node of someone who lives.
    WatcherKilled,
    /// The last handle on a node of a process is released after its death.
    DeadReleased,
    /// The same by someone who was told of the death.
    DeathTold,
    /// A device of which somebody holds a node is closed by a process that goes on.
    DeviceClosed,
    /// A thread of the pool exits without a word.
    ThreadExits,
    /// A thread that has made a call does.
    CallerExits,
    /// A thread says that it leaves.
    ThreadLeaves,
    /// A thread that has watched the device with a set of epoll exits without a word, and the set is closed.
    PollerExits,
    /// A process holds and lets go of a hundred nodes.
    HandleReleased,
    /// A synchronous call is answered.
    CallAnswered,
    /// A oneway call is served.
    OnewayServed,
    /// Somebody asks to be told of a death, and no more.
    DeathWithdrawn,
    /// Somebody asks to be told of freezing, hears how it is now, and asks no more.
    FreezeWithdrawn,
    /// A binderfs is unmounted.
    Unmounted,
    /// The driver is unloaded, after it was loaded and used. Comes last: there is no driver then.
    Unloaded,
}

impl Ending {
    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Ending::ProcessExits => "process exits, node held",
            Ending::ProcessKilled => "process killed, node held",
            Ending::ReceiverKilled => "process killed, node held, 256 KiB received",
            Ending::CallerKilled => "process killed, call of it being served",
            Ending::OnewayUnread => "process killed, node held, oneway calls unread",
            Ending::FileUnread => "process killed, node held, file unread",
            Ending::CalleeKilled => "process killed, node held, call unread",
            Ending::WatcherKilled => "process killed, watching a living node",
            Ending::DeadReleased => "handle of a dead node released",
            Ending::DeathTold => "handle of a dead node released, death told",
            Ending::DeviceClosed => "device closed, node held",
            Ending::ThreadExits => "thread exits without a word",
            Ending::CallerExits => "thread exits after a call",
            Ending::ThreadLeaves => "BINDER_THREAD_EXIT",
            Ending::PollerExits => "thread exits, its epoll set closed",
            Ending::HandleReleased => "handle released",
            Ending::CallAnswered => "call answered",
            Ending::OnewayServed => "oneway call served",
            Ending::DeathWithdrawn => "death link withdrawn",
            Ending::FreezeWithdrawn => "freeze link withdrawn",
            Ending::Unmounted => "binderfs unmounted",
            Ending::Unloaded => "driver unloaded",
        }
    }

    /// How many end at a time.
    pub fn portion(self) -> u64 {
        match self {
            Ending::Unmounted | Ending::Unloaded => 10,
            Ending::DeadReleased
            | Ending::DeathTold
            | Ending::ThreadExits
            | Ending::CallerExits
            | Ending::ThreadLeaves
            | Ending::PollerExits => 100,
            Ending::HandleReleased => 5 * makers::NODES,
            Ending::CallAnswered
            | Ending::OnewayServed
            | Ending::DeathWithdrawn
            | Ending::FreezeWithdrawn => 500,
            _ => 25,
        }
    }

    /// How many end before the first is weighed.
    pub fn ahead(self) -> u64 {
        match self {
            Ending::Unloaded => LOADS_AHEAD,
            Ending::DeadReleased | Ending::DeathTold => PROCESSES_AHEAD,
            // They fill up slabs that others have begun, and tables that have room.
            _ => self.portion(),
        }
    }

    /// Whether who ends things has to have a handle on a node of what ends.
    fn needs_handle(self) -> bool {
        matches!(
            self,
            Ending::ReceiverKilled
                | Ending::OnewayUnread
                | Ending::FileUnread
                | Ending::CalleeKilled
                | Ending::DeadReleased
                | Ending::DeathTold
        )
    }

    /// The process that makes and ends them.
    pub fn maker(self, stage: &mut Stage) -> Result<Worker> {
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
fn echo(stage: &mut Stage) -> Result<Worker> {
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
        // Upstream's driver tells nobody else of deaths and of freezing.
        talker.out.enter_looper();
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
                Ending::DeviceClosed => drop(offer(&self.device, &self.name(ending))?),
                Ending::ThreadExits | Ending::CallerExits | Ending::ThreadLeaves | Ending::PollerExits => {
                    self.thread(ending)?
                }
                Ending::CallAnswered => self.call()?,
                Ending::OnewayServed => {
                    self.talker.send(&small().to_handle(self.service, 1, TransactionFlags::ONE_WAY))?;
                    // Answered behind it.
                    self.call()?;
                }
                Ending::DeathWithdrawn | Ending::FreezeWithdrawn => self.withdraw(ending)?,
                Ending::Unmounted => unmounted()?,
                Ending::HandleReleased | Ending::Unloaded => {}
                _ => self.process(ending)?,
            }
        }
        Ok(())
    }

    /// Of the node that is offered. The manager holds the last one of each name.
    fn name(&self, ending: Ending) -> String {
        match ending {
            Ending::DeadReleased | Ending::DeathTold => "ends and is released".into(),
            _ => format!("ends {}", self.made),
        }
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
                let end = live(&self.device, &self.name(ending), ending, &|| {
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
        let handle = self.before(ending)?;
        if ending != Ending::ProcessExits {
            kill(child, Signal::SIGKILL).context("kill")?;
        }
        waitpid(child, None).context("waiting for a process's end")?;
        handle.map_or(Ok(()), |handle| self.after(ending, handle))
    }

    /// What is done to a process before it ends; a handle on its node, if that took one.
    fn before(&mut self, ending: Ending) -> Result<Option<u32>> {
        if !ending.needs_handle() {
            return Ok(None);
        }
        let name = self.name(ending);
        let handle = registry::look_up(&mut self.talker, &name)?;
        let file = File::open("/proc/self/exe").context("a file")?;
        let fd = file.as_raw_fd() as u64;
        let (mut parcel, mut times) = (small(), 1);
        match ending {
            Ending::ReceiverKilled => {
                parcel.bytes(&vec![0; RECEIVED]);
            }
            Ending::FileUnread => {
                parcel.object(&BinderFdObject { kind: ObjectType::FD, fd, ..Default::default() });
            }
            Ending::OnewayUnread => times = 3,
            Ending::CalleeKilled => {
                self.talker.out.transaction(&parcel.to_handle(handle, 1, TransactionFlags::empty()));
                times = 0;
            }
            Ending::DeathTold => {
                self.talker.out.request_death(handle, 1);
                times = 0;
            }
            _ => times = 0,
        }
        for _ in 0..times {
            self.talker.send(&parcel.to_handle(handle, 1, TransactionFlags::ONE_WAY))?;
        }
        self.talker.flush()?;
        Ok(Some(handle))
    }

    /// What is done after its end.
    fn after(&mut self, ending: Ending, handle: u32) -> Result<()> {
        match ending {
            Ending::CalleeKilled => match self.talker.next() {
                Err(Error::PeerDied(_)) => {}
                other => return Err(unexpected(&other?)),
            },
            Ending::DeathTold => match self.talker.next()? {
                Return::DeadBinder(cookie) => {
                    self.talker.out.dead_binder_done(cookie).release(handle);
                }
                other => return Err(unexpected(&other)),
            },
            Ending::DeadReleased => {
                self.talker.out.release(handle);
            }
            _ => {}
        }
        self.talker.flush()
    }

    /// A link to the node of the server that answers comes and goes.
    fn withdraw(&mut self, ending: Ending) -> Result<()> {
        let (talker, handle) = (&mut self.talker, self.service);
        if ending == Ending::DeathWithdrawn {
            talker.out.request_death(handle, 1).clear_death(handle, 1);
        } else {
            talker.out.request_freeze(handle, 1);
            match talker.next()? {
                Return::FrozenBinder(state) => {
                    talker.out.freeze_done(state.cookie).clear_freeze(handle, 1);
                }
                other => return Err(unexpected(&other)),
            }
        }
        match talker.next()? {
            Return::ClearDeathNotificationDone(_) | Return::ClearFreezeNotificationDone(_) => talker.flush(),
            other => Err(unexpected(&other)),
        }
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
    if ending == Ending::PollerExits {
        let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll_create")?;
        set.add(talker.port().device(), EpollEvent::new(EpollFlags::EPOLLIN, 0)).context("epoll_ctl")?;
        set.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO).context("epoll_wait")?;
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
    if ending == Ending::WatcherKilled {
        let service = registry::look_up(&mut talker, makers::SERVICE)?;
        talker.out.request_death(service, 1).request_freeze(service, 1);
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

/// Loads, uses and unloads the driver, of which this is the module's file and its name.
pub struct Loader {
    path: PathBuf,
    name: CString,
}

impl Loader {
    /// Unmounts binderfs where it usually is, and unloads the driver for the first time.
    pub fn new(path: &Path) -> Result<Loader> {
        let name = path.file_stem().unwrap_or_default().as_encoded_bytes();
        let name = CString::new(name).map_err(|_| Error::Protocol("no name of a module".into()))?;
        let loader = Loader { path: path.to_owned(), name };
        umount2(Path::new(USUAL_MOUNT), MntFlags::empty()).context("unmounting binderfs")?;
        loader.unload()?;
        Ok(loader)
    }

    /// Loads and unloads it so many times; in between a binderfs is mounted, and its device opened.
    pub fn cycle(&self, count: u64) -> Result<()> {
        (0..count).try_for_each(|_| {
            self.load()?;
            unmounted()?;
            self.unload()
        })
    }

    /// Leaves everything as it was found.
    pub fn restore(&self) -> Result<()> {
        self.load()?;
        binder_sys::fs::mount_at(Path::new(USUAL_MOUNT), None).context("mounting binderfs again")
    }

    fn load(&self) -> Result<()> {
        let file = File::open(&self.path).context("the driver's module")?;
        finit_module(&file, c"", ModuleInitFlags::empty()).context("loading the driver")
    }

    fn unload(&self) -> Result<()> {
        delete_module(&self.name, DeleteModuleFlags::O_NONBLOCK).context("unloading the driver")
    }
}
