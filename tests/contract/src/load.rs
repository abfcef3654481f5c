// SPDX-License-Identifier: GPL-2.0
//! Servers and clients that work at full speed and check every byte that they get.
//!
//! A question is random bytes; its code says how long the answer shall be. The answer is computed from
//! the question, so that each side knows what is right. Some questions bring an object along, which
//! the server calls back before it answers; some answers bring one, which the client then calls.
//!
//! Some bring the end of a pipe, in an array of descriptors: the server writes into it what it was
//! asked, and closes it with the buffer. The client sees that nobody has kept it.
//!
//! Both ask to be told of each other's death and change their minds. Some of the objects that the
//! server gets it keeps until it is told that they are dead; what it still waits for it says when it
//! is asked.

use anyhow::{bail, ensure};
use binder_sys::*;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{poll, PollFd, PollFlags};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

/// The space that each process maps.
const SPACE: usize = 2 << 20;

/// The code of a question about the server itself: how many nodes of its own are still known.
const CODE_NODES: u32 = 1 << 31;

/// In a code: the answer shall bring an object of the server's.
const WITH_OBJECT: u32 = 1 << 30;

/// In a code: the question brings a file, into which its first bytes are to be written.
const WITH_FILE: u32 = 1 << 29;

/// Where in its block the descriptor of such a question lies.
const FILE_AT: u64 = 4;

/// The pointer of the first node of a process; each call has its own.
static NEXT_NODE: AtomicU64 = AtomicU64::new(0x1000);

/// The number of the next death link.
static NEXT_LINK: AtomicU64 = AtomicU64::new(1);

/// The links of the nodes that this process keeps until they are dead, and whether it has been told.
static KEPT: Mutex<BTreeMap<u64, bool>> = Mutex::new(BTreeMap::new());

/// What a client process does.
pub struct Work {
    /// How many threads it does it with.
    pub threads: usize,
    /// How many calls each makes.
    pub calls: usize,
    /// The longest question and answer.
    pub largest: usize,
    /// What its random choices start from.
    pub seed: u64,
    /// Whether a server may die, and calls be lost by that.
    pub tolerate_death: bool,
}

/// The answer to a question: bytes that follow from its own.
fn answer(question: &[u8], length: usize) -> Vec<u8> {
    let seed = question.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut bytes = vec![0; length];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// How a call ended.
enum End {
    Answered(BinderTransactionData),
    Dead,
}

/// An opened device that all threads of a process use.
struct Process {
    device: Device,
    space: Mapping,
}

impl Process {
    fn open(path: &Path) -> nix::Result<Arc<Self>> {
        let device = Device::open(path)?;
        let space = device.map(SPACE)?;
        Ok(Arc::new(Self { device, space }))
    }
}

/// A thread at work.
struct Worker {
    process: Arc<Process>,
    out: Commands,
    /// What `out` points to.
    parcels: Vec<Parcel>,
    /// Returns not yet looked at.
    queue: std::collections::VecDeque<Return>,
}

impl Worker {
    fn new(process: &Arc<Process>) -> Self {
        Self {
            process: process.clone(),
            out: Commands::new(),
            parcels: Vec::new(),
            queue: Default::default(),
        }
    }

    fn fill(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 512];
        let io = self.process.device.write_read(self.out.as_bytes(), &mut buffer)?;
        if io.write_consumed as usize == self.out.len() {
            self.out.clear();
            self.parcels.clear();
        } else {
            let rest = self.out.as_bytes()[io.write_consumed as usize..].to_vec();
            self.out.clear();
            self.out.raw(&rest);
        }
        for item in Returns::new(&buffer[..io.read_consumed as usize]) {
            self.queue.push_back(item?);
        }
        Ok(())
    }

    /// Works until a call of its own has ended, or for ever.
    fn work(&mut self) -> anyhow::Result<End> {
        loop {
            let Some(item) = self.queue.pop_front() else {
                self.fill()?;
                continue;
            };
            match item {
                Return::Noop | Return::TransactionComplete | Return::Release(_) | Return::Decrefs(_) => (),
                Return::Increfs(node) => {
                    self.out.increfs_done(node.ptr, node.cookie);
                }
                Return::Acquire(node) => {
                    self.out.acquire_done(node.ptr, node.cookie);
                }
                Return::SpawnLooper => self.spawn(),
                Return::Transaction(call) => self.serve(&call)?,
                Return::Reply(reply) => return Ok(End::Answered(reply)),
                Return::DeadReply => return Ok(End::Dead),
                Return::DeadBinder(cookie) => self.told_dead(cookie)?,
                Return::ClearDeathNotificationDone(cookie) => self.told_clear_done(cookie)?,
                other => bail!("{other:?}, extended error {:?}", self.process.device.extended_error()),
            }
        }
    }

    fn spawn(&self) {
        let process = self.process.clone();
        std::thread::spawn(move || {
            let mut worker = Worker::new(&process);
            worker.out.register_looper();
            worker.work_for_ever();
        });
    }

    fn work_for_ever(&mut self) {
        loop {
            if let Err(why) = self.work() {
                eprintln!("a thread of the pool fails: {why}");
                std::process::exit(1);
            }
        }
    }

    fn serve(&mut self, call: &BinderTransactionData) -> anyhow::Result<()> {
        let question = self.process.space.read(call.buffer, call.data_size as usize);
        if call.code & WITH_FILE != 0 {
            self.write_to_file(call, &question[..8])?;
        } else if let Some(handle) = self.object(call)? {
            // The buffer holds the object, so this comes before it is freed. The owner may be dead.
            self.link(handle);
            let mut parcel = Parcel::new();
            parcel.bytes(&question[..question.len().min(64)]);
            if let End::Answered(reply) = self.call(handle, 32, parcel.clone())? {
                let got = self.process.space.read(reply.buffer, reply.data_size as usize);
                ensure!(got == answer(&parcel.data, 32), "a call back is answered wrongly");
                self.out.free_buffer(reply.buffer);
            }
        }
        let mut parcel = Parcel::new();
        if call.code == CODE_NODES {
            parcel.bytes(&self.process.device.node_debug_info(0)?.ptr.to_ne_bytes());
            let kept = KEPT.lock().expect("no panic").len() as u64;
            parcel.bytes(&kept.to_ne_bytes());
        } else {
            parcel.bytes(&answer(&question, (call.code & 0xff_ffff) as usize));
        }
        if call.code & WITH_OBJECT != 0 {
            let ptr = NEXT_NODE.fetch_add(16, Ordering::Relaxed);
            parcel.object(&FlatBinderObject::binder(ptr, ptr ^ 0x5555));
        }
        self.out.free_buffer(call.buffer).reply(&parcel.to_caller(TransactionFlags::empty()));
        self.parcels.push(parcel);
        Ok(())
    }

    /// Writes into the file that a question has brought.
    fn write_to_file(&self, call: &BinderTransactionData, bytes: &[u8]) -> anyhow::Result<()> {
        let space = &self.process.space;
        let offset = u64::from_ne_bytes(space.read(call.offsets, 8).as_slice().try_into()?);
        let block = space.read(call.buffer + offset, std::mem::size_of::<BinderBufferObject>());
        let block = BinderBufferObject::read_from_bytes(&block).expect("as many bytes");
        let number = i32::from_ne_bytes(space.read(block.buffer + FILE_AT, 4).as_slice().try_into()?);
        // SAFETY: the driver has installed the descriptor for us, and closes it no earlier than we
        // give the buffer back.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        match nix::unistd::write(file, bytes) {
            // Who asked has been killed.
            Err(Errno::EPIPE) => Ok(()),
            written => {
                ensure!(written? == bytes.len(), "the pipe is full");
                Ok(())
            }
        }
    }

    /// A call of the server that brings the end of a pipe. Whether it was answered.
    fn call_with_file(&mut self, random: &mut SmallRng) -> anyhow::Result<bool> {
        let (ours, theirs) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let token: [u8; 8] = random.random();
        let mut block = [0; 16];
        block[FILE_AT as usize..][..4].copy_from_slice(&theirs.as_raw_fd().to_ne_bytes());
        let mut parcel = Parcel::new();
        parcel.bytes(&token);
        parcel.object(&crate::sg::pointer_object(block.as_ptr() as u64, block.len() as u64));
        parcel.object(&BinderFdArrayObject {
            kind: ObjectType::FDA,
            num_fds: 1,
            parent_offset: FILE_AT,
            ..Default::default()
        });
        let data = parcel.to_handle(0, WITH_FILE, TransactionFlags::empty());
        self.out.transaction_sg(&BinderTransactionDataSg { data, buffers_size: block.len() as u64 });
        self.parcels.push(parcel);
        let end = self.work()?;
        drop(theirs);
        let mut fds = [PollFd::new(ours.as_fd(), PollFlags::empty())];
        ensure!(poll(&mut fds, 20_000u16)? == 1, "somebody has kept a file");
        let End::Answered(reply) = end else { return Ok(false) };
        self.out.free_buffer(reply.buffer);
        let mut got = Vec::new();
        std::fs::File::from(ours).read_to_end(&mut got)?;
        ensure!(got == token, "a file has wrong bytes");
        Ok(true)
    }

    /// Asks to be told of the death of a node that came in a buffer, in one of several ways.
    fn link(&mut self, handle: u32) {
        let number = NEXT_LINK.fetch_add(1, Ordering::Relaxed);
        let cookie = number << 32 | u64::from(handle);
        match number % 8 {
            // It goes with the handle, when the buffer is freed.
            0 => self.out.request_death(handle, cookie),
            1 => self.out.request_death(handle, cookie).clear_death(handle, cookie),
            2 | 3 => {
                KEPT.lock().expect("no panic").insert(cookie, false);
                self.out.acquire(handle).request_death(handle, cookie)
            }
            _ => return,
        };
    }

    /// The node of a link is dead: the link is withdrawn, or goes with its handle.
    fn told_dead(&mut self, cookie: u64) -> anyhow::Result<()> {
        let handle = cookie as u32;
        let mut kept = KEPT.lock().expect("no panic");
        match kept.get_mut(&cookie) {
            None => self.out.dead_binder_done(cookie),
            Some(told) => {
                ensure!(!*told, "the death {cookie:#x} is told twice");
                *told = true;
                if cookie >> 32 & 1 == 0 {
                    kept.remove(&cookie);
                    self.out.dead_binder_done(cookie).release(handle)
                } else {
                    self.out.clear_death(handle, cookie).dead_binder_done(cookie)
                }
            }
        };
        Ok(())
    }

    fn told_clear_done(&mut self, cookie: u64) -> anyhow::Result<()> {
        if let Some(told) = KEPT.lock().expect("no panic").remove(&cookie) {
            ensure!(told, "the clear of {cookie:#x} is confirmed before its death");
            self.out.release(cookie as u32);
        }
        Ok(())
    }

    /// Asks to be told of the server's death, or no longer, or gives up the handle.
    fn link_to_server(&mut self, random: &mut SmallRng) {
        let cookie = random.random_range(1..=3u64) << 32;
        match random.random_range(0..24) {
            0 | 1 => self.out.increfs(0).request_death(0, cookie),
            2 => self.out.clear_death(0, cookie),
            3 => self.out.decrefs(0),
            _ => return,
        };
    }

    /// The handle in a received transaction, if there is one.
    fn object(&self, transaction: &BinderTransactionData) -> anyhow::Result<Option<u32>> {
        if transaction.offsets_size == 0 {
            return Ok(None);
        }
        let space = &self.process.space;
        let offset = u64::from_ne_bytes(space.read(transaction.offsets, 8).as_slice().try_into()?);
        let bytes = space.read(transaction.buffer + offset, std::mem::size_of::<FlatBinderObject>());
        let object = FlatBinderObject::read_from_bytes(&bytes).expect("as many bytes");
        ensure!(object.kind == ObjectType::HANDLE, "{object:x?} is not a handle");
        Ok(Some(object.handle()))
    }

    fn call(&mut self, handle: u32, code: u32, parcel: Parcel) -> anyhow::Result<End> {
        self.out.transaction(&parcel.to_handle(handle, code, TransactionFlags::empty()));
        self.parcels.push(parcel);
        self.work()
    }

    /// One call of the server with random contents, checked. Whether it was answered.
    fn checked_call(&mut self, random: &mut SmallRng, largest: usize) -> anyhow::Result<bool> {
        if random.random_ratio(1, 8) {
            return self.call_with_file(random);
        }
        let (length, wanted) = (random.random_range(0..=largest), random.random_range(0..=largest));
        let mut question = vec![0; length.next_multiple_of(4)];
        random.fill_bytes(&mut question);
        let mut parcel = Parcel::new();
        parcel.bytes(&question);
        if random.random_ratio(1, 4) {
            let ptr = NEXT_NODE.fetch_add(16, Ordering::Relaxed);
            parcel.object(&FlatBinderObject::binder(ptr, ptr ^ 0x5555));
            question = Vec::new(); // The object is translated: only the server knows these bytes.
        }
        let plain = parcel.offsets.is_empty();
        let with_object = plain && random.random_ratio(1, 4);
        let code = wanted as u32 | if with_object { WITH_OBJECT } else { 0 };
        self.link_to_server(random);
        let End::Answered(reply) = self.call(0, code, parcel)? else { return Ok(false) };
        let got = self.process.space.read(reply.buffer, reply.data_size as usize);
        ensure!(got.len() >= wanted, "{} bytes of {wanted}", got.len());
        ensure!(!plain || got[..wanted] == answer(&question, wanted), "an answer has wrong bytes");
        if let Some(handle) = self.object(&reply)? {
            if let End::Answered(second) = self.call(handle, 16, Parcel::new())? {
                let got = self.process.space.read(second.buffer, second.data_size as usize);
                ensure!(got == answer(&[], 16), "an object answers wrongly");
                self.out.free_buffer(second.buffer);
            }
        }
        self.out.free_buffer(reply.buffer);
        Ok(true)
    }
}

/// Is the context manager of a device, for ever, with so many threads that the driver may ask for.
pub fn serve(path: &Path, threads: u32, ready: impl FnOnce()) {
    let process = Process::open(path).expect("open the device");
    let deadline = Instant::now() + Duration::from_secs(5);
    let node = FlatBinderObject::binder(0, 0).with_flags(ObjectFlags::ACCEPTS_FDS);
    while let Err(errno) = process.device.set_context_manager_ext(&node) {
        assert!(errno == Errno::EBUSY && Instant::now() < deadline, "become context manager: {errno}");
        std::thread::yield_now();
    }
    process.device.set_max_threads(threads).expect("allow threads");
    ready();
    let mut worker = Worker::new(&process);
    worker.out.enter_looper();
    worker.work_for_ever();
}

/// Calls the context manager, and counts the calls that were answered.
pub fn call(path: &Path, work: &Work) -> anyhow::Result<()> {
    call_counted(path, work, &AtomicU64::new(0))
}

/// The same with a counter of the caller's.
pub fn call_counted(path: &Path, work: &Work, answered: &AtomicU64) -> anyhow::Result<()> {
    let process = Process::open(path)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..work.threads as u64)
            .map(|thread| {
                let process = &process;
                scope.spawn(move || -> anyhow::Result<()> {
                    let mut worker = Worker::new(process);
                    let mut random = SmallRng::seed_from_u64(work.seed * 1000 + thread);
                    for _ in 0..work.calls {
                        let done = worker.checked_call(&mut random, work.largest)?;
                        ensure!(done || work.tolerate_death, "the server is dead");
                        answered.fetch_add(u64::from(done), Ordering::Relaxed);
                    }
                    worker.process.device.write_all(worker.out.as_bytes())?;
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// Waits until the server's process has no nodes left that others hold, and waits for no death.
pub fn wait_quiet(path: &Path, limit: Duration) -> anyhow::Result<()> {
    let process = Process::open(path)?;
    let mut worker = Worker::new(&process);
    let deadline = Instant::now() + limit;
    loop {
        let End::Answered(reply) = worker.call(0, CODE_NODES, Parcel::new())? else {
            bail!("the server is dead")
        };
        let left = process.space.read(reply.buffer, 16);
        worker.out.free_buffer(reply.buffer);
        if left == [0; 16] {
            return Ok(());
        }
        let (node, kept) = left.split_at(8);
        ensure!(
            Instant::now() < deadline,
            "the server has node {node:x?} still held, {kept:?} deaths untold"
        );
    }
}
