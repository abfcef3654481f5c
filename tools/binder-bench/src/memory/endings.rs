// SPDX-License-Identifier: GPL-2.0
//! The kernel memory that stays after objects have ended, while other processes hold references to them.
//!
//! A process makes objects and ends them, so many at a time, in each way in which they can end. The other processes stay:
//! a manager holds a node of each process, a caller its own thread. The result is the growth of the kernel's memory.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use binder_sys::{BinderFdObject, ObjectType};
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{setns, unshare, CloneFlags};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::waitpid;

use super::makers::{self, small, Holder, MAPPED, NODES};
use crate::prelude::*;
use crate::registry;
use crate::workers::child;

/// Bytes that a process received and did not free.
const RECEIVED: usize = 256 << 10;

/// So many processes end before the first is weighed, and no process holds anything of them. The kernel's own slabs
/// grow with the first few hundred, and then no more.
const PROCESSES_AHEAD: u64 = 1000;

/// The server that answers, and the one that does not.
const ANSWERS: &str = "answers";
const DEAF: &str = "deaf";

/// The ending that a driver without binderfs lacks.
pub const UNMOUNTED: &str = "unmounted";

pub struct Ending {
    pub option: &'static str,
    pub name: &'static str,
    pub portion: u64,
    /// Objects that end before the first is weighed: they fill up slabs that others have begun, and tables that have
    /// room.
    pub ahead: u64,
    pub how: How,
}

#[derive(Clone, Copy)]
pub enum How {
    /// A process, of which the manager holds a node, comes and goes.
    Process(Life),
    /// A thread of the pool comes, does this with the server that answers, and exits.
    Thread(fn(&mut Talker, u32) -> Result<()>),
    /// The process that ends things does this; so many end of it.
    Done(u64, fn(&mut Ends) -> Result<()>),
}

/// The actions of a process, and of others on it.
#[derive(Clone, Copy)]
pub struct Life {
    live: fn(&mut Talker) -> Result<()>,
    /// The action on it before it ends, with a handle on its node.
    before: Option<fn(&mut Talker, u32) -> Result<()>>,
    /// The action on it after its end.
    after: fn(&mut Talker, u32) -> Result<()>,
    /// The manager holds the node of the last such process alone.
    released: bool,
    /// It lives in namespaces of users and of pids of its own.
    apart: bool,
}

/// A process that does nothing and is killed.
const KILLED: Life =
    Life { live: |_| Ok(()), before: None, after: |_, _| Ok(()), released: false, apart: false };

impl Life {
    const fn live(self, live: fn(&mut Talker) -> Result<()>) -> Life {
        Life { live, ..self }
    }

    const fn before(self, before: fn(&mut Talker, u32) -> Result<()>) -> Life {
        Life { before: Some(before), ..self }
    }

    const fn after(self, after: fn(&mut Talker, u32) -> Result<()>) -> Life {
        Life { after, ..self }
    }
}

const fn ending(option: &'static str, name: &'static str, portion: u64, how: How) -> Ending {
    Ending { option, name, portion, ahead: portion, how }
}

const fn process(option: &'static str, name: &'static str, life: Life) -> Ending {
    let (portion, ahead) = if life.released { (100, PROCESSES_AHEAD) } else { (25, 25) };
    Ending { option, name, portion, ahead, how: How::Process(life) }
}

pub const ENDINGS: &[Ending] = &[
    process("process-killed", "process killed, node held", KILLED),
    process(
        "container-killed",
        "process of own namespaces killed, node held",
        Life { apart: true, ..KILLED },
    ),
    process(
        "receiver-killed",
        "process killed, node held, 256 KiB received",
        KILLED.before(|talker, handle| oneway(talker, handle, small().bytes(&vec![0; RECEIVED]))),
    ),
    process(
        "caller-killed",
        "process killed, call of it being served",
        KILLED.live(|talker| {
            let deaf = registry::look_up(talker, DEAF)?;
            begin(talker, deaf)
        }),
    ),
    process(
        "oneway-unread",
        "process killed, node held, oneway calls unread",
        KILLED.before(|talker, handle| (0..3).try_for_each(|_| oneway(talker, handle, &small()))),
    ),
    process(
        "file-unread",
        "process killed, node held, file unread",
        KILLED.before(|talker, handle| {
            let file = File::open("/proc/self/exe").context("a file")?;
            let fd = file.as_raw_fd() as u64;
            let object = BinderFdObject { kind: ObjectType::FD, fd, ..Default::default() };
            oneway(talker, handle, small().object(&object))
        }),
    ),
    process(
        "device-unread",
        "process killed, node held, its device unread",
        KILLED.live(|talker| {
            let deaf = registry::look_up(talker, DEAF)?;
            let fd = talker.port().device().as_raw_fd() as u64;
            let object = BinderFdObject { kind: ObjectType::FD, fd, ..Default::default() };
            oneway(talker, deaf, small().object(&object))
        }),
    ),
    process(
        "callee-killed",
        "process killed, node held, call unread",
        KILLED.before(begin).after(|talker, _| match talker.next() {
            Err(Error { kind: Kind::PeerDied, .. }) => Ok(()),
            other => Err(unexpected(&other?)),
        }),
    ),
    process(
        "watcher-killed",
        "process killed, watching a living node",
        KILLED.live(|talker| {
            let service = registry::look_up(talker, ANSWERS)?;
            talker.write(|out| out.request_death(service, 1).request_freeze(service, 1))
        }),
    ),
    process(
        "dead-released",
        "handle of a dead node released",
        Life { released: true, ..KILLED }
            .before(|_, _| Ok(()))
            .after(|talker, handle| talker.write(|out| out.release(handle))),
    ),
    process(
        "death-told",
        "handle of a dead node released, death told",
        Life { released: true, ..KILLED }
            .before(|talker, handle| talker.write(|out| out.request_death(handle, 1)))
            .after(|talker, handle| {
                let cookie = awaited!(talker, Return::DeadBinder(cookie) => cookie);
                talker.write(|out| out.dead_binder_done(cookie).release(handle))
            }),
    ),
    process(
        "oneway-sent",
        "oneway call of a dead process, unread",
        Life { released: true, ..KILLED }.live(|talker| {
            let deaf = registry::look_up(talker, DEAF)?;
            oneway(talker, deaf, &small())
        }),
    ),
    ending(
        "device-closed",
        "device closed, node held",
        25,
        How::Done(1, |ends| offer(&ends.device, &format!("ends {}", ends.made)).map(drop)),
    ),
    ending(
        "thread-exits",
        "thread exits without a word",
        100,
        How::Thread(|talker, _| talker.enter_looper()),
    ),
    ending("caller-exits", "thread exits after a call", 100, How::Thread(call)),
    ending(
        "thread-leaves",
        "BINDER_THREAD_EXIT",
        100,
        How::Thread(|talker, _| {
            talker.enter_looper()?;
            talker.port().device().thread_exit().context("BINDER_THREAD_EXIT")
        }),
    ),
    ending(
        "calling-thread-leaves",
        "thread leaves, call of it unread",
        100,
        How::Thread(|talker, _| {
            let deaf = registry::look_up(talker, DEAF)?;
            begin(talker, deaf)?;
            talker.port().device().thread_exit().context("BINDER_THREAD_EXIT")
        }),
    ),
    ending(
        "poller-exits",
        "thread exits, its epoll set closed",
        100,
        How::Thread(|talker, _| {
            talker.enter_looper()?;
            let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll_create")?;
            set.add(talker.port().device(), EpollEvent::new(EpollFlags::EPOLLIN, 0)).context("epoll_ctl")?;
            set.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO).context("epoll_wait").map(drop)
        }),
    ),
    // A process acquires and releases a hundred nodes.
    ending(
        "handle-released",
        "handle released",
        5 * NODES,
        How::Done(NODES, |ends| {
            let holder = match &mut ends.holder {
                Some(holder) => holder,
                none => none.insert(Holder::new(&ends.device)?),
            };
            holder.take_and_release()
        }),
    ),
    ending("call-answered", "call answered", 500, How::Done(1, |ends| call(&mut ends.talker, ends.service))),
    ending(
        "oneway-served",
        "oneway call served",
        500,
        How::Done(1, |ends| {
            oneway(&mut ends.talker, ends.service, &small())?;
            // Answered behind it.
            call(&mut ends.talker, ends.service)
        }),
    ),
    // A death notification is requested, and the request withdrawn.
    ending(
        "death-withdrawn",
        "death link withdrawn",
        500,
        How::Done(1, |ends| {
            ends.talker.out.request_death(ends.service, 1).clear_death(ends.service, 1);
            ends.await_withdrawal()
        }),
    ),
    // A freeze notification is requested, the current state is read, and the request withdrawn.
    ending(
        "freeze-withdrawn",
        "freeze link withdrawn",
        500,
        How::Done(1, |ends| {
            ends.talker.out.request_freeze(ends.service, 1);
            let cookie = awaited!(ends.talker, Return::FrozenBinder(state) => state.cookie);
            ends.talker.out.freeze_done(cookie).clear_freeze(ends.service, 1);
            ends.await_withdrawal()
        }),
    ),
    ending(UNMOUNTED, "binderfs unmounted", 200, How::Done(1, |_| unmounted())),
];

impl Ending {
    pub fn maker(&self, stage: &mut Stage) -> Result<Worker> {
        makers::nodes(stage)?;
        let cpu = stage.seat(0).server;
        stage.server("server that does not answer", cpu, DEAF, |mut talker| {
            // The call that it has taken never ends.
            talker.next_call()?;
            loop {
                std::thread::park();
            }
        })?;
        stage.server("server that answers", cpu, ANSWERS, |mut talker| loop {
            let call = talker.next_call()?;
            talker.finish(&call).flush()?;
        })?;
        let how = self.how;
        makers::start(stage, "process that ends things", move |control, device| {
            let mut ends = Ends::new(device)?;
            control.obey(|count| ends.end(how, count))
        })
    }
}

pub struct Ends {
    device: PathBuf,
    talker: Talker,
    service: u32,
    made: u64,
    holder: Option<Holder>,
}

impl Ends {
    fn new(device: &Path) -> Result<Ends> {
        let mut talker = Talker::open(device, SPACE)?;
        // Upstream's driver notifies only loopers of deaths and of freezing.
        talker.out.enter_looper();
        let service = registry::look_up(&mut talker, ANSWERS)?;
        Ok(Ends { device: device.to_owned(), talker, service, made: 0, holder: None })
    }

    fn end(&mut self, how: How, count: u64) -> Result<()> {
        let times = if let How::Done(each, _) = how { count / each } else { count };
        for _ in 0..times {
            self.made += 1;
            match how {
                How::Process(life) => self.process(life)?,
                How::Done(_, act) => act(self)?,
                How::Thread(life) => {
                    let (port, service) = (self.talker.port().clone(), self.service);
                    let thread = std::thread::spawn(move || {
                        let mut talker = Talker::on(port);
                        life(&mut talker, service)
                    });
                    thread.join().map_err(|_| Error::failed("a thread panicked"))??;
                }
            }
        }
        Ok(())
    }

    fn process(&mut self, life: Life) -> Result<()> {
        let made = self.made;
        let name = if life.released { "ends and is released".into() } else { format!("ends {made}") };
        if life.apart {
            unshare(CloneFlags::CLONE_NEWPID).context("a pid namespace")?;
        }
        let child = child(|ready| {
            if life.apart {
                unshare(CloneFlags::CLONE_NEWUSER).context("a user namespace")?;
            }
            let mut talker = offer(&self.device, &name)?;
            (life.live)(&mut talker)?;
            ready()?;
            loop {
                std::thread::park();
            }
        })?;
        if life.apart {
            let own = File::open("/proc/self/ns/pid").context("the pid namespace")?;
            setns(own, CloneFlags::CLONE_NEWPID).context("leaving that of the child")?;
        }
        let mut handle = None;
        if let Some(before) = life.before {
            let on_it = registry::look_up(&mut self.talker, &name)?;
            before(&mut self.talker, on_it)?;
            handle = Some(on_it);
        }
        kill(child, Signal::SIGKILL).context("kill")?;
        waitpid(child, None).context("waiting for a process's end")?;
        handle.map_or(Ok(()), |handle| (life.after)(&mut self.talker, handle))
    }

    /// Waits until a link to the node of the server that answers is gone.
    fn await_withdrawal(&mut self) -> Result<()> {
        awaited!(self.talker, Return::ClearDeathNotificationDone(_) | Return::ClearFreezeNotificationDone(_) => self.talker.flush())
    }
}

fn call(talker: &mut Talker, service: u32) -> Result<()> {
    talker.call_through(&small().to_handle(service, 1, TransactionFlags::empty()))
}

/// Calls, and waits for nothing.
fn begin(talker: &mut Talker, handle: u32) -> Result<()> {
    talker.begin(&small().to_handle(handle, 1, TransactionFlags::empty()))
}

fn oneway(talker: &mut Talker, handle: u32, parcel: &Parcel) -> Result<()> {
    talker.send(&parcel.to_handle(handle, 1, TransactionFlags::ONE_WAY)).map(drop)
}

/// Opens the device, and gives the manager a node.
fn offer(device: &Path, name: &str) -> Result<Talker> {
    let mut talker = Talker::open(device, MAPPED)?;
    registry::register(&mut talker, name, 1)?;
    Ok(talker)
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
