// SPDX-License-Identifier: GPL-2.0
//! A thread that calls and serves, and checks every byte that it gets.
//!
//! A message is a header, random bytes, and the sum of both; some have an object behind that. The
//! answer to a call follows from the sum, and its length from the code, so each side can check it.
//! The server calls a call's object before it answers; the caller calls the answer's object.
//!
//! Some calls bring the end of a pipe, in an array of descriptors. The server writes into it, and
//! the driver closes it with the buffer. The caller checks that nothing has kept it.

use super::shared::{Link, Record, Shared};
use anyhow::{anyhow, bail, ensure, Context};
use binder_sys::*;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{poll, PollFd, PollFlags};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bits of a code; those below are the length of the answer.
const WITH_OBJECT: u32 = 1 << 31;
const WITH_FILE: u32 = 1 << 30;
const RELAY: u32 = 1 << 29;
/// To the manager: this call brings the sender's object.
pub const PUBLISH: u32 = 1 << 28;
/// To the manager: the answer shall have the object of the process in the slot in the code's rest.
pub const FIND: u32 = 1 << 27;
const LENGTH: u32 = (1 << 24) - 1;

/// Bytes of the sum at the end of a message, and of the shortest answer.
pub const SUM: usize = 8;

/// The node of a process that others find; nodes that come with calls have higher pointers.
pub const NODE: u64 = 0x1000;
/// A node's cookie is its pointer with these bits changed, except the context manager's.
const COOKIE: u64 = 0x5555;

/// The offset of a file's descriptor in its block.
const FILE_AT: u64 = 4;

/// Objects that a process holds at a time until their owners die.
const MOST_KEPT: usize = 64;

/// Cookies of death links to objects that came with calls: a number, and the handle in the lower
/// half. Links to processes have the process's id as cookie, without a number.
const NUMBER: u64 = 1 << 32;

/// The start of every message.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// The sender: a process and a thread of it.
    id: u32,
    thread: u32,
    /// Of a oneway call: how many the thread has sent to this process before.
    number: u64,
}

/// The node that a process makes known to others.
pub fn main_node() -> FlatBinderObject {
    FlatBinderObject::binder(NODE, NODE ^ COOKIE).with_flags(ObjectFlags::ACCEPTS_FDS)
}

fn sum(bytes: &[u8]) -> u64 {
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

/// Returns whether the last bytes of a message are the sum of the others.
fn is_whole(message: &[u8]) -> bool {
    let parts = message.split_at_checked(message.len().wrapping_sub(SUM));
    parts.is_some_and(|(bytes, end)| sum(bytes).to_ne_bytes() == end)
}

/// The answer to a message: its sum, or as many bytes as were asked for that follow from it.
fn answer(message: &[u8], length: usize) -> Vec<u8> {
    let sum: [u8; SUM] = message[message.len() - SUM..].try_into().expect("as many bytes");
    let mut bytes = sum.to_vec();
    bytes.resize(length, 0);
    SmallRng::seed_from_u64(u64::from_ne_bytes(sum)).fill_bytes(bytes.get_mut(SUM..).unwrap_or_default());
    bytes
}

/// Another process's object, held strongly.
pub struct Remote {
    process: Arc<Process>,
    pub id: u32,
    pub handle: u32,
}

impl Drop for Remote {
    fn drop(&mut self) {
        let mut out = Commands::new();
        self.process.write(out.release(self.handle)).expect("release a handle");
    }
}

/// An object that came with a call and is held until its owner dies.
struct Kept {
    owner: u32,
    is_told: bool,
    is_clearing: bool,
}

/// An opened device, and what all threads of a process share.
pub struct Process {
    pub device: Device,
    space: Mapping,
    pub id: u32,
    shared: &'static Shared,
    next_node: AtomicU64,
    next_link: AtomicU64,
    kept: Mutex<BTreeMap<u64, Kept>>,
    /// Other processes, by their slots.
    known: Mutex<BTreeMap<u64, Arc<Remote>>>,
    /// Those that died, by their ids, until freeze notifications of them have ended.
    leaving: Mutex<BTreeMap<u32, Arc<Remote>>>,
    /// The numbers of the next oneway calls, by their senders.
    numbers: Mutex<HashMap<(u32, u32), u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics")
}

impl Process {
    pub fn open(path: &Path, space: usize, id: u32, shared: &'static Shared) -> nix::Result<Arc<Self>> {
        let device = Device::open(path)?;
        let space = device.map(space)?;
        Ok(Arc::new(Self {
            device,
            space,
            id,
            shared,
            next_node: AtomicU64::new(NODE),
            next_link: AtomicU64::new(1),
            kept: Mutex::default(),
            known: Mutex::default(),
            leaving: Mutex::default(),
            numbers: Mutex::default(),
        }))
    }

    /// Writes commands that make nothing to wait for.
    fn write(&self, out: &Commands) -> anyhow::Result<()> {
        let written = self.device.write_all(out.as_bytes())?;
        ensure!(written as usize == out.len(), "the driver stopped in the middle of the commands");
        Ok(())
    }

    /// The notifications of this process about the process in a slot.
    fn link(&self, slot: u64) -> &'static Link {
        &self.shared.links(self.shared.record(self.id).slot.get())[slot as usize]
    }

    /// The process in a slot, if this one has a handle for it.
    pub fn peer(&self, slot: u64) -> Option<Arc<Remote>> {
        lock(&self.known).get(&slot).cloned()
    }

    /// Records the objects that it has of others, and whether others have any of its own.
    pub fn take_stock(&self) -> nix::Result<()> {
        let own = self.shared.record(self.id);
        own.kept.set(lock(&self.kept).len() as u64);
        own.is_held.set(u64::from(self.device.node_debug_info(NODE)?.ptr != 0));
        Ok(())
    }

    /// A node that no call had before.
    fn new_object(&self) -> FlatBinderObject {
        let ptr = self.next_node.fetch_add(16, SeqCst) + 16;
        FlatBinderObject::binder(ptr, ptr ^ COOKIE)
    }

    fn bytes(&self, message: &BinderTransactionData) -> Vec<u8> {
        self.space.read(message.buffer, message.data_size as usize)
    }

    /// The offset of the first object in a message.
    fn offset(&self, message: &BinderTransactionData) -> Option<usize> {
        let first =
            || u64::from_ne_bytes(self.space.read(message.offsets, 8).try_into().expect("eight bytes"));
        (message.offsets_size != 0).then(|| first() as usize)
    }

    /// A message without its objects, and the handle in it, if there is one.
    pub fn contents(&self, message: &BinderTransactionData) -> anyhow::Result<(Vec<u8>, Option<u32>)> {
        let mut bytes = self.bytes(message);
        let Some(offset) = self.offset(message) else { return Ok((bytes, None)) };
        let rest = bytes.split_off(offset);
        let (object, _) =
            FlatBinderObject::read_from_prefix(&rest).map_err(|_| anyhow!("an object is cut short"))?;
        if object.kind == ObjectType::PTR {
            return Ok((bytes, None));
        }
        ensure!(object.kind == ObjectType::HANDLE, "{object:x?} is not a handle");
        Ok((bytes, Some(object.handle())))
    }
}

/// A thread at work.
pub struct Worker {
    pub process: Arc<Process>,
    /// Its number among the callers of its process.
    thread: u32,
    pub out: Commands,
    /// Returns not yet looked at.
    queue: VecDeque<Return>,
    /// Answers whose completion has not been read.
    replies: usize,
}

impl Worker {
    pub fn new(process: &Arc<Process>, thread: u32) -> Self {
        let (process, out, queue) = (process.clone(), Commands::new(), VecDeque::new());
        Self { process, thread, out, queue, replies: 0 }
    }

    /// Writes and reads. A transaction ends the commands that are written: one that fails stops those behind it.
    fn exchange(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 512];
        let length = self.process.device.write_read_whole(self.out.as_bytes(), &mut buffer)?;
        self.out.clear();
        for item in Returns::new(&buffer[..length]) {
            self.queue.push_back(item?);
        }
        Ok(())
    }

    /// Writes commands that make nothing to wait for.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.process.write(&std::mem::take(&mut self.out))
    }

    /// The next return that is not about counts, links or threads.
    fn next(&mut self) -> anyhow::Result<Return> {
        loop {
            match self.queue.pop_front() {
                None => self.exchange()?,
                Some(Return::Noop | Return::Release(_) | Return::Decrefs(_)) => (),
                Some(Return::Increfs(node)) => drop(self.out.increfs_done(node.ptr, node.cookie)),
                Some(Return::Acquire(node)) => drop(self.out.acquire_done(node.ptr, node.cookie)),
                Some(Return::TransactionComplete) if self.replies > 0 => self.replies -= 1,
                Some(Return::SpawnLooper) => self.spawn(),
                Some(Return::DeadBinder(cookie)) if cookie < NUMBER => self.process_died(cookie as u32)?,
                Some(Return::DeadBinder(cookie)) => self.object_died(cookie)?,
                Some(Return::ClearDeathNotificationDone(cookie)) => self.link_ended(cookie)?,
                Some(Return::FrozenBinder(state)) => self.process_froze(&state)?,
                Some(Return::ClearFreezeNotificationDone(cookie)) => {
                    let left = lock(&self.process.leaving).remove(&(cookie as u32));
                    ensure!(left.is_some(), "the end of freeze notifications of {cookie} comes twice");
                }
                Some(other) => return Ok(other),
            }
        }
    }

    fn spawn(&self) {
        let process = self.process.clone();
        std::thread::spawn(move || {
            let mut worker = Worker::new(&process, 0);
            worker.out.register_looper();
            worker.serve_for_ever();
        });
    }

    /// Enters the loop, and serves until the process is killed.
    pub fn enter_and_serve(&mut self) -> ! {
        self.out.enter_looper();
        self.serve_for_ever()
    }

    /// Serves until the process is killed.
    fn serve_for_ever(&mut self) -> ! {
        loop {
            let served = match self.next() {
                Ok(Return::Transaction(call)) => self.serve(&call),
                Ok(other) => Err(anyhow!("{other:?} in place of a call")),
                Err(why) => Err(why),
            };
            insist(served.with_context(|| format!("a thread of process {} that serves", self.process.id)));
        }
    }

    /// Calls a process by one of its handles, and serves what comes to this thread until the
    /// answer. Returns the answer, unless the process is dead or frozen, or the call is refused.
    pub fn call(
        &mut self,
        (handle, id): (u32, u32),
        code: u32,
        parcel: &Parcel,
        block: u64,
    ) -> anyhow::Result<Option<BinderTransactionData>> {
        let (record, totals) = (self.process.shared.record(id), self.process.shared.totals);
        let (could_refuse, tried) = (record.may_refuse.get() != 0, record.freezes_tried.get());
        let data = parcel.to_handle(handle, code, TransactionFlags::empty());
        match block {
            0 => self.out.transaction(&data),
            size => self.out.transaction_sg(&BinderTransactionDataSg { data, buffers_size: size }),
        };
        self.exchange()?;
        loop {
            match self.next()? {
                Return::TransactionComplete => (),
                Return::Transaction(call) => self.serve(&call)?,
                Return::Reply(reply) => return Ok(Some(reply)),
                Return::DeadReply => {
                    ensure!(is_dead(record), "a call of process {id} ends as if it were dead, and it lives");
                    totals.ended_by_death.add();
                    return Ok(None);
                }
                Return::FrozenReply => {
                    let may_refuse = could_refuse || record.may_refuse.get() != 0;
                    let may_refuse = may_refuse || record.freezes_tried.get() != tried;
                    ensure!(may_refuse, "a call of process {id} is refused as if it were frozen");
                    totals.ended_by_freezing.add();
                    return Ok(None);
                }
                Return::FailedReply => {
                    totals.sync_refused.add();
                    return Ok(None);
                }
                other => bail!("{other:?} in place of a reply"),
            }
        }
    }

    /// Makes a oneway call. Returns whether the driver takes it.
    pub fn call_oneway(&mut self, to: &Remote, parcel: &Parcel) -> anyhow::Result<bool> {
        let (record, totals) = (self.process.shared.record(to.id), self.process.shared.totals);
        record.tried.add();
        self.out.transaction(&parcel.to_handle(to.handle, 0, TransactionFlags::ONE_WAY));
        self.exchange()?;
        match self.next()? {
            Return::TransactionComplete => (),
            Return::TransactionPendingFrozen => totals.oneway_queued.add(),
            Return::DeadReply => {
                ensure!(is_dead(record), "a oneway call of process {} ends as if it were dead", to.id);
                return Ok(false);
            }
            Return::FailedReply => {
                let error = self.process.device.extended_error()?;
                ensure!(error.param == -(Errno::ENOSPC as i32), "a oneway call is refused: {error:?}");
                record.refused.add();
                totals.oneway_refused.add();
                return Ok(false);
            }
            other => bail!("{other:?} in place of the completion of a oneway call"),
        }
        record.accepted.add();
        totals.accepted.add();
        Ok(true)
    }

    /// A message of up to so many random bytes, with a number in its header.
    pub fn message(&self, random: &mut SmallRng, largest: usize, number: u64) -> Parcel {
        let length = random.random_range(0..=largest).next_multiple_of(4);
        let header = Header { id: self.process.id, thread: self.thread, number };
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(bytes.len() + length, 0);
        random.fill_bytes(&mut bytes[size_of::<Header>()..]);
        let sum = sum(&bytes).to_ne_bytes();
        let mut parcel = Parcel::new();
        parcel.bytes(&bytes).bytes(&sum);
        parcel
    }

    fn serve(&mut self, call: &BinderTransactionData) -> anyhow::Result<()> {
        let cookie = if call.target == 0 { 0 } else { call.target ^ COOKIE };
        ensure!(call.cookie == cookie, "a call of node {:x} with cookie {:x}", call.target, call.cookie);
        let (message, object) = self.process.contents(call)?;
        ensure!(is_whole(&message), "a message has wrong bytes");
        let (header, _) = Header::read_from_prefix(&message).expect("a whole message has one");
        self.check_sender(call, &header)?;
        if call.flags & TransactionFlags::ONE_WAY.bits() != 0 {
            self.deliver(&header)?;
            self.out.free_buffer(call.buffer);
            return Ok(());
        }
        let mut parcel = Parcel::new();
        // An object that the answer passes on must live until the answer is sent.
        let mut found = None;
        match object {
            Some(handle) if call.code & PUBLISH != 0 => {
                let is_held = self.hold(header.id, handle)?;
                parcel.bytes(&u64::from(is_held).to_ne_bytes());
            }
            None if call.code & FIND != 0 => {
                found = self.process.peer(u64::from(call.code ^ FIND));
                if let Some(remote) = &found {
                    parcel.bytes(&u64::from(remote.id).to_ne_bytes());
                    parcel.object(&FlatBinderObject::strong_handle(remote.handle));
                }
            }
            Some(handle) => self.call_back(handle, header.id)?,
            None if call.code & WITH_FILE != 0 => self.write_to_file(call, &message)?,
            None if call.code & RELAY != 0 => self.relay(header.number)?,
            None => (),
        }
        if call.code & (PUBLISH | FIND) == 0 {
            parcel.bytes(&answer(&message, (call.code & LENGTH) as usize));
        }
        if call.code & WITH_OBJECT != 0 {
            parcel.object(&self.process.new_object());
        }
        self.out.free_buffer(call.buffer).reply(&parcel.to_caller(TransactionFlags::empty()));
        self.replies += 1;
        self.exchange()?;
        drop(found);
        Ok(())
    }

    /// Checks the sender of a call, if it has a record. A sender that has died has no pid.
    fn check_sender(&self, call: &BinderTransactionData, header: &Header) -> anyhow::Result<()> {
        if header.id == 0 {
            return Ok(());
        }
        let record = self.process.shared.record(header.id);
        let user = super::peer::user(record.slot.get());
        ensure!(call.sender_euid == user, "process {} calls as user {}", header.id, call.sender_euid);
        let pid = u64::from(call.sender_pid as u32);
        let is_known = pid == record.pid.get() || pid == 0;
        ensure!(is_known, "process {} calls as process {pid} of the system", header.id);
        Ok(())
    }

    /// Counts a oneway call, whose number must be the next of its sender.
    fn deliver(&self, header: &Header) -> anyhow::Result<()> {
        let shared = self.process.shared;
        let mut numbers = lock(&self.process.numbers);
        let next = numbers.entry((header.id, header.thread)).or_default();
        ensure!(
            header.number == *next,
            "oneway call {} of process {} comes to process {} after {next} others: one is lost, comes twice or out of order",
            header.number,
            header.id,
            self.process.id
        );
        *next += 1;
        shared.record(self.process.id).delivered.add();
        shared.totals.delivered.add();
        Ok(())
    }

    /// Links to the object that came with a call, and calls it.
    fn call_back(&mut self, handle: u32, owner: u32) -> anyhow::Result<()> {
        self.link(handle, owner);
        let seed = self.process.next_link.fetch_add(1, SeqCst);
        let parcel = self.message(&mut SmallRng::seed_from_u64(seed), 64, 0);
        self.call_checked((handle, owner), 0, &parcel, 32)?;
        self.process.shared.totals.called_back.add();
        Ok(())
    }

    /// Calls a process with a higher slot before it answers, so that no circle of calls arises.
    fn relay(&mut self, number: u64) -> anyhow::Result<()> {
        let shared = self.process.shared;
        let slot = shared.record(self.process.id).slot.get();
        let higher: Vec<_> =
            lock(&self.process.known).range(slot + 1..).map(|(_, remote)| remote.clone()).collect();
        let Some(to) = higher.get(number as usize % higher.len().max(1)) else { return Ok(()) };
        let parcel = self.message(&mut SmallRng::seed_from_u64(number), 64, 0);
        self.call_checked((to.handle, to.id), 0, &parcel, 16)?;
        shared.totals.relayed.add();
        Ok(())
    }

    /// Writes the sum of a message into the file that came with it.
    fn write_to_file(&self, call: &BinderTransactionData, message: &[u8]) -> anyhow::Result<()> {
        let bytes = self.process.bytes(call);
        let at = self.process.offset(call).context("no file")?;
        let (block, _) = BinderBufferObject::read_from_prefix(&bytes[at..]).expect("a whole object");
        let number = self.process.space.read(block.buffer + FILE_AT, 4);
        let number = i32::from_ne_bytes(number.try_into().expect("four bytes"));
        // SAFETY: the driver installed the descriptor for this process, and closes it with the
        // buffer, which `serve` frees after this function has returned.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        match nix::unistd::write(file, &answer(message, SUM)) {
            // The sender was killed.
            Err(Errno::EPIPE) => Ok(()),
            written => {
                ensure!(written? == SUM, "the pipe is full");
                Ok(())
            }
        }
    }

    /// Makes a call that brings the end of a pipe. Returns whether it was answered.
    fn call_with_file(&mut self, to: (u32, u32), mut parcel: Parcel) -> anyhow::Result<bool> {
        let (ours, theirs) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let mut block = [0; 16];
        block[FILE_AT as usize..][..4].copy_from_slice(&theirs.as_raw_fd().to_ne_bytes());
        let sum = answer(&parcel.data, SUM);
        parcel.object(&crate::sg::pointer_object(block.as_ptr() as u64, block.len() as u64));
        let array = BinderFdArrayObject { num_fds: 1, parent_offset: FILE_AT, ..Default::default() };
        parcel.object(&BinderFdArrayObject { kind: ObjectType::FDA, ..array });
        let end = self.call(to, WITH_FILE, &parcel, block.len() as u64)?;
        drop(theirs);
        let mut fds = [PollFd::new(ours.as_fd(), PollFlags::empty())];
        ensure!(poll(&mut fds, 20_000u16)? == 1, "a process has kept a file");
        let Some(reply) = end else { return Ok(false) };
        self.out.free_buffer(reply.buffer);
        let mut got = Vec::new();
        std::fs::File::from(ours).read_to_end(&mut got)?;
        ensure!(got == sum, "a file has wrong bytes");
        self.process.shared.totals.files.add();
        Ok(true)
    }

    /// A thread of its own clears a death link, calls a process, and exits without a read. The call
    /// is served, or the thread leaves the clear, a completion, and an answer or a refusal behind.
    fn leave(&self, (handle, _): (u32, u32), random: &mut SmallRng) -> anyhow::Result<()> {
        let mut leaver = Worker::new(&self.process, self.thread);
        let parcel = leaver.message(random, 64, 0);
        let stay = Duration::from_micros(random.random_range(0..200));
        let leave = move || -> anyhow::Result<()> {
            leaver.out.enter_looper().increfs(0).request_death(0, NUMBER).clear_death(0, NUMBER).decrefs(0);
            leaver.out.transaction(&parcel.to_handle(handle, SUM as u32, TransactionFlags::empty()));
            leaver.flush()?;
            std::thread::sleep(stay);
            leaver.process.device.thread_exit().context("BINDER_THREAD_EXIT")
        };
        std::thread::scope(|scope| scope.spawn(leave).join().expect("no panic"))?;
        self.process.shared.totals.left.add();
        Ok(())
    }

    /// Calls a process in one of several ways, and checks the answer. Returns whether one came.
    pub fn varied_call(
        &mut self,
        to: (u32, u32),
        random: &mut SmallRng,
        largest: usize,
    ) -> anyhow::Result<bool> {
        let mut parcel = self.message(random, largest, random.clone().next_u64());
        let mut code = 0;
        match random.random_range(0..9) {
            0 => return self.call_with_file(to, parcel),
            // It is followed by an ordinary call.
            8 => self.leave(to, random)?,
            1 | 2 => drop(parcel.object(&self.process.new_object())),
            3 | 4 => code = WITH_OBJECT,
            5 => code = RELAY,
            _ => (),
        }
        self.change_mind(random);
        self.call_checked(to, code, &parcel, random.random_range(0..=largest))
    }

    /// Calls a process, and checks the answer of so many bytes. Returns whether there was one.
    pub fn call_checked(
        &mut self,
        to: (u32, u32),
        code: u32,
        parcel: &Parcel,
        wanted: usize,
    ) -> anyhow::Result<bool> {
        let Some(reply) = self.call(to, code | wanted as u32, parcel, 0)? else { return Ok(false) };
        let (got, object) = self.process.contents(&reply)?;
        let message =
            &parcel.data[..parcel.offsets.first().map_or(parcel.data.len(), |offset| *offset as usize)];
        ensure!(got.len() >= wanted, "{} bytes of {wanted}", got.len());
        ensure!(got[..wanted] == answer(message, wanted), "an answer is wrong, or that of another call");
        ensure!(object.is_some() == (code & WITH_OBJECT != 0), "an answer has an object, or lacks one");
        if let Some(handle) = object {
            let parcel = self.message(&mut SmallRng::seed_from_u64(wanted as u64), 16, 0);
            self.call_checked((handle, to.1), 0, &parcel, 16)?;
        }
        self.out.free_buffer(reply.buffer);
        Ok(true)
    }

    /// Requests or clears the context manager's death, or takes or gives up a weak reference.
    fn change_mind(&mut self, random: &mut SmallRng) {
        let cookie = random.random_range(1..=3u64) * NUMBER;
        match random.random_range(0..24) {
            0 | 1 => self.out.increfs(0).request_death(0, cookie),
            2 => self.out.clear_death(0, cookie),
            3 => self.out.decrefs(0),
            _ => return,
        };
    }

    /// Links to the death of an object that came in a buffer, in one of several ways.
    fn link(&mut self, handle: u32, owner: u32) {
        let number = self.process.next_link.fetch_add(1, SeqCst);
        let cookie = (number * NUMBER) | u64::from(handle);
        match number % 8 {
            // The link goes with the handle, when the buffer is freed.
            0 => self.out.request_death(handle, cookie),
            1 => self.out.request_death(handle, cookie).clear_death(handle, cookie),
            2 | 3 => {
                let mut kept = lock(&self.process.kept);
                if kept.len() >= MOST_KEPT {
                    let Some((cookie, kept)) = kept.iter_mut().find(|(_, kept)| !kept.is_clearing) else {
                        return;
                    };
                    kept.is_clearing = true;
                    self.out.clear_death(*cookie as u32, *cookie)
                } else {
                    kept.insert(cookie, Kept { owner, is_told: false, is_clearing: false });
                    self.out.acquire(handle).request_death(handle, cookie)
                }
            }
            _ => return,
        };
    }

    /// An object is dead: the link is withdrawn, or goes with its handle.
    fn object_died(&mut self, cookie: u64) -> anyhow::Result<()> {
        let mut all = lock(&self.process.kept);
        let Some(kept) = all.get_mut(&cookie) else {
            self.out.dead_binder_done(cookie);
            return Ok(());
        };
        ensure!(!kept.is_told, "the death {cookie:#x} is returned twice");
        ensure!(
            is_dead(self.process.shared.record(kept.owner)),
            "an object of process {} is reported dead, and it lives",
            kept.owner
        );
        kept.is_told = true;
        if kept.is_clearing {
            self.out.dead_binder_done(cookie);
        } else if cookie / NUMBER % 2 == 0 {
            all.remove(&cookie);
            self.out.dead_binder_done(cookie).release(cookie as u32);
        } else {
            kept.is_clearing = true;
            self.out.clear_death(cookie as u32, cookie).dead_binder_done(cookie);
        }
        Ok(())
    }

    fn link_ended(&mut self, cookie: u64) -> anyhow::Result<()> {
        if let Some(kept) = lock(&self.process.kept).remove(&cookie) {
            ensure!(kept.is_clearing, "link {cookie:#x} is cleared without a request");
            self.out.release(cookie as u32);
        }
        Ok(())
    }

    /// Holds the object of a process that came in a buffer, and links to its death and its
    /// freezing, unless the slot's former process is not yet known to be dead.
    pub fn hold(&self, id: u32, handle: u32) -> anyhow::Result<bool> {
        let shared = self.process.shared;
        let (record, process) = (shared.record(id), self.process.clone());
        let slot = record.slot.get();
        let mut known = lock(&self.process.known);
        if is_dead(record) || known.contains_key(&slot) {
            return Ok(false);
        }
        let mut out = Commands::new();
        out.acquire(handle).request_death(handle, id.into()).request_freeze(handle, id.into());
        let link = self.process.link(slot);
        for count in [&link.deaths, &link.freezes, &link.thaws, &link.is_frozen] {
            count.set(0);
        }
        link.id.set(id.into());
        process.write(&out)?;
        known.insert(slot, Arc::new(Remote { process, id, handle }));
        Ok(true)
    }

    /// After a process's death, clears the link to its freezing before the handle goes, because
    /// another thread may be about to confirm a notification.
    fn process_died(&mut self, id: u32) -> anyhow::Result<()> {
        let shared = self.process.shared;
        let record = shared.record(id);
        ensure!(is_dead(record), "process {id} is reported dead, and it lives");
        let slot = record.slot.get();
        let mut known = lock(&self.process.known);
        ensure!(
            known.get(&slot).is_some_and(|remote| remote.id == id),
            "the death of process {id} is returned twice"
        );
        let remote = known.remove(&slot).expect("it is known");
        self.out.dead_binder_done(id.into()).clear_freeze(remote.handle, id.into());
        lock(&self.process.leaving).insert(id, remote);
        self.process.link(slot).deaths.add();
        shared.totals.deaths_told.add();
        Ok(())
    }

    fn process_froze(&mut self, state: &BinderFrozenStateInfo) -> anyhow::Result<()> {
        let shared = self.process.shared;
        let link = self.process.link(shared.record(state.cookie as u32).slot.get());
        if link.id.get() == state.cookie {
            let counts = if state.is_frozen != 0 {
                (&link.freezes, &shared.totals.freezes_told)
            } else {
                (&link.thaws, &shared.totals.thaws_told)
            };
            counts.0.add();
            counts.1.add();
            link.is_frozen.set(state.is_frozen.into());
        }
        // The next notification comes after this is confirmed.
        self.out.freeze_done(state.cookie);
        Ok(())
    }
}

fn is_dead(record: &Record) -> bool {
    record.is_dead.get() != 0
}

/// A process does not outlive the failure of one of its threads.
pub fn insist(result: anyhow::Result<()>) {
    if let Err(why) = result {
        eprintln!("the load fails: {why:#}");
        std::process::exit(1);
    }
}
