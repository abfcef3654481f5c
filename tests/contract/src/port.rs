// SPDX-License-Identifier: GPL-2.0
//! An actor's opened device, with the moves of the protocol.
//!
//! Moves that end in `start` or begin with `start_` leave the actor inside the driver; the next
//! `wait_*` takes its returns. A wait keeps the returns that it was not looking for. The test fails
//! in the end unless it takes them with [`Port::passed`] (see [`crate::inbox`]).

use crate::actor::Actor;
use crate::arena::Arena;
use crate::inbox::Inbox;
use crate::ops::{Answer, Op, Slot, Watch, WriteReadOp};
use binder_sys::*;
use nix::sys::mman::{MapFlags, ProtFlags};
use std::cell::Cell;
use std::panic::Location;
use std::path::Path;
use std::rc::Rc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Room for returns in an ordinary read.
pub const ROOM: usize = 512;

/// A `BINDER_WRITE_READ` that has come back.
#[derive(Debug)]
pub struct Outcome {
    /// 0 or the errno.
    pub errno: Errno,
    /// The field afterwards.
    pub write_consumed: u64,
    /// The field afterwards.
    pub read_consumed: u64,
    /// The whole read buffer.
    pub buffer: Vec<u8>,
}

impl Outcome {
    /// The decoded returns.
    pub fn returns(&self) -> Vec<Return> {
        let bytes = &self.buffer[..self.read_consumed as usize];
        Returns::new(bytes).map(|item| item.expect("whole items")).collect()
    }
}

/// The `BINDER_WRITE_READ` that is out: its commands, and where its write and its read begin.
struct UnderWay {
    commands: Vec<u8>,
    write_consumed: u64,
    read_consumed: u64,
}

/// An opened device as one thread uses it.
#[derive(Clone)]
pub struct Port {
    /// The thread.
    pub actor: Rc<Actor>,
    /// Memory that all processes see.
    pub arena: Rc<Arena>,
    /// The device's number in its process.
    pub slot: Slot,
    /// The address and the length of its mapping.
    pub space: Option<(u64, usize)>,
    inbox: Rc<Inbox>,
    /// The `BINDER_WRITE_READ` that is out.
    under_way: Rc<Cell<Option<UnderWay>>>,
}

impl Port {
    /// Opens a device by a thread.
    pub fn open(actor: Rc<Actor>, arena: &Rc<Arena>, path: &Path, flags: i32) -> nix::Result<Self> {
        let path = path.to_str().expect("a path of text").to_string();
        let slot = actor.number(Op::Open { path, flags: libc::O_RDWR | flags })? as Slot;
        Ok(Self::at(actor, arena, slot).settled())
    }

    /// A device that the thread's process has already.
    pub fn at(actor: Rc<Actor>, arena: &Rc<Arena>, slot: Slot) -> Self {
        let inbox = Inbox::new(actor.pid(), actor.tid(), slot);
        Self { actor, arena: arena.clone(), slot, space: None, inbox, under_way: Rc::default() }
    }

    /// Makes the driver record the thread, so that its first read may block. The contract allows
    /// the thread's first call to return at once (IOCTL-3); this is that call.
    fn settled(self) -> Self {
        let _ = self.ioctl(ioctl::BINDER_VERSION, BinderVersion::default());
        self
    }

    /// This device used by a new thread of its process.
    pub fn thread(&self) -> Self {
        let actor = Rc::new(self.actor.thread());
        let space = self.space;
        Self { space, ..Self::at(actor, &self.arena, self.slot) }.settled()
    }

    /// A new thread in the pool.
    pub fn looper(&self) -> Self {
        let port = self.thread();
        port.enter_looper();
        port
    }

    /// A new thread in the pool, which waits for work.
    #[track_caller]
    pub fn parked_looper(&self) -> Self {
        let port = self.looper();
        port.park();
        port
    }

    /// A new thread that registers in the pool.
    pub fn registered(&self) -> Self {
        let port = self.thread();
        port.send(|c| c.register_looper());
        port
    }

    /// This device used by another actor, whose process has it at the same number.
    pub fn used_by(&self, actor: Rc<Actor>) -> Self {
        Self::at(actor, &self.arena, self.slot)
    }

    /// Kills the process.
    pub fn kill(&self) {
        self.actor.kill();
    }

    /// Kills the process, whose caller then reads that the call failed.
    #[track_caller]
    pub fn kill_serving(&self, caller: &Port) {
        self.kill();
        assert_eq!(caller.wait_refusal(), Return::DeadReply);
    }

    /// Maps the space.
    pub fn map(&mut self, length: usize) -> nix::Result<()> {
        let address = self.map_with(length, ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE)?;
        self.space = Some((address, length));
        Ok(())
    }

    /// Maps the device in any way.
    pub fn map_with(&self, length: usize, protection: ProtFlags, flags: MapFlags) -> nix::Result<u64> {
        let (protection, flags) = (protection.bits(), flags.bits());
        self.actor.number(Op::Map { slot: self.slot, length, protection, flags, offset: 0 })
    }

    /// Unmaps the space.
    pub fn unmap(&self) {
        let (address, length) = self.space.expect("a space");
        self.actor.number(Op::Unmap { address, length }).expect("unmap");
    }

    /// Unmaps the space and closes the device: a mapping keeps the file open by itself.
    pub fn give_up(&self) {
        self.unmap();
        self.close();
    }

    /// Closes the descriptor.
    pub fn close(&self) {
        self.actor.number(Op::Close { slot: self.slot }).expect("close");
    }

    /// Orders an ioctl with an argument.
    pub fn start_ioctl(&self, number: u32, argument: impl IntoBytes + Immutable) {
        if number == ioctl::BINDER_THREAD_EXIT {
            self.inbox.left();
        }
        let argument = argument.as_bytes().to_vec();
        self.actor.start(Op::Ioctl { slot: self.slot, number, argument });
    }

    /// Waits for the ioctl that is out; returns the argument afterwards.
    pub fn finish_ioctl<T: FromBytes>(&self) -> nix::Result<T> {
        match self.actor.finish() {
            Answer::Argument(bytes) => Ok(T::read_from_bytes(&bytes).expect("the same size")),
            Answer::Failed(errno) => Err(Errno::from_raw(errno)),
            other => panic!("{other:?}"),
        }
    }

    /// An ioctl with an argument; returns the argument afterwards.
    pub fn ioctl<T: IntoBytes + FromBytes + Immutable>(&self, number: u32, argument: T) -> nix::Result<T> {
        self.start_ioctl(number, argument);
        self.finish_ioctl()
    }

    /// An ioctl whose argument cannot be accessed.
    pub fn ioctl_fault(&self, number: u32) -> nix::Result<()> {
        self.actor.number(Op::IoctlFault { slot: self.slot, number }).map(drop)
    }

    /// `BINDER_SET_CONTEXT_MGR`, again while an earlier manager is being released.
    pub fn set_context_manager(&self) -> nix::Result<()> {
        self.manage(ioctl::BINDER_SET_CONTEXT_MGR, 0i32)
    }

    /// `BINDER_SET_CONTEXT_MGR_EXT`.
    pub fn set_context_manager_ext(&self, node: FlatBinderObject) -> nix::Result<()> {
        self.manage(ioctl::BINDER_SET_CONTEXT_MGR_EXT, node)
    }

    /// Becomes the context manager by a node with these flags, the thread in the pool.
    pub fn managing(self, flags: ObjectFlags) -> Self {
        let node = FlatBinderObject::binder(0, 0).with_flags(flags);
        self.set_context_manager_ext(node).expect("become context manager");
        self.enter_looper();
        self
    }

    fn manage<T: IntoBytes + FromBytes + Immutable + Clone>(
        &self,
        number: u32,
        argument: T,
    ) -> nix::Result<()> {
        let deadline = std::time::Instant::now() + crate::actor::patience();
        loop {
            match self.ioctl(number, argument.clone()) {
                Err(Errno::EBUSY) if std::time::Instant::now() < deadline => std::thread::yield_now(),
                other => return other.map(drop),
            }
        }
    }

    /// `BINDER_GET_NODE_DEBUG_INFO`.
    pub fn node_debug_info(&self, ptr: u64) -> BinderNodeDebugInfo {
        let info = BinderNodeDebugInfo { ptr, ..Default::default() };
        self.ioctl(ioctl::BINDER_GET_NODE_DEBUG_INFO, info).expect("look at a node")
    }

    /// `BINDER_GET_EXTENDED_ERROR`: the return that the sender read, and the errno.
    pub fn extended_error(&self) -> (u32, i32) {
        let error = self.ioctl(ioctl::BINDER_GET_EXTENDED_ERROR, BinderExtendedError::default());
        let error = error.expect("the extended error");
        (error.command, error.param)
    }

    /// Orders a `BINDER_WRITE_READ` with all fields chosen.
    pub fn start_raw(&self, args: WriteReadOp) {
        let WriteReadOp { commands, write_consumed, read_consumed, .. } = args.clone();
        self.under_way.set(Some(UnderWay { commands, write_consumed, read_consumed }));
        self.actor.start(Op::WriteRead { slot: self.slot, args });
    }

    /// Waits for the `BINDER_WRITE_READ` that is out.
    pub fn finish_raw(&self) -> Outcome {
        match self.actor.finish() {
            Answer::WriteRead { errno, write_consumed, read_consumed, returns } => {
                let outcome =
                    Outcome { errno: Errno::from_raw(errno), write_consumed, read_consumed, buffer: returns };
                self.note(&outcome);
                outcome
            }
            other => panic!("{other:?}"),
        }
    }

    /// Passes what was written and read to the inbox.
    fn note(&self, outcome: &Outcome) {
        let Some(before) = self.under_way.take() else { return };
        let written = before.write_consumed as usize..outcome.write_consumed as usize;
        if let Some(done) = before.commands.get(written) {
            self.inbox.wrote(done);
        }
        let read = before.read_consumed as usize..outcome.read_consumed as usize;
        if let Some(told) = outcome.buffer.get(read) {
            // A test of the stream itself checks a stream that is cut.
            self.inbox.read(&Returns::new(told).map_while(Result::ok).collect::<Vec<_>>());
        }
    }

    /// A `BINDER_WRITE_READ` with all fields chosen.
    pub fn raw(&self, args: WriteReadOp) -> Outcome {
        self.start_raw(args);
        self.finish_raw()
    }

    /// Writes commands without reading; they must all be carried out.
    #[track_caller]
    pub fn write(&self, commands: &Commands) {
        let outcome = self.raw(WriteReadOp::of(commands));
        assert_eq!(outcome.errno, Errno::from_raw(0));
        assert_eq!(outcome.write_consumed as usize, commands.len(), "stopped early");
    }

    /// Writes commands without reading, and returns how that ended.
    pub fn try_write(&self, commands: &Commands) -> Outcome {
        self.raw(WriteReadOp::of(commands))
    }

    /// Writes one command built by a closure.
    #[track_caller]
    pub fn send(&self, build: impl FnOnce(&mut Commands) -> &mut Commands) {
        self.write(&stream(build));
    }

    /// Enters the pool.
    pub fn enter_looper(&self) {
        self.send(|c| c.enter_looper());
    }

    /// Orders to write commands and then read.
    pub fn start(&self, commands: &Commands) {
        self.start_raw(WriteReadOp { room: ROOM, ..WriteReadOp::of(commands) });
    }

    /// Orders to write commands and then read, and reads a counter before and after.
    pub fn start_watching(&self, commands: &Commands, watch: Watch) {
        self.start_raw(WriteReadOp { room: ROOM, watch: Some(watch), ..WriteReadOp::of(commands) });
    }

    /// Orders a read.
    pub fn start_read(&self) {
        self.start(&Commands::new());
    }

    /// Orders a read and makes sure that it blocks, so that the next work finds a waiting thread.
    #[track_caller]
    pub fn park(&self) {
        self.start_read();
        self.actor.expect_blocked();
    }

    /// Orders a read without room for anything but `BR_NOOP`, and makes sure that it blocks. A
    /// thread that is woken for work then has the work, and cannot return it.
    #[track_caller]
    pub fn park_without_room(&self) {
        self.start_raw(WriteReadOp { room: 40, ..Default::default() });
        self.actor.expect_blocked();
    }

    /// Checks that the read of [`Self::park_without_room`] returned nothing.
    #[track_caller]
    pub fn expect_no_room(&self) {
        let outcome = self.finish_raw();
        assert_eq!((outcome.errno, outcome.returns()), (Errno::from_raw(0), vec![Return::Noop]));
    }

    /// Interrupts the `BINDER_WRITE_READ` that is out, which ends with `EINTR`.
    #[track_caller]
    pub fn interrupt_wait(&self) -> Outcome {
        self.actor.interrupt();
        let outcome = self.finish_raw();
        assert_eq!(outcome.errno, Errno::EINTR);
        outcome
    }

    /// One read that returns something; `BR_NOOP` is left out.
    #[track_caller]
    pub fn read_once(&self) -> Vec<Return> {
        let outcome = self.raw(WriteReadOp { room: ROOM, ..Default::default() });
        assert_eq!(outcome.errno, Errno::from_raw(0));
        let mut items = outcome.returns();
        assert_eq!(items.remove(0), Return::Noop);
        items
    }

    /// Waits for the read that is out, which has to succeed; its returns without `BR_NOOP`.
    #[track_caller]
    pub fn finish_read(&self) -> Vec<Return> {
        let outcome = self.finish_raw();
        assert_eq!(outcome.errno, Errno::from_raw(0));
        outcome.returns().into_iter().filter(|item| *item != Return::Noop).collect()
    }

    /// The test has written these without this type's moves: completions of them may come.
    pub fn may_complete(&self, commands: &Commands) {
        self.inbox.wrote(commands.as_bytes());
    }

    /// The thread's unread completions are lost, so that the next call is completed alone.
    pub fn forgets_completions(&self) {
        self.inbox.left();
    }

    /// Reads without waiting, until nothing is left; returns all that was there.
    #[must_use]
    pub fn drain(&self) -> Vec<Return> {
        let mut found: Vec<Return> = std::iter::from_fn(|| self.inbox.next()).collect();
        self.nonblocking(true);
        loop {
            let outcome = self.raw(WriteReadOp { room: ROOM, ..Default::default() });
            match outcome.errno {
                Errno::EAGAIN => break,
                errno => assert_eq!(errno, Errno::from_raw(0)),
            }
            let items = outcome.returns();
            let only_noops = items.iter().all(|item| *item == Return::Noop);
            found.extend(items);
            if only_noops {
                break;
            }
        }
        self.nonblocking(false);
        found.retain(|item| *item != Return::Noop);
        found
    }

    /// Switches `O_NONBLOCK`.
    pub fn nonblocking(&self, on: bool) {
        self.actor.number(Op::NonBlocking { slot: self.slot, on }).expect("switch O_NONBLOCK");
    }

    /// The events that poll reports, 0 if none come.
    pub fn poll(&self, timeout_ms: u16) -> u64 {
        self.actor.number(Op::Poll { slot: self.slot, timeout_ms }).expect("poll")
    }

    /// A new epoll set of the device, level- or edge-triggered.
    pub fn epoll(&self, edge: bool) -> usize {
        self.actor.number(Op::EpollCreate { slot: self.slot, edge }).expect("an epoll set") as usize
    }

    /// The events that an epoll set reports, 0 if none come.
    pub fn epoll_wait(&self, set: usize, timeout_ms: u16) -> u64 {
        self.actor.number(Op::EpollWait { set, timeout_ms }).expect("wait")
    }

    /// Waits for a call that comes with a security context; returns where that lies as well.
    #[track_caller]
    pub fn wait_call_with_context(&self) -> (BinderTransactionData, u64) {
        self.wait("a call with a security context", |item| match item {
            Return::TransactionSecctx(call) => Some((call.data, call.secctx)),
            _ => None,
        })
    }

    fn fill(&self, what: &str) {
        if !self.actor.is_busy() {
            self.start_read();
        }
        let outcome = self.finish_raw();
        assert_eq!(outcome.errno, Errno::from_raw(0), "while waiting for {what}");
        self.inbox.keep(outcome.returns());
    }

    /// Waits for a return that the closure accepts, and sets the others aside.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, accept: impl Fn(&Return) -> Option<T>) -> T {
        loop {
            while let Some(item) = self.inbox.next() {
                if let Some(found) = accept(&item) {
                    return found;
                }
                let ends_a_call = matches!(
                    item,
                    Return::Transaction(_)
                        | Return::TransactionSecctx(_)
                        | Return::Reply(_)
                        | Return::DeadReply
                        | Return::FailedReply
                        | Return::FrozenReply
                );
                assert!(!ends_a_call, "{item:?} instead of {what}");
                self.inbox.pass(item, Location::caller());
            }
            self.fill(what);
        }
    }

    /// Waits for exactly this return.
    #[track_caller]
    pub fn wait_for(&self, wanted: Return) {
        self.wait(&format!("{wanted:?}"), |item| (*item == wanted).then_some(()));
    }

    /// Drops what was set aside: the test does not need it.
    pub fn ignore_passed(&self) {
        self.inbox.take_passed();
    }

    /// Returns set aside since the last time, without `BR_NOOP`.
    #[must_use]
    pub fn passed(&self) -> Vec<Return> {
        let mut items = self.inbox.take_passed();
        items.retain(|item| *item != Return::Noop);
        items
    }

    /// Waits for a call to serve.
    #[track_caller]
    pub fn wait_call(&self) -> BinderTransactionData {
        self.wait("a call", call_of)
    }

    /// Waits for a reply.
    #[track_caller]
    pub fn wait_reply(&self) -> BinderTransactionData {
        self.wait("a reply", |item| match item {
            Return::Reply(reply) => Some(*reply),
            _ => None,
        })
    }

    /// Places a parcel in the arena, and makes a transaction of it.
    pub fn place(&self, handle: u32, code: u32, parcel: &Parcel) -> BinderTransactionData {
        self.place_flagged(handle, code, parcel, TransactionFlags::empty())
    }

    /// A transaction with this content and these flags.
    pub fn place_flagged(
        &self,
        handle: u32,
        code: u32,
        parcel: &Parcel,
        flags: TransactionFlags,
    ) -> BinderTransactionData {
        BinderTransactionData {
            buffer: self.arena.place(&parcel.data),
            offsets: self.arena.place(parcel.offsets.as_bytes()),
            ..parcel.to_handle(handle, code, flags)
        }
    }

    /// A oneway call with this content.
    pub fn place_oneway(&self, handle: u32, code: u32, parcel: &Parcel) -> BinderTransactionData {
        self.place_flagged(handle, code, parcel, TransactionFlags::ONE_WAY)
    }

    /// Sends a oneway call, and waits for its completion.
    #[track_caller]
    pub fn tell(&self, handle: u32, code: u32, parcel: &Parcel) {
        self.tell_with(&self.place_oneway(handle, code, parcel), Return::TransactionComplete);
    }

    /// Sends a oneway call with every field chosen, and waits for this completion.
    #[track_caller]
    pub fn tell_with(&self, data: &BinderTransactionData, completion: Return) {
        self.start_transaction(data);
        self.wait_for(completion);
    }

    /// Sends a oneway call with every field chosen; returns its completion.
    #[track_caller]
    pub fn completion(&self, data: &BinderTransactionData) -> Return {
        self.start_transaction(data);
        self.wait("a completion", |item| (*item != Return::Noop).then_some(*item))
    }

    /// Sends a call, and waits for nothing.
    pub fn start_call(&self, handle: u32, code: u32, parcel: &Parcel) {
        self.start_transaction(&self.place(handle, code, parcel));
    }

    /// Sends a call, and makes sure that it blocks.
    #[track_caller]
    pub fn start_blocking_call(&self, handle: u32, code: u32, parcel: &Parcel) {
        self.start_call(handle, code, parcel);
        self.actor.expect_blocked();
    }

    /// Writes a call, and reads nothing.
    #[track_caller]
    pub fn send_call(&self, handle: u32, code: u32, parcel: &Parcel) {
        self.send(|c| c.transaction(&self.place(handle, code, parcel)));
    }

    /// Writes a call, reads nothing, and waits until a server has it.
    #[track_caller]
    pub fn send_call_to(
        &self,
        server: &Port,
        handle: u32,
        code: u32,
        parcel: &Parcel,
    ) -> BinderTransactionData {
        self.send_call(handle, code, parcel);
        server.wait_call()
    }

    /// Sends a call of which every field is chosen, and waits for nothing.
    pub fn start_transaction(&self, data: &BinderTransactionData) {
        self.start(&stream(|c| c.transaction(data)));
    }

    /// Sends a call that is refused; returns the refusal.
    #[track_caller]
    pub fn refused(&self, data: &BinderTransactionData) -> Return {
        self.start_transaction(data);
        self.wait_refusal()
    }

    /// Sends a call that fails; returns the extended error.
    #[track_caller]
    pub fn failure(&self, data: &BinderTransactionData) -> (u32, i32) {
        assert_eq!(self.refused(data), Return::FailedReply);
        self.extended_error()
    }

    /// Waits for the refusal of a call.
    #[track_caller]
    pub fn wait_refusal(&self) -> Return {
        self.wait("a refusal", |item| {
            matches!(item, Return::FailedReply | Return::DeadReply | Return::FrozenReply).then_some(*item)
        })
    }

    /// Sends a call with pointers in it, and waits for nothing.
    pub fn start_sg(&self, data: &BinderTransactionDataSg) {
        self.start(&stream(|c| c.transaction_sg(data)));
    }

    /// Sends a call with pointers in it, and waits until a server has it.
    #[track_caller]
    pub fn call_sg(&self, server: &Port, data: &BinderTransactionDataSg) -> BinderTransactionData {
        self.start_sg(data);
        server.wait_call()
    }

    /// Sends a call with pointers in it that is refused; returns the extended error.
    #[track_caller]
    pub fn refused_sg(&self, data: &BinderTransactionDataSg) -> (u32, i32) {
        self.start_sg(data);
        self.wait_refusal();
        self.extended_error()
    }

    /// Replies with pointers in the data, and waits for its completion.
    #[track_caller]
    pub fn reply_sg(&self, data: &BinderTransactionDataSg) {
        self.start(&stream(|c| c.reply_sg(data)));
        self.wait_for(Return::TransactionComplete);
    }

    /// Replies to the call being served, and waits for its completion.
    #[track_caller]
    pub fn reply(&self, parcel: &Parcel) {
        self.reply_with(&self.place(0, 0, parcel));
    }

    /// Replies with every field chosen, and waits for its completion.
    #[track_caller]
    pub fn reply_with(&self, data: &BinderTransactionData) {
        self.start(&stream(|c| c.reply(data)));
        self.wait_for(Return::TransactionComplete);
    }

    /// Sends a call, and waits until a server has it.
    #[track_caller]
    pub fn call(&self, server: &Port, handle: u32, code: u32, parcel: &Parcel) -> BinderTransactionData {
        self.call_with(server, &self.place(handle, code, parcel))
    }

    /// Sends a call with every field chosen, and waits until a server has it.
    #[track_caller]
    pub fn call_with(&self, server: &Port, data: &BinderTransactionData) -> BinderTransactionData {
        self.start_transaction(data);
        server.wait_call()
    }

    /// Replies to the call being served, and waits until the caller has the reply.
    #[track_caller]
    pub fn answer(&self, caller: &Port, parcel: &Parcel) -> BinderTransactionData {
        self.reply(parcel);
        caller.wait_reply()
    }

    /// Waits for a call, and answers it with nothing.
    #[track_caller]
    pub fn serve(&self, caller: &Port) {
        self.wait_call();
        self.answer(caller, &empty());
    }

    /// Gives a buffer back.
    #[track_caller]
    pub fn free(&self, transaction: &BinderTransactionData) {
        self.send(|c| c.free_buffer(transaction.buffer));
    }

    /// The bytes of memory in this process.
    pub fn memory(&self, address: u64, length: usize) -> Vec<u8> {
        let to = self.arena.reserve(length);
        self.actor.number(Op::Copy { from: address, to, length }).expect("copy");
        self.arena.fetch(to, length)
    }

    /// The data of a received transaction.
    pub fn data(&self, transaction: &BinderTransactionData) -> Vec<u8> {
        self.memory(transaction.buffer, transaction.data_size as usize)
    }

    /// Checks the data of a received transaction, and gives its buffer back.
    #[track_caller]
    pub fn consume(&self, transaction: &BinderTransactionData, data: impl AsRef<[u8]>) {
        assert_eq!(self.data(transaction), data.as_ref());
        self.free(transaction);
    }

    /// The first object of a received transaction.
    pub fn object(&self, transaction: &BinderTransactionData) -> FlatBinderObject {
        self.object_at(transaction, 0)
    }

    /// Takes a strong count on the handle in a received transaction, and frees the buffer; the handle.
    #[track_caller]
    pub fn keep_handle(&self, transaction: &BinderTransactionData) -> u32 {
        let handle = self.object(transaction).handle();
        self.send(|c| c.acquire(handle));
        self.free(transaction);
        handle
    }

    /// All objects of a received transaction: nodes and handles.
    pub fn objects(&self, transaction: &BinderTransactionData) -> Vec<FlatBinderObject> {
        // The offsets lie behind the data.
        let all = self.memory(
            transaction.buffer,
            (transaction.offsets + transaction.offsets_size - transaction.buffer) as usize,
        );
        let offsets = all[(transaction.offsets - transaction.buffer) as usize..].chunks_exact(8);
        let object = |offset: &[u8]| {
            let offset = u64::from_ne_bytes(offset.try_into().expect("eight bytes")) as usize;
            FlatBinderObject::read_from_prefix(&all[offset..]).expect("a whole object").0
        };
        offsets.map(object).collect()
    }

    /// An object of a received transaction, by its place in the offsets.
    pub fn object_at(&self, transaction: &BinderTransactionData, index: u64) -> FlatBinderObject {
        self.objects(transaction)[index as usize]
    }

    /// An object of any kind somewhere in this process's memory.
    pub fn read_object<T: FromBytes>(&self, address: u64) -> T {
        T::read_from_bytes(&self.memory(address, std::mem::size_of::<T>())).expect("as many bytes")
    }

    /// One call from here to there and back, with empty data unless a parcel is given.
    #[track_caller]
    pub fn round_trip(&self, handle: u32, server: &Port, question: &Parcel, answer: &Parcel) -> Vec<u8> {
        let call = self.call(server, handle, 0, question);
        assert_eq!(server.data(&call), question.data, "the question");
        server.free(&call);
        let reply = server.answer(self, answer);
        let data = self.data(&reply);
        self.free(&reply);
        data
    }
}

/// A stream of commands, built by a closure.
pub fn stream(build: impl FnOnce(&mut Commands) -> &mut Commands) -> Commands {
    let mut commands = Commands::new();
    build(&mut commands);
    commands
}

/// A parcel of bytes.
pub fn bytes(bytes: &[u8]) -> Parcel {
    Parcel { data: bytes.to_vec(), offsets: Vec::new() }
}

/// A parcel of nothing.
pub fn empty() -> Parcel {
    Parcel::new()
}

/// A parcel of one object.
pub fn object(object: impl IntoBytes + Immutable) -> Parcel {
    parcel_of([object])
}

/// A parcel of several objects.
pub fn parcel_of(objects: impl IntoIterator<Item = impl IntoBytes + Immutable>) -> Parcel {
    let mut parcel = Parcel::new();
    for object in objects {
        parcel.object(&object);
    }
    parcel
}

/// The call that a return brings, if it brings one.
pub fn call_of(item: &Return) -> Option<BinderTransactionData> {
    match item {
        Return::Transaction(call) => Some(*call),
        _ => None,
    }
}

/// Serves a call that has come, and has the caller take the reply.
#[track_caller]
pub fn finish(server: &Port, client: &Port, call: &BinderTransactionData) {
    server.free(call);
    client.free(&server.answer(client, &empty()));
}

/// Gives a handle on a node of the owner's to the holder, by way of the context manager, and returns
/// it. The holder has one strong count of its own; the manager keeps nothing.
#[track_caller]
pub fn introduce(manager: &Port, owner: &Port, node: FlatBinderObject, holder: &Port) -> u32 {
    let handle = give_in_a_call(manager, owner, node);
    let here = give_in_a_reply(manager, holder, FlatBinderObject::strong_handle(handle));
    manager.send(|c| c.release(handle));
    here
}

/// As [`introduce`]. The owner has confirmed the counts of its node, and has nothing else to read.
#[track_caller]
pub fn introduce_counted(manager: &Port, owner: &Port, node: FlatBinderObject, holder: &Port) -> u32 {
    let handle = introduce(manager, owner, node, holder);
    owner.settle_counts();
    handle
}

/// Gives the context manager an object, and returns the handle that it gets for it. It has one strong
/// count of its own.
#[track_caller]
pub fn give_in_a_call(manager: &Port, giving: &Port, given: FlatBinderObject) -> u32 {
    let handle = manager.keep_handle(&giving.call(manager, 0, 0, &object(given)));
    giving.free(&manager.answer(giving, &empty()));
    handle
}

/// Has a process call the context manager for an object, and returns the handle that it gets for
/// it. The handle has one strong count of its own.
#[track_caller]
pub fn give_in_a_reply(manager: &Port, asking: &Port, given: FlatBinderObject) -> u32 {
    manager.free(&asking.call(manager, 0, 0, &empty()));
    asking.keep_handle(&manager.answer(asking, &object(given)))
}
