// SPDX-License-Identifier: GPL-2.0
//! What an attacker does while it loses its CPU.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::wait::waitpid;
use nix::unistd::{fork, pipe, read, write, ForkResult, Pid};

use super::starvation::spin_until;
use super::victim::{self, Victim, CALL_BACK, GIVE, PAGES, PLAIN, SERVICE};
use super::{Moment, Moments};
use crate::prelude::*;
use crate::registry;

/// The name of the attacker's node.
pub const ATTACKER: &str = "attacker";

/// The service that the attacker freezes.
pub const BYSTANDER: &str = "bystander";

/// Nodes of others that a process holds when it ends.
const HELD: usize = 64;

pub struct Operation {
    pub name: &'static str,
    /// How long it takes at most on any driver, in instructions. All drivers are preempted along so many.
    pub nanoseconds: u64,
    /// What is there before.
    prepare: fn(&mut Attacker) -> Result<()>,
    act: fn(&mut Attacker) -> Result<()>,
    pub victims: &'static [&'static Victim],
}

pub const OPERATIONS: &[Operation] = &[
    Operation {
        name: "call",
        nanoseconds: 36_000,
        prepare: Attacker::open,
        act: |me| me.call(0),
        victims: &[&victim::CALL, &victim::ONEWAY],
    },
    Operation {
        name: "call with 64 KiB, new pages",
        nanoseconds: 110_000,
        prepare: |me| {
            fs::write("/proc/sys/vm/drop_caches", "2").context("drop_caches")?;
            me.open()
        },
        act: |me| me.call(PAGES),
        victims: &[&victim::CALL_WITH_PAGES],
    },
    Operation {
        name: "reply",
        nanoseconds: 8_000,
        prepare: |me| {
            me.open()?;
            let mut node = Parcel::new();
            node.object(&FlatBinderObject::binder(1, 1));
            let wish = node.to_handle(me.service, CALL_BACK, TransactionFlags::empty());
            me.talker()?.call_through(&wish)?;
            me.talker()?.next_call().map(drop)
        },
        act: |me| {
            let mut answer = Parcel::new();
            me.talker()?.out.reply(&answer.bytes(&[0; 4096]).to_caller(TransactionFlags::empty()));
            me.talker()?.flush()
        },
        victims: &[&victim::CALL],
    },
    Operation {
        name: "oneway call",
        nanoseconds: 7_000,
        prepare: Attacker::open,
        act: |me| {
            let call = Parcel::new().to_handle(me.service, PLAIN, TransactionFlags::ONE_WAY);
            me.talker()?.send(&call).map(drop)
        },
        victims: &[&victim::CALL, &victim::ONEWAY],
    },
    Operation {
        name: "free",
        nanoseconds: 3_000,
        // Another oneway call waits for this buffer.
        prepare: |me| {
            me.open()?;
            let mut friend = Talker::open(&me.device, SPACE)?;
            let handle = registry::look_up(&mut friend, ATTACKER)?;
            for _ in 0..2 {
                friend.send(&Parcel::new().to_handle(handle, PLAIN, TransactionFlags::ONE_WAY))?;
            }
            me.received = me.talker()?.next_call()?.buffer;
            Ok(())
        },
        act: |me| {
            let buffer = me.received;
            me.talker()?.out.free_buffer(buffer);
            me.talker()?.flush()
        },
        victims: &[&victim::SEND],
    },
    Operation {
        name: "last reference released",
        nanoseconds: 4_000,
        prepare: |me| me.open_and_hold(1),
        act: |me| {
            let handle = me.held.pop().ok_or_else(|| Error::failed("nothing is held"))?;
            me.talker()?.out.release(handle);
            me.talker()?.flush()
        },
        victims: &[&victim::CALL],
    },
    Operation {
        name: "death link requested and cleared",
        nanoseconds: 5_000,
        prepare: Attacker::open,
        act: |me| {
            let service = me.service;
            me.talker()?.out.request_death(service, 1).clear_death(service, 1);
            me.talker()?.next().map(drop)
        },
        victims: &[&victim::CALL],
    },
    Operation {
        name: "open and mmap",
        nanoseconds: 18_000,
        prepare: Attacker::open,
        act: |me| {
            me.second = Some(Talker::open(&me.device, SPACE)?);
            Ok(())
        },
        victims: &[&victim::OPEN, &victim::CALL],
    },
    Operation {
        name: "munmap and close",
        nanoseconds: 100_000,
        prepare: |me| me.open_and_hold(HELD),
        act: |me| {
            me.talker = None;
            Ok(())
        },
        victims: &[&victim::DEATH, &victim::DEAD_REPLY, &victim::CALL, &victim::OPEN],
    },
    Operation {
        name: "exit",
        nanoseconds: 450_000,
        prepare: Attacker::have_a_child,
        // SAFETY: nothing of this process is used afterwards.
        act: |_| unsafe { libc::_exit(0) },
        victims: &[&victim::DEATH, &victim::DEAD_REPLY, &victim::CALL],
    },
    Operation {
        name: "log read",
        nanoseconds: 150_000,
        prepare: Attacker::open,
        act: |_| {
            let places = ["/dev/binderfs/binder_logs/state", "/sys/kernel/debug/binder/state"];
            let log = places.iter().find(|place| Path::new(place).exists());
            fs::read(log.ok_or_else(|| Error::failed("there is no log"))?).map(drop).context("the log")
        },
        victims: &[&victim::CALL, &victim::OPEN],
    },
    Operation {
        name: "reclaim",
        nanoseconds: 2_000_000,
        prepare: Attacker::open,
        act: |_| {
            // It fails where less can be reclaimed.
            let _ = fs::write("/sys/fs/cgroup/memory.reclaim", "64K");
            Ok(())
        },
        victims: &[&victim::CALL_WITH_PAGES],
    },
    Operation {
        name: "freeze and thaw",
        nanoseconds: 6_000,
        prepare: |me| {
            me.open()?;
            let call = Parcel::new().to_handle(me.bystander, victim::PID, TransactionFlags::empty());
            let answer = me.talker()?.call(&call)?;
            me.pid = u32::from_ne_bytes(me.talker()?.port().part(&answer, 0)?);
            Ok(())
        },
        act: |me| {
            for enable in [true, false] {
                let pid = me.pid;
                me.talker()?.port().device().freeze(pid, enable, 0).context("BINDER_FREEZE")?;
            }
            Ok(())
        },
        victims: &[&victim::CALL, &victim::OPEN],
    },
];

/// The attacker's process.
pub struct Attacker {
    device: PathBuf,
    moments: Moments,
    operation: &'static Operation,
    talker: Option<Talker>,
    /// A device that is opened in the operation.
    second: Option<Talker>,
    service: u32,
    bystander: u32,
    /// The process that is frozen.
    pid: u32,
    held: Vec<u32>,
    /// The buffer that is freed.
    received: u64,
    /// The process that acts instead, and the pipe by which it gets its moment.
    child: Option<(Pid, OwnedFd)>,
}

impl Attacker {
    pub fn new(device: PathBuf, moments: Moments, operation: &'static Operation) -> Attacker {
        Attacker {
            device,
            moments,
            operation,
            talker: None,
            second: None,
            service: 0,
            bystander: 0,
            pid: 0,
            held: Vec::new(),
            received: 0,
            child: None,
        }
    }

    /// Each point has a device that was opened for it.
    pub fn prepare(&mut self) -> Result<()> {
        (self.talker, self.second) = (None, None);
        (self.operation.prepare)(self)
    }

    /// Begins at a moment. The victim has what it waits for before the attacker goes on.
    pub fn act(&mut self, at: u64) -> Result<()> {
        match self.child.take() {
            Some((child, moment)) => {
                write(&moment, &at.to_ne_bytes()).context("the moment")?;
                waitpid(child, None).context("waitpid")?;
            }
            None => self.begin(at)?,
        }
        self.moments.stamp(Moment::End);
        self.moments.wait(Moment::Done);
        Ok(())
    }

    fn begin(&mut self, at: u64) -> Result<()> {
        spin_until(at);
        self.moments.stamp(Moment::Begin);
        (self.operation.act)(self)
    }

    fn open(&mut self) -> Result<()> {
        let mut talker = Talker::open(&self.device, SPACE)?;
        registry::register(&mut talker, ATTACKER, 1)?;
        self.service = registry::look_up(&mut talker, SERVICE)?;
        self.bystander = registry::look_up(&mut talker, BYSTANDER)?;
        talker.enter_looper()?;
        self.talker = Some(talker);
        Ok(())
    }

    fn open_and_hold(&mut self, count: usize) -> Result<()> {
        self.open()?;
        self.held.clear();
        for _ in 0..count {
            let wish = Parcel::new().to_handle(self.service, GIVE, TransactionFlags::empty());
            let talker = self.talker()?;
            let answer = talker.call(&wish)?;
            let handle = talker.port().object(&answer, 0)?.handle();
            talker.out.acquire(handle).free_buffer(answer.buffer);
            talker.flush()?;
            self.held.push(handle);
        }
        Ok(())
    }

    fn talker(&mut self) -> Result<&mut Talker> {
        self.talker.as_mut().ok_or_else(|| Error::failed("the attacker has no device"))
    }

    fn call(&mut self, size: usize) -> Result<()> {
        let mut parcel = Parcel::new();
        let call = parcel.bytes(&vec![0; size]).to_handle(self.service, PLAIN, TransactionFlags::empty());
        self.talker()?.call_through(&call)
    }

    /// Starts a process that opens the device and acts.
    fn have_a_child(&mut self) -> Result<()> {
        let ((wait, go), (hear, ready)) = (pipe().context("pipe")?, pipe().context("pipe")?);
        // SAFETY: this process has one thread, so no lock is left held in the child.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Child => {
                let mut at = [0; 8];
                let lived = self.open_and_hold(HELD).and_then(|()| {
                    write(&ready, b"r").context("telling the parent")?;
                    read(wait.as_fd(), &mut at).context("the moment")?;
                    self.begin(u64::from_ne_bytes(at))
                });
                eprintln!("binder-bench: a process that was to exit: {lived:?}");
                std::process::exit(1)
            }
            ForkResult::Parent { child } => {
                drop(ready);
                self.child = Some((child, go));
                match read(hear.as_fd(), &mut [0]) {
                    Ok(1) => Ok(()),
                    _ => Err(Error::failed("a process ended too early")),
                }
            }
        }
    }
}
