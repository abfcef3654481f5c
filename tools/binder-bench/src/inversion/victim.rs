// SPDX-License-Identifier: GPL-2.0
//! The operations that a victim waits for, and the server that it calls.

use std::path::Path;
use std::sync::mpsc;

use super::operation::ATTACKER;
use super::starvation::{now, punctual, sleep_until};
use super::{Moment, Moments, PREPARE};
use crate::prelude::*;
use crate::registry;

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

const WAITED_FOR: TransactionFlags = TransactionFlags::empty();

pub struct Victim {
    pub name: &'static str,
    /// Runs before the attacker begins, with a handle on its node. `None`: the victim gets no such handle.
    prepare: Option<fn(&mut Process) -> Result<()>>,
    /// Returns when the wait is over.
    act: fn(&mut Process) -> Result<u64>,
}

pub const CALL: Victim = Victim { name: "calls the server", prepare: None, act: |me| me.call(0) };

pub const CALL_WITH_PAGES: Victim =
    Victim { name: "calls the server, 64 KiB", prepare: None, act: |me| me.call(PAGES) };

pub const ONEWAY: Victim = Victim {
    name: "oneway call to the server",
    prepare: None,
    act: |me| {
        me.talker.send(&plain(me.service, STAMP, TransactionFlags::ONE_WAY))?;
        Ok(me.moments.wait(Moment::Received))
    },
};

pub const SEND: Victim = Victim {
    name: "oneway call to the attacker, sent",
    prepare: Some(|_| Ok(())),
    act: |me| {
        me.talker.send(&plain(me.attacker, PLAIN, TransactionFlags::ONE_WAY))?;
        Ok(now())
    },
};

pub const OPEN: Victim = Victim {
    name: "opens and maps the device",
    prepare: None,
    act: |me| {
        let opened = Talker::open(me.device, SPACE)?;
        let end = now();
        drop(opened);
        Ok(end)
    },
};

pub const DEATH: Victim = Victim {
    name: "notified of the death",
    prepare: Some(|me| me.talker.write(|out| out.request_death(me.attacker, 1))),
    act: |me| {
        let (cookie, end) = awaited!(me.talker, Return::DeadBinder(cookie) => (cookie, now()));
        me.talker.write(|out| out.dead_binder_done(cookie))?;
        Ok(end)
    },
};

pub const DEAD_REPLY: Victim = Victim {
    name: "its call to the attacker fails",
    prepare: Some(|me| me.talker.begin(&plain(me.attacker, PLAIN, WAITED_FOR))),
    act: |me| match me.talker.next() {
        Err(Error { kind: Kind::PeerDied, .. }) => Ok(now()),
        other => Err(unexpected(&other?)),
    },
};

/// Calls with so many bytes.
pub fn call(talker: &mut Talker, service: u32, size: usize) -> Result<()> {
    talker.call_through(&Parcel::new().bytes(&vec![0; size]).to_handle(service, PLAIN, WAITED_FOR))
}

/// The victim's process.
struct Process<'a> {
    device: &'a Path,
    moments: &'a Moments,
    talker: Talker,
    service: u32,
    /// The handle on the attacker's node; 0 if there is none.
    attacker: u32,
}

impl Process<'_> {
    fn call(&mut self, size: usize) -> Result<u64> {
        call(&mut self.talker, self.service, size)?;
        Ok(now())
    }

    fn prepare(&mut self, victim: &Victim) -> Result<()> {
        let Some(prepare) = victim.prepare else { return Ok(()) };
        // That of the last point.
        if self.attacker != 0 {
            self.talker.out.release(self.attacker);
        }
        self.attacker = registry::look_up(&mut self.talker, ATTACKER)?;
        prepare(self)
    }
}

/// Runs the victim in a loop: prepares, acts at a moment and reports the time.
pub fn run(control: &mut Control, device: &Path, moments: &Moments, victim: &Victim) -> Result<()> {
    punctual()?;
    let mut talker = Talker::open(device, SPACE)?;
    let service = registry::look_up(&mut talker, SERVICE)?;
    talker.enter_looper()?;
    let mut me = Process { device, moments, talker, service, attacker: 0 };
    control.obey(|at| {
        if at == PREPARE {
            return me.prepare(victim);
        }
        sleep_until(at);
        let begin = now();
        let end = (victim.act)(&mut me)?;
        moments.stamp(Moment::Done);
        moments.set(Moment::Waited, end - begin);
        Ok(())
    })
}

/// Serves by one thread. Another one calls the nodes of `CALL_BACK`, some of which die.
pub fn serve(mut talker: Talker, moments: &Moments) -> Result<()> {
    let (call_back, called) = mpsc::channel();
    let mut caller = Talker::on(talker.port().clone());
    std::thread::spawn(move || {
        for handle in called {
            let _ = caller.call_through(&plain(handle, PLAIN, WAITED_FOR));
            caller.out.release(handle);
        }
    });
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
                let handle = talker.hold(&call, 0)?;
                talker.flush()?;
                let _ = call_back.send(handle);
            }
            _ => {}
        }
        talker.finish_with(&call, &answer).flush()?;
    }
}
