// SPDX-License-Identifier: GPL-2.0

//! The write half of `BINDER_WRITE_READ`: understand one command after the other, and run it.
//!
//! Commands are read from user space in bounded pieces, each byte once, and a command starts to run
//! only when all of it is there and lies within the write buffer (lesson C17).

use crate::{
    allocation::AfterFree,
    calls::{
        send,
        sender::Sender, //
    },
    common::debug::binder_debug,
    defs::{Command, HandleCookie, NodeName, Strength, TransactionRequest, WriteRead},
    kernel_ext::stack_bytes::StackBytes,
    notifications::{death, freeze},
    process::Process,
    thread::Thread, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    uaccess::UserPtr, //
};

/// How many bytes of commands are read at once: what a thread usually writes in one go, which is to
/// free a buffer and to make a call.
const PIECE: usize = 128;

/// Runs commands from the write buffer until its end, the first that is malformed, or the first that
/// is refused. `write_consumed` moves behind each that ran (contract WR-2).
///
/// `sender` is the calling thread.
pub(crate) fn run(sender: &Sender<'_>, io: &mut WriteRead) -> Result {
    let mut source = Source::new(io);
    while source.remaining() > 0 && !sender.thread.has_unread_error.load(Relaxed) {
        let command = source.command()?;
        execute(sender, command, &source)?;
        source.advance(command);
        io.write_consumed = source.consumed;
    }
    Ok(())
}

/// The write buffer of the calling process.
struct Source {
    address: u64,
    size: u64,
    /// Up to where commands have run.
    consumed: u64,
    /// Bytes that have been read; those from `start` on lie behind `consumed`.
    piece: StackBytes<PIECE>,
    start: usize,
}

impl Source {
    fn new(io: &WriteRead) -> Self {
        Self {
            address: io.write_buffer,
            size: io.write_size,
            consumed: io.write_consumed,
            piece: StackBytes::new(),
            start: 0,
        }
    }

    fn remaining(&self) -> u64 {
        self.size.saturating_sub(self.consumed)
    }

    /// The command that comes next, whose payload is there as well. `EFAULT` when it is cut off or
    /// unreadable, `EINVAL` when there is no such command.
    fn command(&mut self) -> Result<Command> {
        self.require(size_of::<u32>())?;
        let code = u32::from_ne_bytes(*self.bytes(0)?);
        let command = Command::from_code(code).ok_or(EINVAL)?;
        self.require(size_of::<u32>() + command.payload_size())?;
        Ok(command)
    }

    /// The payload of the command that comes next.
    fn payload<const SIZE: usize>(&self) -> Result<&[u8; SIZE]> {
        self.bytes(size_of::<u32>())
    }

    fn bytes<const SIZE: usize>(&self, at: usize) -> Result<&[u8; SIZE]> {
        let read = self.piece.as_slice().get(self.start + at..);
        read.and_then(|read| read.first_chunk()).ok_or(EFAULT)
    }

    /// Makes sure that so many bytes behind `consumed` are in the piece.
    fn require(&mut self, size: usize) -> Result {
        if self.piece.as_slice().len() - self.start >= size {
            return Ok(());
        }
        let remaining = usize::try_from(self.remaining()).unwrap_or(usize::MAX);
        let readable = remaining.min(PIECE);
        if readable < size {
            return Err(EFAULT);
        }
        let address = self.address.checked_add(self.consumed).ok_or(EFAULT)?;
        let address = UserPtr::from_addr(usize::try_from(address).map_err(|_| EFAULT)?);
        self.start = 0;
        self.piece.read_user(address, readable)
    }

    /// The command has run.
    fn advance(&mut self, command: Command) {
        let size = size_of::<u32>() + command.payload_size();
        self.start += size;
        self.consumed += size as u64;
    }
}

/// Runs one command. Fails only where the contract lets the ioctl fail (WR-3); whatever else user
/// space gets wrong has no effect, or is answered by a `BR_*`.
///
/// What most calls consist of is here, and inlined; the rest is elsewhere, so that it costs them nothing.
#[inline(always)]
fn execute(sender: &Sender<'_>, command: Command, source: &Source) -> Result {
    match command {
        Command::Transaction => {
            let request = TransactionRequest::decode(source.payload()?);
            send::call(sender, &request);
        }
        Command::Reply => {
            let request = TransactionRequest::decode(source.payload()?);
            send::reply(sender, &request);
        }
        Command::FreeBuffer => free_buffer(sender, source)?,
        _ => execute_other(sender, command, source)?,
    }
    Ok(())
}

/// The same for the other commands.
#[inline(never)]
fn execute_other(sender: &Sender<'_>, command: Command, source: &Source) -> Result {
    let thread = sender.thread;
    let process = &thread.process;
    match command {
        // Run by `execute`.
        Command::Transaction | Command::Reply | Command::FreeBuffer => {}
        Command::TransactionSg => {
            let request = TransactionRequest::decode_sg(source.payload()?);
            send::call(sender, &request);
        }
        Command::ReplySg => {
            let request = TransactionRequest::decode_sg(source.payload()?);
            send::reply(sender, &request);
        }
        Command::IncRefs => add_count(process, handle(source)?, Strength::Weak)?,
        Command::Acquire => add_count(process, handle(source)?, Strength::Strong)?,
        Command::Release => drop_count(process, handle(source)?, Strength::Strong),
        Command::DecRefs => drop_count(process, handle(source)?, Strength::Weak),
        Command::IncRefsDone => confirm(process, source, Strength::Weak)?,
        Command::AcquireDone => confirm(process, source, Strength::Strong)?,
        Command::RequestDeathNotification => request_death_notification(thread, source)?,
        Command::ClearDeathNotification => clear_death_notification(thread, source)?,
        Command::DeadBinderDone => confirm_death(thread, source)?,
        Command::RequestFreezeNotification
        | Command::ClearFreezeNotification
        | Command::FreezeNotificationDone => freeze_notification(process, command, source)?,
        Command::RegisterLooper => register_looper(thread),
        Command::EnterLooper => enter_looper(thread),
        // The thread is one of the pool until it ends (contract LOOP-4).
        Command::ExitLooper => {}
    }
    Ok(())
}

/// `BC_FREE_BUFFER` (contract OBJ-12).
#[inline(always)]
fn free_buffer(sender: &Sender<'_>, source: &Source) -> Result {
    let thread = sender.thread;
    let address = u64::from_ne_bytes(*source.payload()?);
    match thread.process.free_buffer(address, sender.descriptors) {
        Some(AfterFree::Nothing) => {}
        Some(AfterFree::ReturnSoon) => thread.must_return.store(true, Relaxed),
        None => binder_debug!(UserError, "no buffer to free at {address:#x}"),
    }
    Ok(())
}

fn handle(source: &Source) -> Result<u32> {
    Ok(u32::from_ne_bytes(*source.payload()?))
}

/// `BC_INCREFS` and `BC_ACQUIRE`: handle 0 means the context manager, if there is one (CTX-4).
fn add_count(process: &Arc<Process>, handle: u32, strength: Strength) -> Result {
    let manager = match handle {
        0 => process.context.manager(),
        _ => None,
    };
    if let Some(node) = manager {
        if Arc::ptr_eq(&node.owner, process) {
            return Err(EINVAL);
        }
        if process.hold_node(&node, strength, None).is_ok() {
            return Ok(());
        }
    }
    // A count that cannot be taken is not taken; that is all (contract NODE-9).
    if process.hold_handle(handle, strength).is_err() {
        binder_debug!(UserError, "no count to take on handle {handle}");
    }
    Ok(())
}

/// `BC_RELEASE` and `BC_DECREFS`: a count that is not there cannot be given back (NODE-9).
fn drop_count(process: &Process, handle: u32, strength: Strength) {
    if process.drop_handle(handle, strength).is_none() {
        binder_debug!(UserError, "no count to give back on handle {handle}");
    }
}

/// `BC_INCREFS_DONE` and `BC_ACQUIRE_DONE` (contract NODE-8).
fn confirm(process: &Process, source: &Source, strength: Strength) -> Result {
    let name = NodeName::decode(source.payload()?);
    match process.node(name.ptr) {
        Some(node) if node.name.cookie == name.cookie => node.confirm(strength),
        _ => binder_debug!(UserError, "confirms a count of no node: {:#x}", name.ptr),
    }
    Ok(())
}

/// `BC_REQUEST_DEATH_NOTIFICATION`: of all that can go wrong, only want of memory is told (DN-1).
fn request_death_notification(thread: &Arc<Thread>, source: &Source) -> Result {
    let HandleCookie { handle, cookie } = HandleCookie::decode(source.payload()?);
    match death::request(&thread.process, handle, cookie) {
        Ok(()) => {}
        Err(ENOMEM) => thread.queue_out_of_memory(),
        Err(_) => binder_debug!(
            UserError,
            "handle {handle} can have no new death notification"
        ),
    }
    Ok(())
}

/// `BC_CLEAR_DEATH_NOTIFICATION` (contract DN-3).
fn clear_death_notification(thread: &Arc<Thread>, source: &Source) -> Result {
    let HandleCookie { handle, cookie } = HandleCookie::decode(source.payload()?);
    if death::clear(thread, handle, cookie).is_err() {
        binder_debug!(
            UserError,
            "handle {handle} has no death notification {cookie:#x}"
        );
    }
    Ok(())
}

/// `BC_DEAD_BINDER_DONE` (contract DN-2).
fn confirm_death(thread: &Arc<Thread>, source: &Source) -> Result {
    let cookie = u64::from_ne_bytes(*source.payload()?);
    if death::confirm(thread, cookie).is_err() {
        binder_debug!(UserError, "no death {cookie:#x} to confirm");
    }
    Ok(())
}

/// The commands about notifications of freezing. Unlike those about deaths, they fail the ioctl when they
/// make no sense (contract FRZN-6).
fn freeze_notification(process: &Arc<Process>, command: Command, source: &Source) -> Result {
    let done = match command {
        Command::FreezeNotificationDone => {
            freeze::confirm(process, u64::from_ne_bytes(*source.payload()?))
        }
        _ => {
            let HandleCookie { handle, cookie } = HandleCookie::decode(source.payload()?);
            if command == Command::RequestFreezeNotification {
                freeze::request(process, handle, cookie)
            } else {
                freeze::clear(process, handle, cookie)
            }
        }
    };
    done.inspect_err(|_| binder_debug!(UserError, "a freeze notification that there is not"))
}

/// `BC_REGISTER_LOOPER`: a thread that the driver asked for joins the pool (contract LOOP-3).
fn register_looper(thread: &Thread) {
    let mut process = thread.process.lock_state();
    let is_expected = process.pool.is_thread_requested;
    let looper = &mut thread.state(&mut process).looper;
    looper.registered = true;
    if !looper.entered && is_expected {
        process.pool.is_thread_requested = false;
        process.pool.started += 1;
        return;
    }
    drop(process);
    binder_debug!(UserError, "a thread registers that was not asked for");
}

/// `BC_ENTER_LOOPER`: a thread joins the pool on its own account (contract LOOP-2).
fn enter_looper(thread: &Thread) {
    let mut process = thread.process.lock_state();
    let looper = &mut thread.state(&mut process).looper;
    looper.entered = true;
    let has_registered = looper.registered;
    drop(process);
    if has_registered {
        binder_debug!(UserError, "a thread enters the pool that has registered");
    }
}
