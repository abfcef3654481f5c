// SPDX-License-Identifier: GPL-2.0
//! What a victim waits for, and the server that it calls.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};

use super::operation::ATTACKER;
use super::starvation::{now, punctual, sleep_until};
use super::{Moment, Moments, PREPARE};
use crate::prelude::*;
use crate::registry;
use crate::workers::{Answer, Order};

/// The name of the server's node.
pub const SERVICE: &str = "service";

/// Bytes of a call that needs new pages.
pub const PAGES: usize = 64 << 10;

/// Answer.
pub const PLAIN: u32 = 1;
/// Stamp the moment.
pub const STAMP: u32 = 2;
/// Have a thread call the node in the message.
pub const CALL_BACK: u32 = 3;
/// Answer with a new node.
pub const GIVE: u32 = 4;
/// Answer with the process's number.
pub const PID: u32 = 5;

pub struct Victim {
    pub name: &'static str,
    /// What is there before the attacker begins.
    prepare: fn(&mut Process) -> Result<()>,
    /// Returns when the wait is over.
    act: fn(&mut Process) -> Result<u64>,
}

pub const CALL: Victim = Victim { name: "calls the server", prepare: |_| Ok(()), act: |me| me.call(0) };

pub const CALL_WITH_PAGES: Victim =
    Victim { name: "calls the server, 64 KiB", prepare: |_| Ok(()), act: |me| me.call(PAGES) };

pub const ONEWAY: Victim = Victim {
    name: "oneway call to the server",
    prepare: |_| Ok(()),
    act: |me| {
        me.talker.send(&Parcel::new().to_handle(me.service, STAMP, TransactionFlags::ONE_WAY))?;
        Ok(me.moments.wait(Moment::Received))
    },
};

pub const SEND: Victim = Victim {
    name: "oneway call to the attacker, sent",
    prepare: Process::find,
    act: |me| {
        me.talker.send(&Parcel::new().to_handle(me.attacker, PLAIN, TransactionFlags::ONE_WAY))?;
        Ok(now())
    },
};

pub const OPEN: Victim = Victim {
    name: "opens and maps the device",
    prepare: |_| Ok(()),
    act: |me| {
        let opened = Talker::open(&me.device, SPACE)?;
        let end = now();
        drop(opened);
        Ok(end)
    },
};

pub const DEATH: Victim = Victim {
    name: "notified of the death",
    prepare: |me| {
        me.find()?;
        me.talker.out.request_death(me.attacker, 1);
        me.talker.flush()
    },
    act: |me| match me.talker.next()? {
        Return::DeadBinder(cookie) => {
            let end = now();
            me.talker.out.dead_binder_done(cookie);
            me.talker.flush()?;
            Ok(end)
        }
        other => Err(unexpected(&other)),
    },
};

pub const DEAD_REPLY: Victim = Victim {
    name: "its call to the attacker fails",
    prepare: |me| {
        me.find()?;
        me.talker.out.transaction(&Parcel::new().to_handle(me.attacker, PLAIN, TransactionFlags::empty()));
        me.talker.flush()
    },
    act: |me| match me.talker.next() {
        Err(Error { kind: Kind::PeerDied, .. }) => Ok(now()),
        other => Err(unexpected(&other?)),
    },
};

/// The victim's process.
pub struct Process {
    device: PathBuf,
    moments: Moments,
    talker: Talker,
    service: u32,
    /// The handle on the attacker's node; 0 if there is none.
    attacker: u32,
}

impl Process {
    fn call(&mut self, size: usize) -> Result<u64> {
        let mut parcel = Parcel::new();
        let call = parcel.bytes(&vec![0; size]).to_handle(self.service, PLAIN, TransactionFlags::empty());
        self.talker.call_through(&call)?;
        Ok(now())
    }

    /// Gets a handle on the attacker's node in place of that of the last point.
    fn find(&mut self) -> Result<()> {
        if self.attacker != 0 {
            self.talker.out.release(self.attacker);
        }
        self.attacker = registry::look_up(&mut self.talker, ATTACKER)?;
        Ok(())
    }
}

/// Runs the victim: prepares, acts at a moment and answers how long that took, for ever.
pub fn run(control: &mut Control, device: &Path, moments: Moments, victim: &Victim) -> Result<()> {
    punctual()?;
    let mut talker = Talker::open(device, SPACE)?;
    let service = registry::look_up(&mut talker, SERVICE)?;
    talker.enter_looper()?;
    let mut me = Process { device: device.to_owned(), moments, talker, service, attacker: 0 };
    control.ready()?;
    loop {
        match control.order()? {
            Order::Go(PREPARE) => {
                (victim.prepare)(&mut me)?;
                control.ready()?;
            }
            Order::Go(at) => {
                sleep_until(at);
                let begin = now();
                let end = (victim.act)(&mut me)?;
                me.moments.stamp(Moment::Done);
                control.answer(&Answer::Ticks(end - begin))?;
            }
            order => return Err(Error::failed(format!("a victim was told to {order:?}"))),
        }
    }
}

/// Serves by one thread. Another one calls back.
pub fn serve(mut talker: Talker, moments: &Moments) -> Result<()> {
    let (call_back, called) = mpsc::channel();
    let mut caller = Talker::on(talker.port().clone());
    std::thread::spawn(move || calls(&mut caller, &called));
    let mut given = 1;
    loop {
        let call = talker.next_call()?;
        let mut answer = Parcel::new();
        match call.code {
            STAMP => moments.stamp(Moment::Received),
            GIVE => {
                given += 1;
                answer.object(&FlatBinderObject::binder(given, given));
            }
            PID => {
                answer.bytes(&std::process::id().to_ne_bytes());
            }
            CALL_BACK => {
                let handle = talker.port().object(&call, 0)?.handle();
                talker.out.acquire(handle);
                talker.flush()?;
                let _ = call_back.send(handle);
            }
            _ => {}
        }
        talker.out.free_buffer(call.buffer);
        if call.flags & TransactionFlags::ONE_WAY.bits() == 0 {
            talker.out.reply(&answer.to_caller(TransactionFlags::empty()));
        }
        talker.flush()?;
    }
}

/// Calls each of these nodes. Some of them die.
fn calls(talker: &mut Talker, handles: &Receiver<u32>) {
    for handle in handles {
        let _ = talker.call_through(&Parcel::new().to_handle(handle, PLAIN, TransactionFlags::empty()));
        talker.out.release(handle);
    }
}
