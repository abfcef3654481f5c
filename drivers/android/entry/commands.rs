// SPDX-License-Identifier: GPL-2.0

//! The write half of `BINDER_WRITE_READ`: takes one command after the other from the write buffer,
//! and runs it.
//!
//! Commands are read from user space in bounded pieces. A command starts to run only after all of
//! it has been read and found to lie within the write buffer (lesson C17). If a piece ends within a
//! command, the next one begins with that command: its code is what was read first, its payload
//! what was read last.

use crate::{
    allocation::{BufferObjects, Freed},
    calls::{
        reply::reply,
        send::call,
        ReplySent,
        Sender, //
    },
    common::{
        debug::{binder_debug, errno_name},
        stats::Counter, //
    },
    death_notification,
    defs::{
        Command,
        HandleCookie,
        NodeName,
        Return,
        TransactionData,
        TransactionDataSg,
        TransactionRequest,
        WriteRead, //
    },
    ffi::{self, trace},
    freeze_notification,
    kernel_ext::{
        once::{read_once, write_once},
        user::{Plain, UserBytes},
    },
    node::NodeInUse,
    process::Process,
    pure::{looper::NotRequested, node_counts::Strength},
    thread::Thread,
};
use core::mem::offset_of;
use kernel::{
    fmt,
    ioctl::{_IOC_NR, _IOC_SIZE},
    prelude::*,
    sync::Arc,
    uaccess::UserPtr, //
};

/// The number of bytes of commands that are read at once. A usual write fits: a command that frees
/// a buffer, and one that makes a call.
const PIECE: usize = 128;

/// Runs commands from the write buffer that `io` describes: until its end, the first malformed
/// command, or the first command after which the thread has an error to read. Advances
/// `write_consumed` behind each command that ran (contract WR-2). Returns what the last one leaves
/// for the read half. `sender` is the calling thread.
///
/// Each command is counted before it runs. An error of user space has no effect, or is answered by
/// a `BR_*`. The function fails only where the contract lets the ioctl fail (WR-3).
///
/// The commands of which most calls consist are handled here. The others are handled by
/// [`execute_other`], so that they cost these calls nothing.
pub(crate) fn run(sender: &mut Sender<'_>, io: &mut WriteRead) -> Result<Option<ReplySent>> {
    let thread = sender.thread;
    let count = |command| thread.count(Counter::of_command(command));
    // Addresses wrap around, as in the C driver: a buffer that would end beyond the last address
    // has no commands (contract WR-2).
    let end = io.write_buffer.wrapping_add(io.write_size);
    let mut piece = UserBytes::new();
    let mut input = WriteBuffer {
        remaining: end.saturating_sub(io.write_buffer.wrapping_add(io.write_consumed)),
        io,
        piece: &mut piece,
        size: 0,
    };
    let mut sent = None;
    let mut freed = None;
    while input.remaining > 0 && !read_once(&thread.has_unread_error) {
        let command = input.command();
        let command = command.inspect_err(|error| input.malformed(thread, *error))?;
        sender.at = input.io.write_consumed;
        sent = None;
        match command {
            Command::Transaction => {
                let request = TransactionRequest::from(input.payload::<TransactionData>()?);
                count(command);
                call(sender, &request);
            }
            Command::Reply => {
                let request = TransactionRequest::from(input.payload::<TransactionData>()?);
                count(command);
                // True if no command follows.
                let is_last = input.remaining == input.size as u64;
                sent = reply(sender, &request, is_last, freed.take());
            }
            Command::FreeBuffer => {
                let address = input.payload()?;
                count(command);
                freed = free_buffer(sender, &input, address);
            }
            _ => {
                count(command);
                sent = execute_other(sender, command, &input)?;
            }
        }
        input.piece.skip(input.size);
        // No more than the size of the buffer: all of the command was in the piece, which ends with
        // the buffer at the latest.
        input.remaining = input.remaining.wrapping_sub(input.size as u64);
        input.io.write_consumed = input.io.write_consumed.wrapping_add(input.size as u64);
    }
    Ok(sent)
}

/// The write buffer of the calling process, from which commands are decoded.
struct WriteBuffer<'a> {
    /// The description of the buffer. Nothing else writes `write_consumed`, the offset of the next
    /// command.
    io: &'a mut WriteRead,
    /// The number of bytes of commands that have not run.
    remaining: u64,
    /// The part of the buffer that has been read, from the next command on.
    piece: &'a mut UserBytes<PIECE>,
    /// The number of bytes of the next command, its code and its payload.
    size: usize,
}

impl WriteBuffer<'_> {
    /// Returns the next command, after its payload has been read as well. Fails with `EFAULT` when
    /// the command is cut off or unreadable, and with `EINVAL` when no such command exists.
    fn command(&mut self) -> Result<Command> {
        self.require(size_of::<u32>())?;
        let code = self.piece.value::<0, _>().ok_or(EFAULT)?;
        trace::command(code);
        let command = match Command::BY_NUMBER.get(_IOC_NR(code) as usize) {
            Some(Some(command)) if command.code() == code => *command,
            _ => return Err(EINVAL),
        };
        self.size = size_of::<u32>() + _IOC_SIZE(code);
        self.require(self.size)?;
        Ok(command)
    }

    /// Counts the next command, which cannot run because of `error`, if its code could be read, and
    /// logs why. That is no error of user space in the sense of `stop_on_user_error`: nor is it
    /// with the C driver. No lock may be held.
    #[cold]
    fn malformed(&self, thread: &Thread, error: Error) {
        let code = self.piece.value::<0, u32>();
        if let Some(counter) = code.and_then(Counter::of_refused) {
            thread.count(counter);
        }
        let at = self.io.write_consumed;
        match code {
            Some(code) if error == EINVAL => binder_debug!(
                UserError,
                "write buffer at offset {at}: {code:#x} is no command, or none any more; commands before it have run"
            ),
            _ => binder_debug!(
                UserError,
                "write buffer at offset {at}: of {} bytes is unreadable, or ends within a command",
                self.io.write_size
            ),
        }
    }

    /// Logs of the next command that it has no effect, and why. Stops the users of the devices, if
    /// `stop_on_user_error` is not 0. No lock may be held.
    #[cold]
    fn refuse(&self, why: fmt::Arguments<'_>) {
        let at = self.io.write_consumed;
        let name_of = |code| Command::NAMES.get(_IOC_NR(code) as usize);
        let name = self.piece.value::<0, _>().and_then(name_of).unwrap_or(&"");
        binder_debug!(
            UserError,
            "{name} at offset {at} of the write buffer: {why}"
        );
        ffi::user_error_happened();
    }

    /// Returns the payload of the next command.
    #[inline(always)]
    fn payload<T: Plain>(&self) -> Result<T> {
        self.piece.value::<{ size_of::<u32>() }, _>().ok_or(EFAULT)
    }

    /// Returns the payload of a command about a notification, part by part: it is packed, and
    /// would be moved in odd pieces.
    #[inline(always)]
    fn handle_and_cookie(&self) -> Result<(u32, u64)> {
        const HANDLE: usize = size_of::<u32>() + offset_of!(HandleCookie, handle);
        const COOKIE: usize = size_of::<u32>() + offset_of!(HandleCookie, cookie);
        let handle = self.piece.value::<HANDLE, u32>();
        let cookie = self.piece.value::<COOKIE, u64>();
        handle.zip(cookie).ok_or(EFAULT)
    }

    /// Reads from user space unless the piece has `size` bytes of the next command already. Fails
    /// with `EFAULT` when the write buffer ends before that, or is unreadable.
    fn require(&mut self, size: usize) -> Result {
        if self.piece.as_slice().len() >= size {
            return Ok(());
        }
        let remaining = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        let readable = remaining.min(PIECE);
        if readable < size {
            return Err(EFAULT);
        }
        let next = self.io.write_buffer.wrapping_add(self.io.write_consumed);
        let address = UserPtr::from_addr(usize::try_from(next).map_err(|_| EFAULT)?);
        let is_read = self.piece.read(address, readable);
        is_read.or_else(|_| self.read_no_further(address, size))
    }

    /// Reads `size` bytes, behind which something may be unreadable that the next command does not
    /// need. If they are unreadable themselves, reads the code of the command, which is counted.
    #[cold]
    fn read_no_further(&mut self, address: UserPtr, size: usize) -> Result {
        let is_read = self.piece.read(address, size);
        if is_read.is_err() {
            let _ = self.piece.read(address, size_of::<u32>());
        }
        is_read
    }
}

/// Runs one of the commands that [`run`] does not run itself. Fails like it.
#[inline(never)]
fn execute_other(
    sender: &Sender<'_>,
    command: Command,
    input: &WriteBuffer<'_>,
) -> Result<Option<ReplySent>> {
    let thread = sender.thread;
    let process = &thread.process;
    match command {
        // Run by `run`.
        Command::Transaction | Command::Reply | Command::FreeBuffer => {}
        Command::TransactionSg => {
            let request = TransactionRequest::from(input.payload::<TransactionDataSg>()?);
            call(sender, &request);
        }
        Command::ReplySg => {
            let request = TransactionRequest::from(input.payload::<TransactionDataSg>()?);
            let is_last = input.remaining == input.size as u64;
            return Ok(reply(sender, &request, is_last, None));
        }
        Command::IncRefs => add_count(process, input, Strength::Weak)?,
        Command::Acquire => add_count(process, input, Strength::Strong)?,
        Command::Release => drop_count(process, input, Strength::Strong)?,
        Command::DecRefs => drop_count(process, input, Strength::Weak)?,
        Command::IncRefsDone => confirm(process, input, Strength::Weak)?,
        Command::AcquireDone => confirm(process, input, Strength::Strong)?,
        Command::RequestDeathNotification
        | Command::ClearDeathNotification
        | Command::DeadBinderDone => death_notification(thread, command, input)?,
        Command::RequestFreezeNotification
        | Command::ClearFreezeNotification
        | Command::FreezeNotificationDone => freeze_notification(process, command, input)?,
        Command::RegisterLooper => register_looper(thread, input),
        Command::EnterLooper => enter_looper(thread, input),
        Command::ExitLooper => {
            let mut process = thread.process.state.lock();
            thread.state.access_mut(&mut process).looper.exit();
        }
    }
    Ok(None)
}

/// Runs `BC_FREE_BUFFER` (contract OBJ-12). If a reply follows, and has been read, returns the node
/// of the call that the buffer belonged to: the reply locks the state anyway, and ends the use of
/// the node.
fn free_buffer(sender: &Sender<'_>, input: &WriteBuffer<'_>, address: u64) -> Option<NodeInUse> {
    const BEHIND: usize = size_of::<u32>() + size_of::<u64>();
    const PAYLOAD_BEHIND: usize = BEHIND + size_of::<u32>();
    let Some(Freed { node, named }) = sender.thread.process.free_buffer(address) else {
        input.refuse(fmt!(
            "no buffer begins at {address:#x}, or it is freed; free each address that was read, once"
        ));
        return None;
    };
    if let Some(named) = named {
        release_freed(sender, node, named);
        return None;
    }
    let node = node?;
    let payload = input.piece.value::<PAYLOAD_BEHIND, TransactionData>();
    let code = input.piece.value::<BEHIND, u32>();
    if payload.is_some() && code == Some(Command::Reply.code()) {
        return Some(node);
    }
    node.end();
    None
}

/// Ends what a freed buffer held on to, in the order in which the process reads of it: the call's
/// node, then the objects (contract NODE-6).
#[inline(never)] // All commands would have its stack frame.
fn release_freed(sender: &Sender<'_>, node: Option<NodeInUse>, named: KBox<BufferObjects>) {
    if let Some(node) = node {
        node.end();
    }
    let thread = sender.thread;
    let descriptors = Some(sender.descriptors);
    if thread.process.release_objects(named, descriptors) {
        write_once(&thread.must_return, true);
    }
}

/// Runs `BC_INCREFS` and `BC_ACQUIRE`. Handle 0 means the context manager, if one is installed
/// (contract CTX-4). Fails with `EINVAL` when the context manager takes a count on itself.
fn add_count(process: &Arc<Process>, input: &WriteBuffer<'_>, strength: Strength) -> Result {
    let handle = input.payload()?;
    let manager = match handle {
        0 => process.context.manager(),
        _ => None,
    };
    if let Some(node) = manager {
        if node.owner().is(process) {
            input.refuse(fmt!(
                "handle 0 is the context manager's own node; it needs no count"
            ));
            return Err(EINVAL);
        }
        match process.hold_node(&node, strength, None) {
            Ok(0) => return Ok(()),
            Ok(found) if process.context.is_manager(&node) => {
                input.refuse(fmt!(
                    "the context manager is handle {found} of the process, which has the count now"
                ));
                return Ok(());
            }
            // The manager has ended, so handle 0 no longer means its node.
            Ok(found) => drop(process.drop_handle(found, strength)),
            Err(_) => {}
        }
    }
    // A count that cannot be taken has no effect, and the ioctl does not fail (contract NODE-9).
    if process.hold_handle(handle, strength).is_err() {
        input.refuse(fmt!(
            "there is no handle {handle} to take a count on; do so before the buffer it came in is freed"
        ));
    }
    Ok(())
}

/// Runs `BC_RELEASE` and `BC_DECREFS`. Dropping a count that the process does not have has no
/// effect (contract NODE-9).
fn drop_count(process: &Process, input: &WriteBuffer<'_>, strength: Strength) -> Result {
    let handle = input.payload()?;
    if process.drop_handle(handle, strength).is_none() {
        input.refuse(fmt!(
            "the process has no such count on handle {handle}; give back each count once"
        ));
    }
    Ok(())
}

/// Runs `BC_INCREFS_DONE` and `BC_ACQUIRE_DONE` (contract NODE-8).
fn confirm(process: &Process, input: &WriteBuffer<'_>, strength: Strength) -> Result {
    let NodeName { ptr, cookie } = input.payload()?;
    let node = process.node(ptr);
    if !node.is_some_and(|node| node.confirm(cookie, strength)) {
        input.refuse(fmt!(
            "no node {ptr:#x} with cookie {cookie:#x} waits for that; answer each update once"
        ));
    }
    Ok(())
}

/// Runs the commands about death notifications (contract DN-1 to DN-3). Of all errors, only
/// `ENOMEM` is answered by a `BR_*`.
fn death_notification(thread: &Arc<Thread>, command: Command, input: &WriteBuffer<'_>) -> Result {
    if command == Command::DeadBinderDone {
        let cookie = input.payload()?;
        if death_notification::confirm(thread, cookie).is_err() {
            input.refuse(fmt!(
                "no BR_DEAD_BINDER with cookie {cookie:#x} waits for that; confirm each once"
            ));
        }
        return Ok(());
    }
    let (handle, cookie) = input.handle_and_cookie()?;
    if command == Command::ClearDeathNotification {
        if death_notification::clear(thread, handle, cookie).is_err() {
            input.refuse(fmt!(
                "handle {handle} has no death notification with cookie {cookie:#x}; clear it once, while the handle lives"
            ));
        }
        return Ok(());
    }
    match death_notification::request(&thread.process, handle, cookie) {
        Ok(()) => binder_debug!(
            DeathNotification,
            "requests notification, with cookie {cookie:#x}, of the death behind handle {handle}"
        ),
        Err(ENOMEM) => thread.queue_error_and_wake(thread.process.state.lock(), Return::Error),
        Err(_) => input.refuse(fmt!(
            "there is no handle {handle}, or it has a death notification; clear that first"
        )),
    }
    Ok(())
}

/// Runs the commands about freeze notifications. Unlike those about death notifications, they fail
/// the ioctl when they are invalid (contract FRZN-6).
fn freeze_notification(
    process: &Arc<Process>,
    command: Command,
    input: &WriteBuffer<'_>,
) -> Result {
    let done = match command {
        Command::FreezeNotificationDone => freeze_notification::confirm(process, input.payload()?),
        _ => {
            let (handle, cookie) = input.handle_and_cookie()?;
            if command == Command::RequestFreezeNotification {
                freeze_notification::request(process, handle, cookie)
            } else {
                freeze_notification::clear(process, handle, cookie)
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
        input.refuse(fmt!("{errno}: {why}"));
    })
}

/// Runs `BC_REGISTER_LOOPER`. Takes the state lock.
fn register_looper(thread: &Thread, input: &WriteBuffer<'_>) {
    let mut process = thread.process.state.lock();
    let mut pool = process.pool;
    let own = thread.state.access_mut(&mut process);
    let registered = own.looper.register(&mut pool);
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
    input.refuse(fmt!("{why}"));
}

/// Runs `BC_ENTER_LOOPER`. Takes the state lock.
fn enter_looper(thread: &Thread, input: &WriteBuffer<'_>) {
    let mut process = thread.process.state.lock();
    let is_valid = thread.state.access_mut(&mut process).looper.enter();
    drop(process);
    binder_debug!(Threads, "joins the pool");
    if !is_valid {
        input.refuse(fmt!(
            "the thread has joined the pool on request (BC_REGISTER_LOOPER); do one of both"
        ));
    }
}
