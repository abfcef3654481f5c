// SPDX-License-Identifier: GPL-2.0

//! The write half of `BINDER_WRITE_READ`: takes one command after the other from the write buffer,
//! and runs it.

use crate::{
    allocation::{AfterFree, BufferObjects, Freed},
    calls::{
        reply,
        send,
        sender::{ReplySent, Sender}, //
    },
    common::{
        code_counts::Counter,
        debug::{binder_debug, errno_name}, //
    },
    death_notification,
    defs::{
        Command,
        HandleCookie,
        NodeName,
        TransactionData,
        TransactionDataSg,
        TransactionRequest,
        WriteRead, //
    },
    entry::write_buffer::WriteBuffer,
    ffi::trace,
    freeze_notification,
    node::NodeInUse,
    process::Process,
    pure::{looper::NotRequested, node_counts::Strength},
    thread::Thread, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// Runs commands from the write buffer until its end, until the first malformed command, or until
/// the first command after which the thread has an error to read. [`Sender::consumed`] advances
/// behind each command that ran (contract WR-2). Returns what the last one leaves for the read
/// half.
///
/// `sender` is the calling thread. Fails like [`WriteBuffer::command`] and [`execute`].
pub(crate) fn run(sender: &Sender<'_>, io: &WriteRead) -> Result<Option<ReplySent>> {
    let mut input = WriteBuffer::new(io, &sender.consumed);
    let mut sent = None;
    while input.remaining() > 0 && !sender.thread.has_unread_error.load(Relaxed) {
        let command = input.command().inspect_err(|_| {
            input.count_refused(sender.thread);
            input.tell_malformed();
        })?;
        let last;
        (last, sent) = execute(sender, command, &mut input)?;
        input.advance(last);
    }
    Ok(sent)
}

/// Counts one command and runs it, and a reply behind a buffer that is freed. Returns the last one,
/// behind which the input is to advance, and what it leaves for the read half. Fails only where the
/// contract lets the ioctl fail (WR-3). Other errors of user space have no effect, or are answered
/// by a `BR_*`.
///
/// The commands of which most calls consist are handled here, and inlined. The others are handled
/// by [`execute_other`], so that they cost these calls nothing.
#[inline(always)]
fn execute(
    sender: &Sender<'_>,
    command: Command,
    input: &mut WriteBuffer<'_>,
) -> Result<(Command, Option<ReplySent>)> {
    let count = |command| sender.thread.count(Counter::of_command(command));
    let sent = match command {
        Command::Transaction => {
            let request = TransactionRequest::from(input.payload::<TransactionData>()?);
            count(Command::Transaction);
            send::call(sender, &request);
            None
        }
        Command::Reply => {
            let request = TransactionRequest::from(input.payload::<TransactionData>()?);
            run_reply(sender, &request, input, None)
        }
        Command::FreeBuffer => {
            let address = input.payload()?;
            count(Command::FreeBuffer);
            if let Some(node) = free_buffer(sender, address, input) {
                return Ok(end_use(sender, node, input));
            }
            None
        }
        _ => {
            count(command);
            execute_other(sender, command, input)?
        }
    };
    Ok((command, sent))
}

/// Counts `BC_REPLY` and runs it.
#[inline(always)]
fn run_reply(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    input: &WriteBuffer<'_>,
    freed: Option<NodeInUse>,
) -> Option<ReplySent> {
    sender.thread.count(Counter::of_command(Command::Reply));
    reply::reply(sender, request, input.is_last(Command::Reply), freed)
}

/// Ends the use of the node of a call whose buffer was freed by the command that runs. A reply
/// behind it, for which the state is locked anyway, does that as well. Returns what [`execute`]
/// does.
#[inline(always)]
fn end_use(
    sender: &Sender<'_>,
    freed: NodeInUse,
    input: &mut WriteBuffer<'_>,
) -> (Command, Option<ReplySent>) {
    let Some(request) = input.reply_behind() else {
        freed.end();
        return (Command::FreeBuffer, None);
    };
    let request = TransactionRequest::from(request);
    input.advance(Command::FreeBuffer);
    trace::command(Command::Reply.code());
    let sent = run_reply(sender, &request, input, Some(freed));
    (Command::Reply, sent)
}

/// Runs one of the commands that [`execute`] does not run itself. Fails like it.
#[inline(never)]
fn execute_other(
    sender: &Sender<'_>,
    command: Command,
    input: &WriteBuffer<'_>,
) -> Result<Option<ReplySent>> {
    let thread = sender.thread;
    let process = &thread.process;
    match command {
        // Run by `execute`.
        Command::Transaction | Command::Reply | Command::FreeBuffer => {}
        Command::TransactionSg => {
            let request = TransactionRequest::from(input.payload::<TransactionDataSg>()?);
            send::call(sender, &request);
        }
        Command::ReplySg => {
            let request = TransactionRequest::from(input.payload::<TransactionDataSg>()?);
            let is_last = input.is_last(Command::ReplySg);
            return Ok(reply::reply(sender, &request, is_last, None));
        }
        Command::IncRefs => add_count(process, input, Strength::Weak)?,
        Command::Acquire => add_count(process, input, Strength::Strong)?,
        Command::Release => drop_count(process, input, Strength::Strong)?,
        Command::DecRefs => drop_count(process, input, Strength::Weak)?,
        Command::IncRefsDone => confirm(process, input, Strength::Weak)?,
        Command::AcquireDone => confirm(process, input, Strength::Strong)?,
        Command::RequestDeathNotification => request_death_notification(thread, input)?,
        Command::ClearDeathNotification => clear_death_notification(thread, input)?,
        Command::DeadBinderDone => confirm_death(thread, input)?,
        Command::RequestFreezeNotification
        | Command::ClearFreezeNotification
        | Command::FreezeNotificationDone => freeze_notification(process, command, input)?,
        Command::RegisterLooper => register_looper(thread, input),
        Command::EnterLooper => enter_looper(thread, input),
        Command::ExitLooper => {
            let mut process = thread.process.lock_state();
            thread.state(&mut process).looper.exit();
        }
    }
    Ok(None)
}

/// Runs `BC_FREE_BUFFER` (contract OBJ-12). Returns the node of the call that the buffer was for,
/// if nothing else is left of it.
#[inline(always)]
fn free_buffer(sender: &Sender<'_>, address: u64, input: &WriteBuffer<'_>) -> Option<NodeInUse> {
    let thread = sender.thread;
    let Some(freed) = thread.process.free_buffer(address) else {
        input.refuse(
            Command::FreeBuffer,
            fmt!("no buffer begins at {address:#x}, or it is freed; free each address that was read, once"),
        );
        return None;
    };
    let Freed { node, named } = freed;
    match named {
        None => node,
        Some(named) => {
            release_freed(sender, node, named);
            None
        }
    }
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
    if let AfterFree::ReturnSoon = thread.process.release_objects(named, descriptors) {
        thread.must_return.store(true, Relaxed);
    }
}

/// Runs `BC_INCREFS` and `BC_ACQUIRE`. Handle 0 means the context manager, if one is installed
/// (contract CTX-4). Fails with `EINVAL` when the context manager takes a count on itself.
fn add_count(process: &Arc<Process>, input: &WriteBuffer<'_>, strength: Strength) -> Result {
    let handle = input.payload()?;
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
            input.refuse(
                command,
                fmt!("handle 0 is the context manager's own node; it needs no count"),
            );
            return Err(EINVAL);
        }
        match process.hold_node(&node, strength, None) {
            Ok(0) => return Ok(()),
            Ok(found) if process.context.is_manager(&node) => {
                input.refuse(
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
        input.refuse(
            command,
            fmt!("there is no handle {handle} to take a count on; do so before the buffer it came in is freed"),
        );
    }
    Ok(())
}

/// Runs `BC_RELEASE` and `BC_DECREFS`. Dropping a count that the process does not have has no
/// effect (contract NODE-9).
fn drop_count(process: &Process, input: &WriteBuffer<'_>, strength: Strength) -> Result {
    let handle = input.payload()?;
    if process.drop_handle(handle, strength).is_none() {
        let command = match strength {
            Strength::Strong => Command::Release,
            Strength::Weak => Command::DecRefs,
        };
        input.refuse(
            command,
            fmt!("the process has no such count on handle {handle}; give back each count once"),
        );
    }
    Ok(())
}

/// Runs `BC_INCREFS_DONE` and `BC_ACQUIRE_DONE` (contract NODE-8).
fn confirm(process: &Process, input: &WriteBuffer<'_>, strength: Strength) -> Result {
    let NodeName { ptr, cookie } = input.payload()?;
    let command = match strength {
        Strength::Strong => Command::AcquireDone,
        Strength::Weak => Command::IncRefsDone,
    };
    match process.node(ptr) {
        Some(node) if node.name.cookie == cookie => {
            if !node.confirm(strength) {
                input.refuse(
                    command,
                    fmt!(
                        "node {ptr:#x} waits for no such answer; answer once to each that was read"
                    ),
                );
            }
        }
        _ => input.refuse(
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
fn request_death_notification(thread: &Arc<Thread>, input: &WriteBuffer<'_>) -> Result {
    let HandleCookie { handle, cookie } = input.payload()?;
    match death_notification::request(&thread.process, handle, cookie) {
        Ok(()) => binder_debug!(
            DeathNotification,
            "wants to be notified, with cookie {cookie:#x}, of the death behind handle {handle}"
        ),
        Err(ENOMEM) => thread.queue_out_of_memory(),
        Err(_) => input.refuse(
            Command::RequestDeathNotification,
            fmt!("there is no handle {handle}, or it has a death notification; clear that first"),
        ),
    }
    Ok(())
}

/// Runs `BC_CLEAR_DEATH_NOTIFICATION` (contract DN-3).
fn clear_death_notification(thread: &Arc<Thread>, input: &WriteBuffer<'_>) -> Result {
    let HandleCookie { handle, cookie } = input.payload()?;
    if death_notification::clear(thread, handle, cookie).is_err() {
        input.refuse(
            Command::ClearDeathNotification,
            fmt!("handle {handle} has no death notification with cookie {cookie:#x}; clear it once, while the handle lives"),
        );
    }
    Ok(())
}

/// Runs `BC_DEAD_BINDER_DONE` (contract DN-2).
fn confirm_death(thread: &Arc<Thread>, input: &WriteBuffer<'_>) -> Result {
    let cookie = input.payload()?;
    if death_notification::confirm(thread, cookie).is_err() {
        input.refuse(
            Command::DeadBinderDone,
            fmt!("no BR_DEAD_BINDER with cookie {cookie:#x} waits for that; confirm each once"),
        );
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
            let HandleCookie { handle, cookie } = input.payload()?;
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
        input.refuse(command, fmt!("{errno}: {why}"));
    })
}

/// Runs `BC_REGISTER_LOOPER`. Takes the state lock.
fn register_looper(thread: &Thread, input: &WriteBuffer<'_>) {
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
    input.refuse(Command::RegisterLooper, fmt!("{why}"));
}

/// Runs `BC_ENTER_LOOPER`. Takes the state lock.
fn enter_looper(thread: &Thread, input: &WriteBuffer<'_>) {
    let mut process = thread.process.lock_state();
    let is_valid = thread.state(&mut process).looper.enter();
    drop(process);
    binder_debug!(Threads, "joins the pool");
    if !is_valid {
        input.refuse(
            Command::EnterLooper,
            fmt!("the thread has joined the pool when asked (BC_REGISTER_LOOPER); do one of both"),
        );
    }
}
