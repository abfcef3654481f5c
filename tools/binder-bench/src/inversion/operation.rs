// SPDX-License-Identifier: GPL-2.0
//! The operation of an attacker while it loses its CPU.

use std::fs;
use std::path::Path;

use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::starvation::spin_until;
use super::victim::*;
use super::{Moment, Moments};
use crate::prelude::*;
use crate::registry;
use crate::workers::child;

/// The name of the attacker's node.
pub const ATTACKER: &str = "attacker";

/// The service that the attacker freezes.
pub const BYSTANDER: &str = "bystander";

/// Nodes of others that a process holds when it ends.
const HELD: usize = 64;

const ONE_WAY: TransactionFlags = TransactionFlags::ONE_WAY;
const WAITED_FOR: TransactionFlags = TransactionFlags::empty();

type Act = fn(&mut Attacker) -> Result<()>;

pub struct Operation {
    pub name: &'static str,
    /// The longest time on any driver, in instructions. All drivers are preempted along so many.
    pub nanoseconds: u64,
    /// The objects that exist before.
    prepare: Act,
    act: Act,
    pub victims: &'static [&'static Victim],
}

const fn operation(
    name: &'static str,
    nanoseconds: u64,
    prepare: Act,
    act: Act,
    victims: &'static [&'static Victim],
) -> Operation {
    Operation { name, nanoseconds, prepare, act, victims }
}

const OPENED: Act = |me| me.open(0).map(drop);

pub const OPERATIONS: &[Operation] = &[
    operation("call", 36_000, OPENED, |me| me.call(0), &[&CALL, &ONEWAY]),
    operation(
        "call with 64 KiB, new pages",
        110_000,
        |me| {
            fs::write("/proc/sys/vm/drop_caches", "2").context("drop_caches")?;
            OPENED(me)
        },
        |me| me.call(PAGES),
        &[&CALL_WITH_PAGES],
    ),
    operation(
        "reply",
        8_000,
        |me| {
            let Opened { talker, service, .. } = me.open(0)?;
            let mut node = Parcel::new();
            node.object(&FlatBinderObject::binder(1, 1));
            talker.call_through(&node.to_handle(*service, CALL_BACK, WAITED_FOR))?;
            talker.next_call().map(drop)
        },
        |me| me.opened()?.talker.reply(Parcel::new().bytes(&[0; 4096])).flush(),
        &[&CALL],
    ),
    operation(
        "oneway call",
        7_000,
        OPENED,
        |me| {
            let Opened { talker, service, .. } = me.opened()?;
            talker.send(&plain(*service, PLAIN, ONE_WAY)).map(drop)
        },
        &[&CALL, &ONEWAY],
    ),
    operation(
        "free",
        3_000,
        // Another oneway call waits for this buffer.
        |me| {
            OPENED(me)?;
            let mut friend = Talker::open(me.device, SPACE)?;
            let handle = registry::look_up(&mut friend, ATTACKER)?;
            for _ in 0..2 {
                friend.send(&plain(handle, PLAIN, ONE_WAY))?;
            }
            let Opened { talker, thing, .. } = me.opened()?;
            *thing = talker.next_call()?.buffer;
            Ok(())
        },
        |me| {
            let Opened { talker, thing, .. } = me.opened()?;
            talker.write(|out| out.free_buffer(*thing))
        },
        &[&SEND],
    ),
    operation(
        "last reference released",
        4_000,
        |me| me.open(1).map(drop),
        |me| {
            let Opened { talker, thing, .. } = me.opened()?;
            talker.write(|out| out.release(*thing as u32))
        },
        &[&CALL],
    ),
    operation(
        "death link requested and cleared",
        5_000,
        OPENED,
        |me| {
            let Opened { talker, service, .. } = me.opened()?;
            talker.out.request_death(*service, 1).clear_death(*service, 1);
            talker.next().map(drop)
        },
        &[&CALL],
    ),
    operation(
        "open and mmap",
        18_000,
        OPENED,
        |me| {
            me.second = Some(Talker::open(me.device, SPACE)?);
            Ok(())
        },
        &[&OPEN, &CALL],
    ),
    operation(
        "munmap and close",
        100_000,
        |me| me.open(HELD).map(drop),
        |me| {
            me.opened = None;
            Ok(())
        },
        &[&DEATH, &DEAD_REPLY, &CALL, &OPEN],
    ),
    operation(
        "exit",
        450_000,
        |me| me.have_a_child(),
        // SAFETY: nothing of this process is used afterwards.
        |_| unsafe { libc::_exit(0) },
        &[&DEATH, &DEAD_REPLY, &CALL],
    ),
    operation(
        "log read",
        150_000,
        OPENED,
        |_| {
            let places = ["/dev/binderfs/binder_logs/state", "/sys/kernel/debug/binder/state"];
            let log = places.iter().find(|place| Path::new(place).exists());
            fs::read(log.ok_or_else(|| Error::failed("there is no log"))?).map(drop).context("the log")
        },
        &[&CALL, &OPEN],
    ),
    operation(
        "reclaim",
        2_000_000,
        OPENED,
        |_| {
            // It fails where less can be reclaimed.
            let _ = fs::write("/sys/fs/cgroup/memory.reclaim", "64K");
            Ok(())
        },
        &[&CALL_WITH_PAGES],
    ),
    operation(
        "freeze and thaw",
        6_000,
        |me| {
            let Opened { talker, thing, .. } = me.open(0)?;
            let bystander = registry::look_up(talker, BYSTANDER)?;
            let answer = talker.call(&plain(bystander, PID, WAITED_FOR))?;
            *thing = u32::from_ne_bytes(talker.port().part(&answer, 0)?).into();
            Ok(())
        },
        |me| {
            let Opened { talker, thing, .. } = me.opened()?;
            let freeze = |enable| talker.port().device().freeze(*thing as u32, enable, 0);
            freeze(true).and_then(|()| freeze(false)).context("BINDER_FREEZE")
        },
        &[&CALL, &OPEN],
    ),
];

/// A device that the attacker has opened for a point.
struct Opened {
    talker: Talker,
    service: u32,
    /// The object of the operation: a handle, a buffer or a process.
    thing: u64,
}

/// The attacker's process.
pub struct Attacker<'a> {
    device: &'a Path,
    moments: &'a Moments,
    act: Act,
    opened: Option<Opened>,
    /// A device that is opened in the operation.
    second: Option<Talker>,
    /// The process that acts instead.
    child: Option<Pid>,
}

impl<'a> Attacker<'a> {
    pub fn new(device: &'a Path, moments: &'a Moments) -> Attacker<'a> {
        Attacker { device, moments, act: |_| Ok(()), opened: None, second: None, child: None }
    }

    /// Each point has a device that was opened for it.
    pub fn prepare(&mut self, operation: &Operation) -> Result<()> {
        (self.opened, self.second, self.act) = (None, None, operation.act);
        (operation.prepare)(self)
    }

    /// Begins at a moment. The victim's wait ends before the attacker continues.
    pub fn act(&mut self, at: u64) -> Result<()> {
        match self.child.take() {
            Some(child) => {
                self.moments.set(Moment::Due, at);
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
        (self.act)(self)
    }

    /// Opens the device, and takes hold of so many nodes.
    fn open(&mut self, held: usize) -> Result<&mut Opened> {
        let mut talker = Talker::open(self.device, SPACE)?;
        registry::register(&mut talker, ATTACKER, 1)?;
        let (service, mut thing) = (registry::look_up(&mut talker, SERVICE)?, 0);
        talker.enter_looper()?;
        for _ in 0..held {
            let answer = talker.call(&plain(service, GIVE, WAITED_FOR))?;
            thing = talker.hold(&answer, 0)?.into();
            talker.write(|out| out.free_buffer(answer.buffer))?;
        }
        Ok(self.opened.insert(Opened { talker, service, thing }))
    }

    fn opened(&mut self) -> Result<&mut Opened> {
        self.opened.as_mut().ok_or_else(|| Error::failed("the attacker has no device"))
    }

    fn call(&mut self, size: usize) -> Result<()> {
        let Opened { talker, service, .. } = self.opened()?;
        call(talker, *service, size)
    }

    /// Starts a process that opens the device and acts.
    fn have_a_child(&mut self) -> Result<()> {
        self.child = Some(child(|ready| {
            self.open(HELD)?;
            ready()?;
            self.begin(self.moments.wait(Moment::Due))
        })?);
        Ok(())
    }
}
