// SPDX-License-Identifier: GPL-2.0

//! Commands of io_uring. A command is a value that is moved: it is kept in a slot, sent to its task,
//! or completed.

use super::{
    abi::{ControlCommand, IoCommand},
    inline::*,
    request::{self, Request},
    slot::Sending,
    to_result,
};
use crate::queue::Queue;
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{bindings, prelude::*};

/// The driver completes the command in the task's own context.
const IN_TASK: c_uint = 1 << 0;
/// Nobody holds the lock of the ring.
const UNLOCKED: c_uint = 1 << 1;
const LARGE_ENTRIES: c_uint = 1 << 8;
const CANCEL: c_uint = 1 << 11;
const NONBLOCK: c_uint = 1 << 31;

/// The type of the commands' codes, in their second byte. Zero is for servers of Linux 6.0.
const CODE_TYPE: u32 = b'u' as u32;

/// The context in which a command is completed.
#[derive(Clone, Copy)]
pub(crate) struct Context(c_uint);

impl Context {
    /// In a thread that holds the lock of no ring.
    pub(crate) const ANYWHERE: Self = Self(UNLOCKED);
}

/// The kernel's command, as `inline.c` compares it.
#[repr(C)]
struct Raw {
    file: *mut bindings::file,
    entry: *const Entry,
    code: u32,
    flags: u32,
    note: Note,
}

/// The driver's part of a command, for which the kernel leaves 32 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Note {
    /// Valid while the command is sent to its task.
    request: *mut bindings::request,
    /// Valid since the command was kept.
    queue: *const Queue,
    tag: u16,
}

/// An entry of the ring. User space may write it at any time.
#[repr(C)]
struct Entry {
    head: [u8; 16],
    address: u64,
    middle: [u8; 24],
    command: [u8; 80],
}

/// A command that user space has issued.
///
/// # Invariants
///
/// The command is not completed, and only this call has it. The context is that of the call.
pub(crate) struct Issued<'a> {
    command: NonNull<bindings::io_uring_cmd>,
    context: c_uint,
    _call: PhantomData<&'a ()>,
}

/// Proof that a command does not end with the call that has issued it.
pub(crate) struct Kept(());

impl Issued<'_> {
    /// Returns the number of the command. `EOPNOTSUPP` if its code is of another type.
    pub(crate) fn number(&self) -> Result<u32> {
        // SAFETY: By the type's invariant. The kernel has copied the code.
        let code = unsafe { (*self.raw()).code };
        match (code >> 8) & 0xff {
            0 | CODE_TYPE => Ok(code & 0xff),
            _ => Err(EOPNOTSUPP),
        }
    }

    /// Returns a copy of a server's command.
    #[inline]
    pub(crate) fn io(&self) -> IoCommand {
        // SAFETY: By the type's invariant, there is an entry, which has as many bytes.
        unsafe {
            (&raw const (*(*self.raw()).entry).command)
                .cast::<IoCommand>()
                .read_volatile()
        }
    }

    /// Returns a copy of a command for a device. `EINVAL` if the ring's entries are too small.
    pub(crate) fn control(&self) -> Result<ControlCommand> {
        if self.context & LARGE_ENTRIES == 0 {
            return Err(EINVAL);
        }
        // SAFETY: By the type's invariant, there is an entry. A large one has as many bytes.
        Ok(unsafe {
            (&raw const (*(*self.raw()).entry).command)
                .cast::<ControlCommand>()
                .read_volatile()
        })
    }

    /// Returns the entry's address.
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        // SAFETY: By the type's invariant, there is an entry.
        unsafe { (&raw const (*(*self.raw()).entry).address).read_volatile() }
    }

    /// Returns whether the call must not sleep.
    pub(crate) fn may_not_sleep(&self) -> bool {
        self.context & NONBLOCK != 0
    }

    pub(crate) fn context(&self) -> Context {
        Context(self.context)
    }

    /// Keeps the command for a slot. If its ring ends, it is cancelled there.
    #[inline]
    pub(crate) fn keep(self, queue: &Queue, tag: u16) -> (Command, Kept) {
        // SAFETY: By the type's invariant. The kernel leaves the driver the note. The queue outlives
        // the command, whose file has the device.
        unsafe {
            (*self.raw()).note = Note {
                request: core::ptr::null_mut(),
                queue,
                tag,
            };
            io_uring_cmd_mark_cancelable(self.command.as_ptr(), self.context);
        }
        // INVARIANT: Nobody else has it, because `Kept` ends the call.
        (Command(self.command), Kept(()))
    }

    /// Returns the ring, for comparisons.
    pub(crate) fn ring(&self) -> usize {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_ring(self.command.as_ptr()) as usize }
    }

    /// Registers the memory of a request as a buffer of the ring. The buffer has a share of the
    /// request, which the caller counts.
    #[inline(always)]
    pub(crate) fn register(&self, request: &Request, index: u32) -> Result {
        register(self.command, request, index, self.context)
    }

    /// Removes a buffer of the ring, if the kernel has registered it.
    #[inline(always)]
    pub(crate) fn unregister(&self, index: u32) -> Result {
        // SAFETY: By the type's invariant.
        to_result(unsafe { io_buffer_unregister(self.command.as_ptr(), index, self.context) })
    }

    fn raw(&self) -> *mut Raw {
        self.command.as_ptr().cast()
    }
}

#[inline(always)]
fn register(
    command: NonNull<bindings::io_uring_cmd>,
    request: &Request,
    index: u32,
    context: c_uint,
) -> Result {
    // SAFETY: The command is not completed, and the request does not end before the buffer does: by
    // the conditions of the callers.
    to_result(unsafe {
        io_buffer_register_request(
            command.as_ptr(),
            request.as_ptr(),
            request::buffer_is_gone,
            index,
            context,
        )
    })
}

/// A command that waits for a request.
///
/// # Invariants
///
/// The command is kept, and neither completed nor sent. Nobody else has it.
#[must_use]
pub(crate) struct Command(NonNull<bindings::io_uring_cmd>);

impl Command {
    /// Completes the command.
    #[inline]
    pub(crate) fn done(self, result: i32, context: Context) {
        // SAFETY: By the type's invariant.
        unsafe { __io_uring_cmd_done(self.0.as_ptr(), result, 0, context.0, false) };
    }

    /// Lets the command's task continue with a request.
    #[inline]
    pub(crate) fn send(self, sending: Sending<'_>, request: Request) {
        sending.pass_on();
        // SAFETY: By the type's invariant. `arrived` gets what is moved here.
        unsafe { send(self.into_word(), request.into_raw(), arrived) };
    }

    /// Registers the memory of a request as a buffer of the ring, in the command's task.
    #[inline]
    pub(crate) fn register(&self, request: &Request, index: u32, context: Context) -> Result {
        register(self.0, request, index, context.0)
    }

    /// Returns the ring, for comparisons.
    #[inline]
    pub(crate) fn ring(&self) -> usize {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_ring(self.0.as_ptr()) as usize }
    }

    /// Gives the command up, without an end: it is in the word that this returns.
    #[inline(always)]
    pub(super) fn into_word(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Takes it back.
    ///
    /// # Safety
    ///
    /// The word comes from [`Self::into_word`], and this is the only call with it.
    #[inline(always)]
    pub(super) unsafe fn from_word(word: usize) -> Self {
        // SAFETY: By the condition. INVARIANT: As well.
        Self(unsafe { NonNull::new_unchecked(word as *mut bindings::io_uring_cmd) })
    }
}

/// Lets the task of a command run a function, which finds the request in the command's note.
///
/// # Safety
///
/// The word is that of a command, which belongs to the function from now on, as does the request.
#[inline(always)]
pub(super) unsafe fn send(
    command: usize,
    request: *mut bindings::request,
    function: unsafe extern "C" fn(InTask, Token),
) {
    let command = command as *mut bindings::io_uring_cmd;
    // SAFETY: By the condition. The kernel leaves the driver the note.
    unsafe {
        (*command.cast::<Raw>()).note.request = request;
        __io_uring_cmd_do_in_task(command, function, 0);
    }
}

/// The arguments of a function that a task runs, as `inline.c` compares them.
#[repr(C)]
pub(super) struct InTask(*mut bindings::io_uring_cmd);

impl InTask {
    /// Returns the request that was sent.
    ///
    /// # Safety
    ///
    /// [`send`] has sent one.
    #[inline(always)]
    pub(super) unsafe fn request(&self) -> *mut bindings::request {
        // SAFETY: By the condition.
        unsafe { (*self.0.cast::<Raw>()).note.request }
    }
}

/// Whether the task, or the ring, ends.
#[repr(C)]
pub(super) struct Token {
    is_over: bool,
}

/// A request has arrived in the task of a command.
///
/// # Safety
///
/// io_uring calls this for a command that [`Command::send`] has sent.
unsafe extern "C" fn arrived(task: InTask, token: Token) {
    // SAFETY: By the condition, `send` has moved both here.
    unsafe {
        let request = Request::from_raw(task.request());
        dispatch(Command(NonNull::new_unchecked(task.0)), request, &token);
    }
}

/// Passes a request on that was sent with a command.
///
/// # Safety
///
/// Both were sent together, from the slot that the command's note names, with the right to end its
/// state.
#[inline(always)]
pub(super) unsafe fn dispatch(command: Command, request: Request, token: &Token) {
    // SAFETY: By the condition. The queue outlives its commands.
    let (queue, tag, sending) = unsafe {
        let note = &(*command.0.as_ptr().cast::<Raw>()).note;
        let queue = &*note.queue;
        (queue, note.tag, Sending::resume(queue.own_slot(note.tag)))
    };
    queue.dispatch(
        tag,
        sending,
        command,
        request,
        token.is_over,
        Context(IN_TASK),
    );
}

/// Issues a command again, in its task.
///
/// # Safety
///
/// io_uring calls this for a command that [`serve`] has sent there.
unsafe extern "C" fn issue_in_task(task: InTask, token: Token) {
    // SAFETY: By the condition, the command is not completed, and its file is that of a device.
    unsafe {
        let result = match token.is_over {
            true => ECANCELED.to_errno(),
            false => serve(task.0, IN_TASK),
        };
        if result != EIOCBQUEUED.to_errno() {
            __io_uring_cmd_done(task.0, result, 0, IN_TASK, false);
        }
    }
}

/// Takes a command for the file of a device.
///
/// # Safety
///
/// io_uring calls this for such a file.
pub(super) unsafe extern "C" fn serve(
    command: *mut bindings::io_uring_cmd,
    context: c_uint,
) -> c_int {
    if context & (CANCEL | UNLOCKED) != 0 {
        // SAFETY: By the condition.
        return unsafe { cancel_or_issue_later(command, context) };
    }
    // SAFETY: By the condition. The file has the device while it is open.
    let (device, issued) = unsafe {
        (
            super::node::device_of((*command.cast::<Raw>()).file),
            Issued::new(command, context),
        )
    };
    match crate::serve::run(&device, issued) {
        Ok(None) => 0,
        Ok(Some(Kept(()))) => EIOCBQUEUED.to_errno(),
        Err(error) => error.to_errno(),
    }
}

/// Takes a command that is cancelled, or that was issued outside of its task.
///
/// # Safety
///
/// As for [`serve`].
#[cold]
unsafe fn cancel_or_issue_later(command: *mut bindings::io_uring_cmd, context: c_uint) -> c_int {
    if context & CANCEL == 0 {
        // SAFETY: By the condition. `issue_in_task` gets the command.
        unsafe { __io_uring_cmd_do_in_task(command, issue_in_task, 0) };
        return EIOCBQUEUED.to_errno();
    }
    // SAFETY: By the condition, the command is not completed, so it was kept.
    unsafe {
        let note = (*command.cast::<Raw>()).note;
        let queue = &*note.queue;
        if let Some(command) = queue.own_slot(note.tag).cancel_this(command as usize) {
            queue.cancel_command(command, Context(context));
        }
    }
    0
}

/// Takes a command for the file that controls all devices.
///
/// # Safety
///
/// io_uring calls this for such a file.
pub(super) unsafe extern "C" fn control(
    command: *mut bindings::io_uring_cmd,
    context: c_uint,
) -> c_int {
    // SAFETY: By the condition.
    let (control, issued) = unsafe {
        (
            super::control_file::control_of((*command.cast::<Raw>()).file),
            Issued::new(command, context),
        )
    };
    match control.run(&issued) {
        Ok(value) => value,
        Err(error) => error.to_errno(),
    }
}

impl Issued<'_> {
    /// # Safety
    ///
    /// The command is issued in this context, and nobody else has it.
    unsafe fn new(command: *mut bindings::io_uring_cmd, context: c_uint) -> Self {
        // INVARIANT: By the condition.
        Self {
            // SAFETY: By the condition.
            command: unsafe { NonNull::new_unchecked(command) },
            context,
            _call: PhantomData,
        }
    }
}
