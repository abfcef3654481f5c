// SPDX-License-Identifier: GPL-2.0
//! The other side of most measurements: a context manager that obeys and keeps objects by the codes of calls.

use std::path::Path;

use binder_sys::{Commands, ObjectFlags};
use nix::sys::resource::{setrlimit, Resource};

use super::scene::Scene;
use crate::prelude::*;
use crate::registry;

/// Operations of a phase that does not depend on how many there are.
pub const OPERATIONS: u64 = 16;

/// Open files that are enough for the largest number, twice.
const FILES: u64 = 40_000;

/// Permits this process, and the processes that it starts from now on, to open [`FILES`].
pub fn allow_files() -> Result<()> {
    setrlimit(Resource::RLIMIT_NOFILE, FILES, FILES).context("RLIMIT_NOFILE")
}

/// The most nodes in one answer to [`GIVE`].
const PORTION: u64 = 128;

const OBJECT: u64 = size_of::<FlatBinderObject>() as u64;

/// Answer, and give the message back.
pub const ANSWER: u32 = 1;
/// Answer, and keep the message.
pub const KEEP: u32 = 2;
/// Free all messages that are kept.
pub const FREE: u32 = 3;
/// Hold every handle in the message.
pub const HOLD: u32 = 4;
/// Answer with a number of new nodes, which the message contains.
pub const GIVE: u32 = 5;
/// Listen no more.
pub const DEAFEN: u32 = 6;
/// Answer with a number of bytes, which the message contains.
pub const FILL: u32 = 7;

pub fn open(device: &Path) -> Result<Talker> {
    Talker::open(device, LARGEST_SPACE)
}

pub fn manage(device: &Path) -> Result<Talker> {
    let mut talker = open(device)?;
    registry::become_manager(&talker)?;
    talker.enter_looper()?;
    Ok(talker)
}

/// Takes `count` calls, and replies to those that are not oneway.
pub fn serve(talker: &mut Talker, count: u64) -> Result<()> {
    for _ in 0..count {
        let call = talker.next_call()?;
        talker.finish(&call).flush()?;
    }
    Ok(())
}

/// Calls so many times, without objects, what answers at once.
pub fn call(talker: &mut Talker, times: u64) -> Result<()> {
    (0..times).try_for_each(|_| ask(talker, ANSWER, &Parcel::new()))
}

/// A process that calls the manager `times` times when it is resumed.
pub fn client(scene: &mut Scene, times: u64) -> Result<Worker> {
    actor(scene, "client", move |turns, talker| {
        turns.pause()?;
        call(talker, times)
    })
}

/// An actor that has the device open until it is killed.
pub fn actor<T>(
    scene: &mut Scene,
    name: &str,
    script: impl FnOnce(&mut Control, &mut Talker) -> Result<T>,
) -> Result<Worker> {
    scene.actor(name, |turns, device| {
        let mut talker = open(device)?;
        let kept = script(turns, &mut talker)?;
        Ok((talker, kept))
    })
}

/// Starts the service; it never pauses again.
pub fn start(scene: &mut Scene) -> Result<Worker> {
    scene.actor("service", |turns, device| -> Result<()> {
        let mut talker = open(device)?;
        let node = FlatBinderObject::binder(0, 0).with_flags(ObjectFlags::ACCEPTS_FDS);
        talker.port().device().set_context_manager_ext(&node).context("BINDER_SET_CONTEXT_MGR_EXT")?;
        talker.enter_looper()?;
        let mut service = Service { talker, kept: Vec::new(), given: 1 };
        turns.ready()?;
        service.serve()
    })
}

struct Service {
    talker: Talker,
    kept: Vec<u64>,
    given: u64,
}

impl Service {
    fn serve(&mut self) -> Result<()> {
        loop {
            let call = self.talker.next_call()?;
            let mut answer = Parcel::new();
            self.act(&call, &mut answer)?;
            if call.code != KEEP {
                self.talker.out.free_buffer(call.buffer);
            }
            if call.flags & TransactionFlags::ONE_WAY.bits() == 0 {
                self.talker.out.reply(&answer.to_caller(TransactionFlags::ACCEPT_FDS));
            }
            self.talker.flush()?;
            if call.code == DEAFEN {
                loop {
                    std::thread::park();
                }
            }
        }
    }

    fn act(&mut self, call: &BinderTransactionData, answer: &mut Parcel) -> Result<()> {
        let out = &mut self.talker.out;
        match call.code {
            ANSWER | DEAFEN => {}
            KEEP => self.kept.push(call.buffer),
            FREE => {
                for buffer in self.kept.drain(..) {
                    out.free_buffer(buffer);
                }
            }
            HOLD => {
                let handles = handles(&self.talker, call)?;
                for handle in handles {
                    self.talker.out.acquire(handle);
                }
            }
            GIVE => {
                for _ in 0..u64::from_ne_bytes(self.talker.port().part(call, 0)?) {
                    answer.object(&FlatBinderObject::binder(self.given * 16, self.given));
                    self.given += 1;
                }
            }
            FILL => {
                answer.bytes(&vec![0; u64::from_ne_bytes(self.talker.port().part(call, 0)?) as usize]);
            }
            other => return Err(Error::failed(format!("the service got the unknown code {other}"))),
        }
        Ok(())
    }
}

/// All handles in a message that consists of them.
pub fn handles(talker: &Talker, message: &BinderTransactionData) -> Result<Vec<u32>> {
    let count = message.offsets_size / 8;
    (0..count).map(|place| Ok(talker.port().object(message, place * OBJECT)?.handle())).collect()
}

/// A parcel of so many nodes of the sender's, from the first on; `make` makes one of them, held strongly or weakly.
pub fn nodes(count: u64, make: fn(u64, u64) -> FlatBinderObject) -> Parcel {
    let mut parcel = Parcel::new();
    for node in 1..=count {
        parcel.object(&make(node * 16, node));
    }
    parcel
}

/// Calls the service, and gives its answer back at once.
pub fn ask(talker: &mut Talker, what: u32, parcel: &Parcel) -> Result<()> {
    talker.call_through(&parcel.to_handle(0, what, TransactionFlags::ACCEPT_FDS))
}

/// Gets hold of so many new nodes of the service.
pub fn take(talker: &mut Talker, count: u64) -> Result<Vec<u32>> {
    let mut taken = Vec::with_capacity(count as usize);
    while (taken.len() as u64) < count {
        let mut wish = Parcel::new();
        wish.bytes(&PORTION.min(count - taken.len() as u64).to_ne_bytes());
        let answer = talker.call(&wish.to_handle(0, GIVE, TransactionFlags::ACCEPT_FDS))?;
        let got = handles(talker, &answer)?;
        for &handle in &got {
            talker.out.acquire(handle);
        }
        taken.extend(got);
        talker.write(|out| out.free_buffer(answer.buffer))?;
    }
    Ok(taken)
}

/// Writes commands about each of some handles in one write.
pub fn each(
    talker: &mut Talker,
    handles: &[u32],
    command: impl Fn(&mut Commands, u32) -> &mut Commands,
) -> Result<()> {
    for &handle in handles {
        command(&mut talker.out, handle);
    }
    talker.flush()
}
