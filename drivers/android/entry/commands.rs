// SPDX-License-Identifier: GPL-2.0

//! The write half of `BINDER_WRITE_READ`: decodes one command after the other, and runs it.
//!
//! Commands are read from user space in bounded pieces, each byte once. A command starts to run
//! only after all of it has been read and found to lie within the write buffer (lesson C17).

use crate::{
    allocation::AfterFree,
    calls::{
        reply,
        send,
        sender::Sender, //
    },
    common::{
        code_counts::Counter,
        debug::{binder_debug, errno_name}, //
    },
    defs::{Command, HandleCookie, NodeName, Strength, TransactionRequest, WriteRead},
    entry::refusals,
    kernel_ext::stack_bytes::StackBytes,
    node::NodeInUse,
    notifications::{death, freeze},
    process::Process,
    pure::looper::NotRequested,
    thread::Thread,
    trace,
    waits, //
};
use kernel::{
    fmt,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    uaccess::UserPtr, //
};

/// How many bytes of commands are read at once. A usual write fits: a command that frees a buffer,
/// and one that makes a call.
const PIECE: usize = 128;

/// Runs commands from the write buffer until its end, until the first malformed command, or until
/// the first command after which the thread has an error to read. [`Sender::consumed`] advances
/// behind each command that ran (contract WR-2).
///
/// `sender` is the calling thread. Fails like [`Source::command`] and [`execute`].
pub(crate) fn run(sender: &Sender<'_>, io: &WriteRead) -> Result {
    let mut source = Source::new(io);
    while source.remaining() > 0 && !sender.thread.has_unread_error.load(Relaxed) {
        let command = source.command().inspect_err(|_| {
            source.count_refused(sender.thread);
            source.tell_malformed();
        })?;
        let last = execute(sender, command, &mut source)?;
        source.advance(last);
        sender.consumed.set(source.consumed);
    }
    Ok(())
}

/// The write buffer of the calling process.
struct Source {
    address: u64,
    size: u64,
    /// The offset up to which commands have run.
    consumed: u64,
    /// Bytes that have been read. The byte at `start` is the one at offset `consumed` of the
    /// buffer.
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

    /// Whether no command follows the next one, which is `command`.
    fn is_last(&self, command: Command) -> bool {
        self.remaining() == (size_of::<u32>() + command.payload_size()) as u64
    }

    /// Returns the request of the reply that follows the next command, which is to free a buffer,
    /// if one does and has been read.
    #[inline(always)]
    fn reply_behind(&self) -> Option<TransactionRequest> {
        const AT: usize = size_of::<u32>() + Command::FreeBuffer.payload_size();
        const SIZE: usize = size_of::<u32>() + Command::Reply.payload_size();
        let next = self.piece.array_at::<SIZE>(self.start + AT)?;
        let (code, payload) = next.split_first_chunk()?;
        if *code != Command::Reply.code().to_ne_bytes() {
            return None;
        }
        Some(TransactionRequest::decode(payload.first_chunk()?))
    }

    /// Returns the next command, after its payload has been read as well. Fails with `EFAULT` when
    /// the command is cut off or unreadable, and with `EINVAL` when no such command exists.
    fn command(&mut self) -> Result<Command> {
        self.require(size_of::<u32>())?;
        let code = u32::from_ne_bytes(*self.bytes(0)?);
        trace::command(code);
        let command = Command::from_code(code).ok_or(EINVAL)?;
        self.require(size_of::<u32>() + command.payload_size())?;
        Ok(command)
    }

    /// Tells why the next command cannot run.
    #[cold]
    fn tell_malformed(&self) {
        match self.bytes(0).map(|code| u32::from_ne_bytes(*code)) {
            Ok(code) if Command::from_code(code).is_none() => refusals::malformed(
                self.consumed,
                fmt!("{code:#x} is no command, or none any more; commands before it have run"),
            ),
            _ => refusals::malformed(
                self.consumed,
                fmt!(
                    "of {} bytes is unreadable, or ends within a command",
                    self.size
                ),
            ),
        }
    }

    /// Tells of the next command, which is `command`, that it has no effect, and why. No lock may
    /// be held.
    #[cold]
    fn refuse(&self, command: Command, why: fmt::Arguments<'_>) {
        refusals::command(command.name(), self.consumed, why);
    }

    /// Returns the payload of the next command.
    fn payload<const SIZE: usize>(&self) -> Result<&[u8; SIZE]> {
        self.bytes(size_of::<u32>())
    }

    /// Counts the next command, which does not run, if its code could be read.
    #[cold]
    fn count_refused(&self, thread: &Thread) {
        if let Ok(code) = self.bytes(0) {
            if let Some(counter) = Counter::of_refused(u32::from_ne_bytes(*code)) {
                thread.count(counter);
            }
        }
    }

    fn bytes<const SIZE: usize>(&self, at: usize) -> Result<&[u8; SIZE]> {
        self.piece.array_at(self.start + at).ok_or(EFAULT)
    }

    /// Reads from user space unless the piece has `size` bytes behind `consumed` already. Fails
    /// with `EFAULT` when the write buffer ends before that, or is unreadable.
    fn require(&mut self, size: usize) -> Result {
        if self.piece.has(self.start, size) {
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
        let is_read = self.piece.read_user(address, readable);
        is_read.or_else(|_| self.read_no_further(address, size))
    }

    /// Reads `size` bytes, behind which something may be unreadable that the next command does not
    /// need. If they are unreadable themselves, reads the code of the command, which is counted.
    #[cold]
    fn read_no_further(&mut self, address: UserPtr, size: usize) -> Result {
        let is_read = self.piece.read_user(address, size);
        if is_read.is_err() {
            let _ = self.piece.read_user(address, size_of::<u32>());
        }
        is_read
    }

    /// Advances behind `command`, which has run.
    fn advance(&mut self, command: Command) {
        let size = size_of::<u32>() + command.payload_size();
        self.start += size;
        self.consumed += size as u64;
    }
}

/// Counts one command and runs it, and a reply behind a buffer that is freed. Returns the last one,
/// behind which the source is to advance. Fails only where the contract lets the ioctl fail (WR-3).
/// Other errors of user space have no effect, or are answered by a `BR_*`.
///
/// The commands of which most calls consist are handled here, and inlined. The others are handled
/// by [`execute_other`], so that they cost these calls nothing.
#[inline(always)]
fn execute(sender: &Sender<'_>, command: Command, source: &mut Source) -> Result<Command> {
    let count = |command| sender.thread.count(Counter::of_command(command));
    match command {
        Command::Transaction => {
            let request = TransactionRequest::decode(source.payload()?);
            count(Command::Transaction);
            if let Some(target) = send::call(sender, &request) {
                waits::look_for_cycle(sender.thread, &target);
            }
        }
        Command::Reply => {
            let request = TransactionRequest::decode(source.payload()?);
            run_reply(sender, &request, source, None);
        }
        Command::FreeBuffer => {
            let address = u64::from_ne_bytes(*source.payload()?);
            count(Command::FreeBuffer);
            if let Some(node) = free_buffer(sender, address, source) {
                return Ok(end_use(sender, node, source));
            }
        }
        _ => {
            count(command);
            execute_other(sender, command, source)?;
        }
    }
    Ok(command)
}

/// Counts `BC_REPLY` and runs it.
#[inline(always)]
fn run_reply(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    source: &Source,
    freed: Option<NodeInUse>,
) {
    sender.thread.count(Counter::of_command(Command::Reply));
    reply::reply(sender, request, source.is_last(Command::Reply), freed);
}

/// Ends the use of the node of a call whose buffer was freed by the command that runs. A reply
/// behind it, for which the state is locked anyway, does that as well. Returns the last command
/// that has run.
#[inline(always)]
fn end_use(sender: &Sender<'_>, freed: NodeInUse, source: &mut Source) -> Command {
    let Some(request) = source.reply_behind() else {
        freed.end();
        return Command::FreeBuffer;
    };
    source.advance(Command::FreeBuffer);
    sender.consumed.set(source.consumed);
    trace::command(Command::Reply.code());
    run_reply(sender, &request, source, Some(freed));
    Command::Reply
}

/// Runs one of the commands that [`execute`] does not run itself. Fails like it.
#[inline(never)]
fn execute_other(sender: &Sender<'_>, command: Command, source: &Source) -> Result {
    let thread = sender.thread;
    let process = &thread.process;
    match command {
        // Run by `execute`.
        Command::Transaction | Command::Reply | Command::FreeBuffer => {}
        Command::TransactionSg => {
            let request = TransactionRequest::decode_sg(source.payload()?);
            if let Some(target) = send::call(sender, &request) {
                waits::look_for_cycle(sender.thread, &target);
            }
        }
        Command::ReplySg => {
            let request = TransactionRequest::decode_sg(source.payload()?);
            let is_last = source.is_last(Command::ReplySg);
            reply::reply(sender, &request, is_last, None);
        }
        Command::IncRefs => add_count(process, source, Strength::Weak)?,
        Command::Acquire => add_count(process, source, Strength::Strong)?,
        Command::Release => drop_count(process, source, Strength::Strong)?,
        Command::DecRefs => drop_count(process, source, Strength::Weak)?,
        Command::IncRefsDone => confirm(process, source, Strength::Weak)?,
        Command::AcquireDone => confirm(process, source, Strength::Strong)?,
        Command::RequestDeathNotification => request_death_notification(thread, source)?,
        Command::ClearDeathNotification => clear_death_notification(thread, source)?,
        Command::DeadBinderDone => confirm_death(thread, source)?,
        Command::RequestFreezeNotification
        | Command::ClearFreezeNotification
        | Command::FreezeNotificationDone => freeze_notification(process, command, source)?,
        Command::RegisterLooper => register_looper(thread, source),
        Command::EnterLooper => enter_looper(thread, source),
        Command::ExitLooper => {
            let mut process = thread.process.lock_state();
            thread.state(&mut process).looper.exit();
        }
    }
    Ok(())
}

/// Runs `BC_FREE_BUFFER` (contract OBJ-12). Returns the node of the call that the buffer was for.
#[inline(always)]
fn free_buffer(sender: &Sender<'_>, address: u64, source: &Source) -> Option<NodeInUse> {
    let thread = sender.thread;
    let Some((after, node)) = thread.process.free_buffer(address, sender.descriptors) else {
        source.refuse(
            Command::FreeBuffer,
            fmt!("no buffer begins at {address:#x}, or it is freed; free each address that was read, once"),
        );
        return None;
    };
    if let AfterFree::ReturnSoon = after {
        thread.must_return.store(true, Relaxed);
    }
    node
}

fn handle(source: &Source) -> Result<u32> {
    Ok(u32::from_ne_bytes(*source.payload()?))
}

/// Runs `BC_INCREFS` and `BC_ACQUIRE`. Handle 0 means the context manager, if one is installed
/// (contract CTX-4). Fails with `EINVAL` when the context manager takes a count on itself.
fn add_count(process: &Arc<Process>, source: &Source, strength: Strength) -> Result {
    let handle = handle(source)?;
    let command = match strength {
        Strength::Strong => Command::Acquire,
        Strength::Weak => Command::IncRefs,
    };
    let manager = match handle {
        0 => process.context.manager(),
        _ => None,
    };
    if let Some(node) = manager {
        if Arc::ptr_eq(node.owner(), process) {
            source.refuse(
                command,
                fmt!("handle 0 is the context manager's own node; it needs no count"),
            );
            return Err(EINVAL);
        }
        match process.hold_node(&node, strength, None) {
            Ok(0) => return Ok(()),
            Ok(found) if process.context.is_manager(&node) => {
                source.refuse(
                    command,
                    fmt!("the process knows the context manager as handle {found}, which has the count now"),
                );
                return Ok(());
            }
            // It has ended meanwhile, so handle 0 means it no more.
            Ok(found) => drop(process.drop_handle(found, strength)),
            Err(_) => {}
        }
    }
    // A count that cannot be taken has no effect, and the ioctl does not fail (contract NODE-9).
    if process.hold_handle(handle, strength).is_err() {
        source.refuse(
            command,
            fmt!("there is no handle {handle} to take a count on; do so before the buffer it came in is freed"),
        );
    }
    Ok(())
}

/// Runs `BC_RELEASE` and `BC_DECREFS`. Dropping a count that the process does not have has no
/// effect (contract NODE-9).
fn drop_count(process: &Process, source: &Source, strength: Strength) -> Result {
    let handle = handle(source)?;
    if process.drop_handle(handle, strength).is_none() {
        let command = match strength {
            Strength::Strong => Command::Release,
            Strength::Weak => Command::DecRefs,
        };
        source.refuse(
            command,
            fmt!("the process has no such count on handle {handle}; give back each count once"),
        );
    }
    Ok(())
}

/// Runs `BC_INCREFS_DONE` and `BC_ACQUIRE_DONE` (contract NODE-8).
fn confirm(process: &Process, source: &Source, strength: Strength) -> Result {
    let NodeName { ptr, cookie } = NodeName::decode(source.payload()?);
    let command = match strength {
        Strength::Strong => Command::AcquireDone,
        Strength::Weak => Command::IncRefsDone,
    };
    match process.node(ptr) {
        Some(node) if node.name.cookie == cookie => {
            if !node.confirm(strength) {
                source.refuse(
                    command,
                    fmt!(
                        "node {ptr:#x} waits for no such answer; answer once to each that was read"
                    ),
                );
            }
        }
        _ => source.refuse(
            command,
            fmt!(
                "the process has no node {ptr:#x} with cookie {cookie:#x}; send back what was read"
            ),
        ),
    }
    Ok(())
}

/// Runs `BC_REQUEST_DEATH_NOTIFICATION`. Of all its errors, only `ENOMEM` is answered by a `BR_*`
/// (contract DN-1).
fn request_death_notification(thread: &Arc<Thread>, source: &Source) -> Result {
    let HandleCookie { handle, cookie } = HandleCookie::decode(source.payload()?);
    match death::request(&thread.process, handle, cookie) {
        Ok(()) => binder_debug!(
            DeathNotification,
            "wants to be notified, with cookie {cookie:#x}, of the death behind handle {handle}"
        ),
        Err(ENOMEM) => thread.queue_out_of_memory(),
        Err(_) => source.refuse(
            Command::RequestDeathNotification,
            fmt!("there is no handle {handle}, or it has a death notification; clear that first"),
        ),
    }
    Ok(())
}

/// Runs `BC_CLEAR_DEATH_NOTIFICATION` (contract DN-3).
fn clear_death_notification(thread: &Arc<Thread>, source: &Source) -> Result {
    let HandleCookie { handle, cookie } = HandleCookie::decode(source.payload()?);
    if death::clear(thread, handle, cookie).is_err() {
        source.refuse(
            Command::ClearDeathNotification,
            fmt!("handle {handle} has no death notification with cookie {cookie:#x}; clear it once, while the handle lives"),
        );
    }
    Ok(())
}

/// Runs `BC_DEAD_BINDER_DONE` (contract DN-2).
fn confirm_death(thread: &Arc<Thread>, source: &Source) -> Result {
    let cookie = u64::from_ne_bytes(*source.payload()?);
    if death::confirm(thread, cookie).is_err() {
        source.refuse(
            Command::DeadBinderDone,
            fmt!("no BR_DEAD_BINDER with cookie {cookie:#x} waits for that; confirm each once"),
        );
    }
    Ok(())
}

/// Runs the commands about freeze notifications. Unlike those about death notifications, they fail
/// the ioctl when they are invalid (contract FRZN-6).
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
    done.inspect_err(|error| {
        let why = match command {
            Command::FreezeNotificationDone => "no BR_FROZEN_BINDER with that cookie waits for it",
            Command::RequestFreezeNotification => {
                "there is no such handle, or it has a freeze notification, which has to be cleared first"
            }
            _ => "the handle has no freeze notification with that cookie",
        };
        let errno = errno_name(error.to_errno());
        source.refuse(command, fmt!("{errno}: {why}"));
    })
}

/// Runs `BC_REGISTER_LOOPER`. Takes the state lock.
fn register_looper(thread: &Thread, source: &Source) {
    let mut process = thread.process.lock_state();
    let mut pool = process.pool;
    let registered = thread.state(&mut process).looper.register(&mut pool);
    process.pool = pool;
    drop(process);
    let why = match registered {
        Ok(()) => return binder_debug!(Threads, "joins the pool, as asked"),
        Err(NotRequested::HasEntered) => {
            "the thread has entered the pool (BC_ENTER_LOOPER) and is in it; do one of both"
        }
        Err(NotRequested::Nobody) => {
            "no thread was asked for (BR_SPAWN_LOOPER); use BC_ENTER_LOOPER"
        }
    };
    source.refuse(Command::RegisterLooper, fmt!("{why}"));
}

/// Runs `BC_ENTER_LOOPER`. Takes the state lock.
fn enter_looper(thread: &Thread, source: &Source) {
    let mut process = thread.process.lock_state();
    let is_valid = thread.state(&mut process).looper.enter();
    drop(process);
    binder_debug!(Threads, "joins the pool");
    if !is_valid {
        source.refuse(
            Command::EnterLooper,
            fmt!("the thread has joined the pool when asked (BC_REGISTER_LOOPER); do one of both"),
        );
    }
}
