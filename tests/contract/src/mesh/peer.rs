// SPDX-License-Identifier: GPL-2.0
//! A process of the mesh: its pool of threads that serve, and its threads that call.

use super::tally::Tally;
use super::MeshArgs;
use anyhow::{bail, ensure};
use binder_sys::*;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

/// The space that a process maps: libbinder's.
const SPACE: usize = (1 << 20) - 2 * 4096;

/// Each message ends with the sum of its bytes.
const SUM: usize = 4;

/// To the manager: the object in this call is that of the process named by its code.
const PUBLISH: u32 = 1 << 16;

/// To the manager: the reply shall have the object of that process, if it is known.
const FIND: u32 = 1 << 17;

/// An opened device that all threads of a process use.
struct Opened {
    device: Device,
    space: Mapping,
}

/// A thread's commands, and returns not yet looked at.
struct Talk {
    process: Arc<Opened>,
    out: Commands,
    news: VecDeque<Return>,
    /// Whether a reply was made and its completion has not been read.
    has_replied: bool,
    /// Whether others may die at any time.
    tolerates_death: bool,
}

/// How a call ended.
enum End {
    Answered(BinderTransactionData),
    Refused,
    Dead,
}

impl Talk {
    fn open(path: &Path, tolerates_death: bool) -> anyhow::Result<Self> {
        let device = Device::open(path)?;
        let space = device.map(SPACE)?;
        Ok(Self::on(&Arc::new(Opened { device, space }), tolerates_death))
    }

    fn on(process: &Arc<Opened>, tolerates_death: bool) -> Self {
        let (process, out, news) = (process.clone(), Commands::new(), VecDeque::new());
        Self { process, out, news, has_replied: false, tolerates_death }
    }

    /// Writes the commands, and gives the next return that is not about counts.
    fn next(&mut self) -> anyhow::Result<Return> {
        loop {
            match self.news.pop_front() {
                None => self.exchange()?,
                Some(Return::Increfs(node)) => drop(self.out.increfs_done(node.ptr, node.cookie)),
                Some(Return::Acquire(node)) => drop(self.out.acquire_done(node.ptr, node.cookie)),
                Some(Return::Noop | Return::Release(_) | Return::Decrefs(_)) => (),
                Some(other) => return Ok(other),
            }
        }
    }

    fn exchange(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 512];
        let io = self.process.device.write_read(self.out.as_bytes(), &mut buffer)?;
        ensure!(
            io.write_consumed as usize == self.out.len(),
            "the driver stopped in the middle of the commands"
        );
        self.out.clear();
        for item in Returns::new(&buffer[..io.read_consumed as usize]) {
            self.news.push_back(item?);
        }
        Ok(())
    }

    /// Calls, and waits for the reply.
    fn call(&mut self, handle: u32, code: u32, parcel: &Parcel) -> anyhow::Result<End> {
        self.out.transaction(&parcel.to_handle(handle, code, TransactionFlags::empty()));
        loop {
            match self.next()? {
                Return::TransactionComplete => (),
                Return::Reply(reply) => return Ok(End::Answered(reply)),
                Return::FailedReply => return Ok(End::Refused),
                Return::DeadReply if self.tolerates_death => return Ok(End::Dead),
                other => bail!("{other:?} in place of a reply"),
            }
        }
    }

    /// Makes a oneway call, and waits until it is accepted or not; nothing if the other one is dead.
    fn call_oneway(&mut self, handle: u32, parcel: &Parcel) -> anyhow::Result<Option<bool>> {
        self.out.transaction(&parcel.to_handle(handle, 0, TransactionFlags::ONE_WAY));
        match self.next()? {
            Return::TransactionComplete | Return::OnewaySpamSuspect => Ok(Some(true)),
            Return::FailedReply => Ok(Some(false)),
            Return::DeadReply if self.tolerates_death => Ok(None),
            other => bail!("{other:?} in place of the completion of a oneway call"),
        }
    }

    fn bytes(&self, message: &BinderTransactionData) -> Vec<u8> {
        self.process.space.read(message.buffer, message.data_size as usize)
    }

    /// The handle in a message, if it has one.
    fn object(&self, message: &BinderTransactionData) -> anyhow::Result<Option<u32>> {
        if message.offsets_size == 0 {
            return Ok(None);
        }
        let bytes = self.bytes(message);
        let Ok(object) = FlatBinderObject::read_from_bytes(&bytes) else { bail!("an object is cut short") };
        ensure!(object.kind == ObjectType::HANDLE, "{object:x?} is not a handle");
        Ok(Some(object.handle()))
    }

    /// Answers with a parcel. The completion comes among other returns: the pool may be asked for one more
    /// thread before it.
    fn reply(&mut self, call: &BinderTransactionData, parcel: &Parcel) -> anyhow::Result<()> {
        self.out.free_buffer(call.buffer).reply(&parcel.to_caller(TransactionFlags::empty()));
        self.has_replied = true;
        self.exchange()
    }

    /// The next return of a thread that serves, other than the completion of its last reply.
    fn next_to_serve(&mut self) -> anyhow::Result<Return> {
        loop {
            match self.next()? {
                Return::TransactionComplete if self.has_replied => self.has_replied = false,
                // Whoever called is dead.
                Return::DeadReply | Return::FailedReply if self.has_replied && self.tolerates_death => {
                    self.has_replied = false;
                }
                Return::Transaction(_) if self.has_replied => {
                    bail!("a call before the completion of a reply")
                }
                other => return Ok(other),
            }
        }
    }
}

/// Is the context manager, and tells processes of each other, for ever.
pub fn manage(path: &Path, tolerates_death: bool, ready: impl FnOnce()) {
    let mut talk = Talk::open(path, tolerates_death).expect("open the device");
    talk.process.device.set_context_manager().expect("become context manager");
    talk.out.enter_looper();
    ready();
    let mut known = BTreeMap::new();
    loop {
        if let Err(why) = introduce(&mut talk, &mut known) {
            eprintln!("the manager of the mesh fails: {why:#}");
            std::process::exit(1);
        }
    }
}

fn introduce(talk: &mut Talk, known: &mut BTreeMap<u32, u32>) -> anyhow::Result<()> {
    let Return::Transaction(call) = talk.next_to_serve()? else { return Ok(()) };
    let mut parcel = Parcel::new();
    if call.code & PUBLISH != 0 {
        let Some(handle) = talk.object(&call)? else { bail!("a process without an object") };
        talk.out.acquire(handle);
        if let Some(of_the_dead) = known.insert(call.code ^ PUBLISH, handle) {
            talk.out.release(of_the_dead);
        }
    } else if let Some(handle) = known.get(&(call.code ^ FIND)) {
        parcel.object(&FlatBinderObject::strong_handle(*handle));
    }
    talk.reply(&call, &parcel)
}

/// What one process of the mesh is there for.
pub struct Role<'a> {
    pub index: u32,
    pub args: &'a MeshArgs,
    pub device: &'a Path,
    pub tally: &'a Tally,
}

impl Role<'_> {
    /// Serves and calls until the process is killed.
    pub fn play(&self) -> anyhow::Result<()> {
        let mut talk = Talk::open(self.device, self.args.endless)?;
        talk.process.device.set_max_threads(self.index % 4)?;
        let process = talk.process.clone();
        let peers = self.meet(&mut talk)?;
        self.tally.ready.add(1);
        std::thread::scope(|scope| {
            scope.spawn(|| self.insist(self.serve(&process, false)));
            for caller in 0..self.args.callers {
                let (process, peers) = (&process, &peers);
                scope.spawn(move || self.insist(self.call_for_some_time(process, peers, caller)));
            }
        });
        Ok(())
    }

    /// The process does not outlive the failure of one of its threads.
    fn insist(&self, result: anyhow::Result<()>) {
        if let Err(why) = result {
            eprintln!("process {} of the mesh fails: {why:#}", self.index);
            std::process::exit(1);
        }
    }

    /// Makes the process known, and gets handles on all others.
    fn meet(&self, talk: &mut Talk) -> anyhow::Result<Vec<u32>> {
        let mut parcel = Parcel::new();
        parcel.object(&FlatBinderObject::binder(0x1000, 0x2000));
        let End::Answered(reply) = talk.call(0, PUBLISH | self.index, &parcel)? else {
            bail!("not published")
        };
        talk.out.free_buffer(reply.buffer);
        let mut handles = Vec::new();
        for other in (0..self.args.processes).filter(|other| *other != self.index) {
            handles.push(self.find(talk, other)?);
        }
        Ok(handles)
    }

    fn find(&self, talk: &mut Talk, other: u32) -> anyhow::Result<u32> {
        loop {
            let End::Answered(reply) = talk.call(0, FIND | other, &Parcel::new())? else {
                bail!("not found")
            };
            let found = talk.object(&reply)?;
            if let Some(handle) = found {
                talk.out.acquire(handle);
            }
            talk.out.free_buffer(reply.buffer);
            match found {
                Some(handle) => return Ok(handle),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// A handle on the process that came in the place of a dead one. The old handle stays: other threads may be
    /// about to use it.
    fn find_successor(&self, talk: &mut Talk, other: u32, old: u32) -> anyhow::Result<u32> {
        loop {
            let found = self.find(talk, other)?;
            if found != old {
                return Ok(found);
            }
            talk.out.release(found);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn serve(&self, process: &Arc<Opened>, was_asked_for: bool) -> anyhow::Result<()> {
        let mut talk = Talk::on(process, self.args.endless);
        if was_asked_for {
            talk.out.register_looper();
        } else {
            talk.out.enter_looper();
        }
        std::thread::scope(|scope| loop {
            match talk.next_to_serve()? {
                Return::SpawnLooper => drop(scope.spawn(|| self.insist(self.serve(process, true)))),
                Return::Transaction(call) => {
                    let message = talk.bytes(&call);
                    ensure!(is_whole(&message), "a message has wrong bytes");
                    if call.flags & TransactionFlags::ONE_WAY.bits() != 0 {
                        self.tally.delivered.add(1);
                        talk.out.free_buffer(call.buffer);
                    } else {
                        let mut parcel = Parcel::new();
                        parcel.bytes(&message[message.len() - SUM..]);
                        talk.reply(&call, &parcel)?;
                    }
                }
                other => bail!("{other:?} in place of a call"),
            }
        })
    }

    fn call_for_some_time(&self, process: &Arc<Opened>, peers: &[u32], caller: u32) -> anyhow::Result<()> {
        let mut talk = Talk::on(process, self.args.endless);
        let seed = self.args.seed << 32 | u64::from(self.index) << 16 | u64::from(caller);
        let mut random = SmallRng::seed_from_u64(seed);
        while self.tally.go.get() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut peers = peers.to_vec();
        let mut next = Instant::now();
        while self.tally.stop.get() == 0 {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next += Duration::from_micros(self.args.pace);
            let at = match self.args.pairs {
                // The list leaves out this process.
                true => (self.index & !1) as usize,
                false => random.random_range(0..peers.len()),
            };
            let parcel = message(&mut random, self.args.largest);
            let is_oneway = random.random_range(0..100) < self.args.oneway;
            if !self.call(&mut talk, peers[at], &parcel, is_oneway)? {
                let other = at as u32 + u32::from(at as u32 >= self.index);
                peers[at] = self.find_successor(&mut talk, other, peers[at])?;
            }
        }
        self.tally.finished.add(1);
        Ok(())
    }

    /// Makes a call and counts it. Whether the other one lives.
    fn call(&self, talk: &mut Talk, peer: u32, parcel: &Parcel, is_oneway: bool) -> anyhow::Result<bool> {
        if is_oneway {
            match talk.call_oneway(peer, parcel)? {
                None => return Ok(false),
                Some(true) => self.tally.accepted.add(1),
                Some(false) => self.tally.oneway_refused.add(1),
            }
            return Ok(true);
        }
        let start = Instant::now();
        match talk.call(peer, 0, parcel)? {
            End::Dead => return Ok(false),
            End::Refused => self.tally.sync_refused.add(1),
            End::Answered(reply) => {
                self.tally.answered_after(start.elapsed());
                let sum = talk.bytes(&reply);
                ensure!(sum[..] == parcel.data[parcel.data.len() - SUM..], "a reply is that of another call");
                talk.out.free_buffer(reply.buffer);
            }
        }
        Ok(true)
    }
}

/// Random bytes with their sum behind them.
fn message(random: &mut SmallRng, largest: usize) -> Parcel {
    let length = random.random_range(1..=largest.max(1)).next_multiple_of(4);
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    let mut parcel = Parcel::new();
    parcel.bytes(&bytes).bytes(&sum(&bytes));
    parcel
}

fn is_whole(message: &[u8]) -> bool {
    message.split_at_checked(message.len().wrapping_sub(SUM)).is_some_and(|(bytes, end)| sum(bytes) == end)
}

fn sum(bytes: &[u8]) -> [u8; SUM] {
    let add = |sum: u32, byte: &u8| sum.rotate_left(5).wrapping_add(u32::from(*byte));
    bytes.iter().fold(1, add).to_ne_bytes()
}
