// SPDX-License-Identifier: GPL-2.0

//! The ioctls of a device. Each reads its argument from user space, and writes its answer there.

use crate::{
    calls::Sender,
    common::debug::{binder_debug, errno_name},
    defs::{
        ioctl,
        no_error,
        FlatObject,
        FrozenInfo,
        NodeDebugInfo,
        NodeInfoForRef,
        NodeName,
        WriteRead,
        BINDER_CURRENT_PROTOCOL_VERSION, //
    },
    entry::{commands, returns},
    ffi::{self, trace}, //
    kernel_ext::{
        callers::Operation,
        files::Descriptors,
        once::{read_once, write_once},
        sched::WakeHint,
        user::{Plain, UserBytes}, //
    },
    lifecycle::{
        freeze,
        threads::{current_thread, end_thread, has_returned}, //
    },
    process::Process,
    pure::{
        node_counts::{Strength, Uncounted},
        priority_rules::NodeFlags, //
    },
    thread::Thread,
};
use kernel::{
    cred::Credential,
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc, //
    },
    uaccess::{UserPtr, UserSlice}, //
};

/// An open file of a device, and the task that runs an ioctl on it.
pub(crate) struct Opened<'a> {
    pub(crate) operation: Operation<'a, Process>,
    /// The credential with which the file was opened. It is that of the process, and stays the same
    /// as long as the file is open.
    pub(crate) credential: &'a Credential,
    /// True if the task may sleep until work arrives.
    pub(crate) may_wait: bool,
}

/// Runs an ioctl of the calling task. Fails with `EINVAL` for a command that does not exist. No
/// lock may be held.
pub(crate) fn run(opened: &mut Opened<'_>, command: u32, argument: usize) -> Result {
    trace::ioctl(command, argument);
    let result = ffi::wait_while_stopped().and_then(|()| {
        // Asked first: nearly all are this one.
        let result = if command == ioctl::BINDER_WRITE_READ {
            write_read(opened, Argument(argument))
        } else {
            let result = run_other(opened, command, Argument(argument));
            // The thread has returned to user space then (contract IOCTL-3).
            has_returned(opened.operation.opened());
            result
        };
        if let Err(error) = result {
            log_failure(command, argument, error);
        }
        // A signal ends the wait, and leaves the result as it is.
        let _ = ffi::wait_while_stopped();
        result
    });
    trace::ioctl_done(trace::errno(&result));
    result
}

/// Logs an ioctl that fails, but for a wait that ends without work, which is usual.
/// `docs/logs-and-traces.md` explains its errno. No lock may be held.
#[cold]
fn log_failure(command: u32, argument: usize, error: Error) {
    if error == EINTR || error == EAGAIN {
        return;
    }
    let errno = error.to_errno();
    binder_debug!(
        UserError,
        "{} ({command:#x}) with argument {argument:#x} fails with {} ({errno})",
        ioctl::name(command),
        errno_name(errno)
    );
}

/// Runs any ioctl but `BINDER_WRITE_READ`.
#[inline(never)]
fn run_other(opened: &mut Opened<'_>, command: u32, argument: Argument) -> Result {
    let process = opened.operation.opened();
    match command {
        // Only the process itself sets what is about it.
        ioctl::BINDER_SET_MAX_THREADS
        | ioctl::BINDER_SET_CONTEXT_MGR
        | ioctl::BINDER_SET_CONTEXT_MGR_EXT
        | ioctl::BINDER_ENABLE_ONEWAY_SPAM_DETECTION
            if !process.is_callers() =>
        {
            Err(EINVAL)
        }
        ioctl::BINDER_SET_MAX_THREADS => {
            let max_threads = argument.get().map_err(|_| EINVAL)?;
            process.state.lock().pool.max_threads = max_threads;
            Ok(())
        }
        ioctl::BINDER_SET_CONTEXT_MGR => {
            set_context_manager(opened, NodeName::default(), NodeFlags::default())
        }
        ioctl::BINDER_SET_CONTEXT_MGR_EXT => {
            let object: FlatObject = argument.get().map_err(|_| EINVAL)?;
            set_context_manager(opened, object.node(), NodeFlags::new(object.flags()))
        }
        ioctl::BINDER_THREAD_EXIT => {
            let thread = current_thread(process)?;
            opened.operation.give_up_record();
            end_thread(&thread);
            Ok(())
        }
        ioctl::BINDER_VERSION => {
            let version = BINDER_CURRENT_PROTOCOL_VERSION;
            argument.put(&version).map_err(|_| EINVAL)
        }
        ioctl::BINDER_GET_NODE_DEBUG_INFO => {
            let after: NodeDebugInfo = argument.get()?;
            argument.put(&process.node_debug_info(after.ptr))
        }
        ioctl::BINDER_GET_NODE_INFO_FOR_REF => node_info_for_ref(&process, argument),
        ioctl::BINDER_FREEZE => freeze::freeze_or_thaw(&process, argument.get()?),
        ioctl::BINDER_GET_FROZEN_INFO => {
            let asked: FrozenInfo = argument.get()?;
            argument.put(&freeze::frozen_info(&process, asked.pid)?)
        }
        ioctl::BINDER_ENABLE_ONEWAY_SPAM_DETECTION => {
            let is_wanted = argument.get::<u32>()? != 0;
            process.state.lock().detects_oneway_spam = is_wanted;
            Ok(())
        }
        ioctl::BINDER_GET_EXTENDED_ERROR => extended_error(&*current_thread(process)?, argument),
        _ => Err(EINVAL),
    }
}

/// The argument of an ioctl: an address in the calling process.
#[derive(Clone, Copy)]
struct Argument(usize);

impl Argument {
    /// Reads what the argument points to. Fails with `EFAULT`.
    fn get<T: Plain>(self) -> Result<T> {
        const { assert!(size_of::<T>() <= size_of::<FlatObject>()) };
        let mut bytes = UserBytes::<{ size_of::<FlatObject>() }>::new();
        bytes.read(self.place(), size_of::<T>())?;
        bytes.value::<0, T>().ok_or(EFAULT)
    }

    /// Returns where the argument points.
    fn place(self) -> UserPtr {
        UserPtr::from_addr(self.0)
    }

    /// Writes to where the argument points. Fails with `EFAULT`.
    fn put<T: Plain>(self, value: &T) -> Result {
        UserSlice::new(self.place(), size_of::<T>())
            .writer()
            .write_slice(value.as_bytes())
    }
}

/// Runs `BINDER_WRITE_READ`. How far each half has come is written even where the other has failed
/// (contract WR-1, WR-3).
fn write_read(opened: &Opened<'_>, argument: Argument) -> Result {
    let found;
    let thread = match opened.operation.record() {
        // One whose task has become another one by executing a program may have ended.
        Some(thread) if !thread.name.has_ended() => thread,
        _ => {
            found = current_thread(opened.operation.opened())?;
            &found
        }
    };
    let mut io = WriteRead::default();
    if !ffi::get_write_read(&mut io, argument.place()) {
        write_once(&thread.must_return, false);
        return Err(EFAULT);
    }
    let mut result = Ok(());
    let mut completion = None;
    if io.write_size > 0 {
        let is_about_to_sleep = opened.may_wait && io.read_size > 0;
        let hint = match read_once(&HANDOFF) {
            _ if !is_about_to_sleep => WakeHint::Anywhere,
            0 => WakeHint::Anywhere,
            _ => WakeHint::Sync,
        };
        let mut sender = Sender {
            thread,
            credential: opened.credential,
            descriptors: Descriptors::of(&opened.operation),
            hint,
            at: 0,
            reads_then: io.read_size.saturating_sub(io.read_consumed)
                >= returns::ROOM_FOR_COMPLETION as u64,
        };
        result = commands::run(&mut sender, &mut io).map(|sent| completion = sent);
        if result.is_err() {
            io.read_consumed = 0;
        }
        trace::write_done(trace::errno(&result));
    }
    if result.is_ok() && io.read_size > 0 {
        result = match completion {
            Some(sent) => returns::read_completion(thread, &mut io, sent),
            None => returns::read(thread, &mut io, opened.may_wait),
        };
        trace::read_done(trace::errno(&result));
    }
    write_once(&thread.must_return, false);
    if !ffi::put_consumed(argument.place(), io.write_consumed, io.read_consumed) {
        return Err(EFAULT);
    }
    result
}

/// The hint that a thread which is about to sleep gives the scheduler when it wakes the target: the
/// module's parameter `handoff`.
static HANDOFF: Atomic<u32> = Atomic::new(1);

/// Sets the parameter `handoff`, before a device exists.
///
/// Returns [`EINVAL`] for a value that it does not have.
pub(crate) fn set_handoff(handoff: u8) -> Result {
    if handoff > 1 {
        pr_err!("handoff={handoff}: there are 0 and 1, see modinfo\n");
        return Err(EINVAL);
    }
    write_once(&HANDOFF, handoff.into());
    Ok(())
}

fn set_context_manager(opened: &Opened<'_>, name: NodeName, flags: NodeFlags) -> Result {
    let process = Arc::from(opened.operation.opened());
    process.context.set_manager(opened.credential, || {
        // The cookie is not compared, as in the C driver: the node keeps the one that it has.
        let node = process.pin_node_of_pointer(name, flags)?;
        let counted = node
            .state
            .access_mut(&mut process.state.lock())
            .counts
            .become_manager();
        node.unpin();
        counted.map_err(|Uncounted| EINVAL)?;
        Ok(node)
    })
}

/// Runs `BINDER_GET_NODE_INFO_FOR_REF`, which is for the context manager alone: `EPERM` for other
/// processes.
fn node_info_for_ref(process: &Process, argument: Argument) -> Result {
    let info: NodeInfoForRef = argument.get()?;
    let others = [
        info.strong_count,
        info.weak_count,
        info.reserved1,
        info.reserved2,
        info.reserved3,
    ];
    if others != [0; 5] {
        ffi::user_error_happened();
        return Err(EINVAL);
    }
    let manager = process.context.manager();
    if !manager.is_some_and(|node| node.owner().is(process)) {
        return Err(EPERM);
    }
    let found = process.node_info(info.handle).inspect_err(|_| {
        let node = process.node_of_handle(info.handle, Strength::Weak);
        // The handle is held weakly.
        if node.is_some() {
            ffi::user_error_happened();
        }
    });
    argument.put(&found?)
}

/// Runs `BINDER_GET_EXTENDED_ERROR`. The error is returned once: it is reset even if the answer
/// cannot be written.
fn extended_error(thread: &Thread, argument: Argument) -> Result {
    let mut process = thread.process.state.lock();
    let state = thread.state.access_mut(&mut process);
    let error = core::mem::replace(&mut state.extended_error, no_error(0));
    drop(process);
    argument.put(&error)
}
