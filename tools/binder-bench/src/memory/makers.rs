// SPDX-License-Identifier: GPL-2.0
//! The objects that are weighed, and the processes that make so many of them at a time, and keep them until they are killed.
//!
//! A control does in user space just what its counterpart does: it makes the same system calls, to another file.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use binder_sys::{Commands, Mapping};
use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::sched::{unshare, CloneFlags};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::unistd::{close, pipe, read, write};
use zerocopy::FromBytes;

use crate::prelude::*;
use crate::registry;

pub struct Object {
    pub option: &'static str,
    pub name: &'static str,
    pub portion: u64,
    pub make: Make,
}

/// Starts the process that makes objects, at most so many, and that of the control, if there is one to subtract.
type Make = fn(&mut Stage, u64) -> Result<(Worker, Option<Worker>)>;

const fn object(option: &'static str, name: &'static str, portion: u64, make: Make) -> Object {
    Object { option, name, portion, make }
}

pub const OBJECTS: &[Object] = &[
    // The device opened once more. Subtracted: another file opened.
    object("process", "process", 200, |stage, most| {
        Ok((files(stage, true, false, most)?, Some(files(stage, false, false, most)?)))
    }),
    // The device opened, and 1 MiB of it mapped. Subtracted: another file, opened and mapped.
    object("mapped-process", "process, 1 MiB mapped", 200, |stage, most| {
        Ok((files(stage, true, true, most)?, Some(files(stage, false, true, most)?)))
    }),
    // A thread that joins the pool and waits for work.
    object("thread", "thread", 200, |stage, most| Ok((loopers(stage, most)?, None))),
    // A node with its first reference. Subtracted: a reference.
    object("node", "node", 5 * NODES, |stage, _| {
        nodes(stage)?;
        Ok((holder(stage, 0)?, Some(holder(stage, 0)?)))
    }),
    // A reference to a node that others refer to already.
    object("reference", "reference", 5 * NODES, |stage, most| {
        nodes(stage)?;
        holder(stage, most)?;
        Ok((holder(stage, 0)?, None))
    }),
    // A request for a death notification.
    object("death-request", "death request", 5 * NODES, |stage, most| {
        nodes(stage)?;
        Ok((watcher(stage, most, |out, handle| out.request_death(handle, handle.into()))?, None))
    }),
    // A request for a freeze notification; the present state is unread.
    object("freeze-request", "freeze request", 5 * NODES, |stage, most| {
        nodes(stage)?;
        Ok((watcher(stage, most, |out, handle| out.request_freeze(handle, handle.into()))?, None))
    }),
    // A call of 64 bytes that no thread has taken, of a thread that has used the device before.
    object("call", "call", 200, |stage, most| Ok((callers(stage, most)?, None))),
    // A oneway call of 64 bytes that the receiver does not read.
    object("oneway-call", "oneway call, unread", 500, |stage, _| oneway(stage, 64)),
    // A oneway call of 4 KiB that the receiver does not read: a page, and its part of a page table.
    object("unread-page", "oneway call of 4 KiB, unread", 12, |stage, _| oneway(stage, 4096)),
    // A set of epoll that watches the device. Subtracted: one that watches nothing.
    object("poller", "epoll set that watches", 200, |stage, most| {
        Ok((pollers(stage, true, most)?, Some(pollers(stage, false, most)?)))
    }),
    // A device of an instance, and an instance of binderfs.
    object(BINDERFS[0], "device of binderfs", 200, |stage, _| Ok((instances(stage, add_device)?, None))),
    object(BINDERFS[1], "instance of binderfs", 50, |stage, _| {
        Ok((instances(stage, |_| binder_sys::fs::mount_at(PLACE, None))?, None))
    }),
];

/// The objects that a driver without binderfs lacks.
pub const BINDERFS: [&str; 2] = ["device", "instance"];

/// A mount point.
const PLACE: &str = "/tmp";

pub const NODES: u64 = 100;

/// The bytes that are mapped of a device or of another file.
pub const MAPPED: usize = 1 << 20;

const OWNER: &str = "owner of nodes";

const DEAF: &str = "takes no calls";

const OBJECT: u64 = size_of::<FlatBinderObject>() as u64;

/// A file that everyone may open and map, in place of a device.
const OTHER_FILE: &str = "/proc/self/exe";

pub fn start(
    stage: &mut Stage,
    name: &str,
    body: impl FnOnce(&mut Control, &Path) -> Result<()>,
) -> Result<Worker> {
    let (cpu, device) = (stage.seat(0).client, stage.device.clone());
    stage.start(name, cpu, move |control| body(control, &device))
}

/// Opens the device, or another file, again and again; at most `most` times.
fn files(stage: &mut Stage, binder: bool, mapped: bool, most: u64) -> Result<Worker> {
    start(stage, "process that opens files", move |control, device| {
        let (path, access) = if binder {
            (device.to_owned(), OFlag::O_RDWR)
        } else {
            (PathBuf::from(OTHER_FILE), OFlag::O_RDONLY)
        };
        make_room(most)?;
        let mut kept: Vec<(Device, Option<Mapping>)> = Vec::with_capacity(most as usize);
        control.obey(|count| {
            for _ in 0..count {
                let file = Device::open_with(&path, access | OFlag::O_CLOEXEC)
                    .context("opening a file once more")?;
                let mapping = mapped.then(|| file.map(MAPPED)).transpose().context("mapping it")?;
                kept.push((file, mapping));
            }
            Ok(())
        })
    })
}

/// Allows so many files, and has the table for them made now.
fn make_room(files: u64) -> Result<()> {
    let (limit, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("RLIMIT_NOFILE")?;
    let wanted = files + 64;
    if limit < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted))
            .map_err(|e| Error::from_path(format!("cannot open {wanted} files"), e))?;
    }
    let last = i32::try_from(wanted).expect("limits are small") - 1;
    let file = fcntl(std::io::stderr(), FcntlArg::F_DUPFD_CLOEXEC(last)).context("the last of many files")?;
    close(file).context("closing it")
}

/// Threads, of which so many at a time join the pool and wait for work. They are all there from the start.
fn loopers(stage: &mut Stage, most: u64) -> Result<Worker> {
    start(stage, "process with a pool of threads", move |control, device| {
        let port = Arc::new(Port::open(device, SPACE)?);
        let body = move |talker: &mut Talker| {
            talker.out.enter_looper();
            Err(unexpected(&talker.next()?))
        };
        let mut threads = Threads::start(most, &port, |_| Ok(()), body)?;
        control.obey(|count| threads.release(count))
    })
}

/// Threads that have used the device, of which so many at a time call a server that takes no calls.
fn callers(stage: &mut Stage, most: u64) -> Result<Worker> {
    deaf_server(stage)?;
    start(stage, "process of many callers", move |control, device| {
        let mut talker = Talker::open(device, SPACE)?;
        let handle = registry::look_up(&mut talker, DEAF)?;
        let body = move |talker: &mut Talker| {
            talker.call(&small().to_handle(handle, 1, TransactionFlags::empty()))?;
            Err(Error::failed("a call was answered by someone who takes none"))
        };
        let mut threads = Threads::start(most, talker.port(), Talker::enter_looper, body)?;
        control.obey(|count| threads.release(count))
    })
}

/// Threads that wait for a byte each, to do then what makes an object.
struct Threads {
    gate: OwnedFd,
    released: u64,
    passed: Arc<AtomicU64>,
}

impl Threads {
    /// Starts them. Each does `first` now, and the endless `then` when it is released.
    fn start(
        count: u64,
        port: &Arc<Port>,
        first: impl Fn(&mut Talker) -> Result<()> + Clone + Send + 'static,
        then: impl Fn(&mut Talker) -> Result<()> + Clone + Send + 'static,
    ) -> Result<Threads> {
        let (wait, gate) = pipe().context("pipe")?;
        let (wait, passed) = (Arc::new(wait), Arc::new(AtomicU64::new(0)));
        for _ in 0..count {
            let (port, wait, passed) = (port.clone(), wait.clone(), passed.clone());
            let (first, then) = (first.clone(), then.clone());
            let life = move || -> Result<()> {
                let mut talker = Talker::on(port);
                first(&mut talker)?;
                passed.fetch_add(1, Ordering::Relaxed);
                read(&*wait, &mut [0]).context("waiting at the gate")?;
                passed.fetch_add(1, Ordering::Relaxed);
                then(&mut talker)
            };
            let builder = std::thread::Builder::new().stack_size(64 << 10);
            builder.spawn(move || end(life())).context("a thread more")?;
        }
        let threads = Threads { gate, released: count, passed };
        threads.await_passed();
        Ok(threads)
    }

    fn release(&mut self, count: u64) -> Result<()> {
        for _ in 0..count {
            write(&self.gate, &[0]).context("opening the gate")?;
        }
        self.released += count;
        self.await_passed();
        Ok(())
    }

    fn await_passed(&self) {
        while self.passed.load(Ordering::Relaxed) < self.released {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Ends the process after a thread that should wait for ever has ended.
fn end(why: Result<()>) {
    match why {
        // All are killed at the end, and some a little earlier than others.
        Err(Error { kind: Kind::PeerDied, .. }) => {}
        why => eprintln!("binder-bench: a thread that should wait for ever did not: {why:?}"),
    }
    std::process::exit(1)
}

/// Sends oneway calls of so many bytes to a server that takes no calls.
fn oneway(stage: &mut Stage, size: usize) -> Result<(Worker, Option<Worker>)> {
    deaf_server(stage)?;
    let sender = start(stage, "sender of oneway calls", move |control, device| {
        let mut talker = Talker::open(device, SPACE)?;
        let handle = registry::look_up(&mut talker, DEAF)?;
        let call = payload(size);
        let call = call.to_handle(handle, 1, TransactionFlags::ONE_WAY);
        control.obey(|count| (0..count).try_for_each(|_| talker.send(&call).map(drop)))
    })?;
    Ok((sender, None))
}

/// Makes sets of epoll that watch the device, if `watch`; at most `most`.
fn pollers(stage: &mut Stage, watch: bool, most: u64) -> Result<Worker> {
    start(stage, "process that watches", move |control, device| {
        let device = Device::open(device).context("opening the device")?;
        make_room(most)?;
        let mut sets = Vec::with_capacity(most as usize);
        control.obey(|count| {
            for _ in 0..count {
                let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll_create")?;
                if watch {
                    let event = EpollEvent::new(EpollFlags::EPOLLIN, 0);
                    set.add(&device, event).context("epoll_ctl")?;
                }
                sets.push(set);
            }
            Ok(())
        })
    })
}

/// A server that looks at nothing it is sent.
fn deaf_server(stage: &mut Stage) -> Result<Worker> {
    let cpu = stage.seat(0).server;
    stage.server("server that takes no calls", cpu, DEAF, |_talker| loop {
        std::thread::park();
    })
}

/// A payload of 64 bytes.
pub fn small() -> Parcel {
    payload(64)
}

fn payload(size: usize) -> Parcel {
    let mut parcel = Parcel::new();
    parcel.bytes(&vec![0; size]);
    parcel
}

/// A server that replies with [`NODES`] nodes at a time, starting at the number in the call.
pub fn nodes(stage: &mut Stage) -> Result<Worker> {
    let cpu = stage.seat(0).server;
    stage.server("owner of nodes", cpu, OWNER, |mut talker| loop {
        let call = talker.next_call()?;
        let first = u64::from_ne_bytes(talker.port().part(&call, 0)?);
        let mut given = Parcel::new();
        for node in first..first + NODES {
            // The node with number 1 is the service.
            given.object(&FlatBinderObject::binder((node + 1) * 16, (node + 1) * 16));
        }
        talker.finish_with(&call, &given).flush()?;
    })
}

pub struct Holder {
    talker: Talker,
    service: u32,
    next: u64,
}

impl Holder {
    pub fn new(device: &Path) -> Result<Holder> {
        let mut talker = Talker::open(device, SPACE)?;
        let service = registry::look_up(&mut talker, OWNER)?;
        Ok(Holder { talker, service, next: 0 })
    }

    fn take(&mut self) -> Result<Vec<u32>> {
        let mut ask = Parcel::new();
        ask.bytes(&self.next.to_ne_bytes());
        let reply = self.talker.call(&ask.to_handle(self.service, 1, TransactionFlags::empty()))?;
        let objects: [u8; (NODES * OBJECT) as usize] = self.talker.port().part(&reply, 0)?;
        let objects = <[FlatBinderObject; NODES as usize]>::read_from_bytes(&objects)
            .map_err(|_| Error::failed("bad objects arrived"))?;
        let handles: Vec<u32> = objects.iter().map(FlatBinderObject::handle).collect();
        for &handle in &handles {
            self.talker.out.acquire(handle);
        }
        self.talker.write(|out| out.free_buffer(reply.buffer))?;
        self.next += NODES;
        Ok(handles)
    }

    pub fn take_and_release(&mut self) -> Result<()> {
        for handle in self.take()? {
            self.talker.out.release(handle);
        }
        self.talker.flush()
    }
}

/// Holds nodes, from the first on: so many at once, and then as many as its orders contain.
fn holder(stage: &mut Stage, at_once: u64) -> Result<Worker> {
    start(stage, "holder of references", move |control, device| {
        let mut holder = Holder::new(device)?;
        let mut take = |count| (0..count / NODES).try_for_each(|_| holder.take().map(drop));
        take(at_once)?;
        control.obey(take)
    })
}

/// Holds `most` nodes, and requests notifications of them.
fn watcher(stage: &mut Stage, most: u64, request: fn(&mut Commands, u32) -> &mut Commands) -> Result<Worker> {
    start(stage, "watcher of nodes", move |control, device| {
        let mut holder = Holder::new(device)?;
        let mut handles = Vec::with_capacity(most as usize);
        while (handles.len() as u64) < most {
            handles.extend(holder.take()?);
        }
        let mut unwatched = handles.into_iter();
        let talker = &mut holder.talker;
        control.obey(|count| {
            for _ in 0..count {
                let handle =
                    unwatched.next().ok_or_else(|| Error::failed("there are no more nodes to watch"))?;
                request(&mut talker.out, handle);
            }
            talker.flush()
        })
    })
}

fn add_device(number: u64) -> nix::Result<()> {
    binder_sys::fs::add_device(Path::new(PLACE), &number.to_string()).map(drop)
}

/// Mounts an instance of binderfs, and makes more in it, in a mount namespace that ends with the process.
fn instances(stage: &mut Stage, more: fn(u64) -> nix::Result<()>) -> Result<Worker> {
    start(stage, "process with a binderfs", move |control, _| {
        unshare(CloneFlags::CLONE_NEWNS).context("a mount namespace")?;
        binder_sys::fs::mount_at(PLACE, None).context("mounting binderfs")?;
        let mut number = 0;
        control.obey(|count| {
            (0..count).try_for_each(|_| {
                number += 1;
                more(number).context("one more of binderfs")
            })
        })
    })
}
