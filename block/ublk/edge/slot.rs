// SPDX-License-Identifier: GPL-2.0

//! The state of a slot, which has at most one command and at most one request.
//!
//! ```text
//! idle -> fetched -> sent -> owned -> committing -> fetched
//!            |         |                 |
//!            +---------+-> aborted <-----+
//! ```
//!
//! Each step is a move: who leaves a state has what belongs to it, and nobody else does.

use super::{
    process::TaskCell,
    request::{Place, Request},
    uring::Command,
};
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{Atomic, Full, Relaxed, Release},
    types::NotThreadSafe,
};

// Values of the word. A larger one is the address of a command: the slot has been fetched.
const IDLE: usize = 0;
/// The command and a request are on their way to the server's task.
const SENT: usize = 1;
/// The server has the request.
const OWNED: usize = 2;
/// The same, but first it has to pass a buffer for the data.
const ASKED: usize = 3;
/// The server's task is giving the request back.
const COMMITTING: usize = 4;
/// The server was told that there will be no more requests.
const ABORTED: usize = 5;

/// The most users of a request's memory.
const MOST_USERS: u32 = u32::MAX / 2;

/// The state of a slot.
///
/// # Invariants
///
/// - `word` is one of the constants, or a command's word, which belongs to the slot.
/// - Only the task in `task` leaves `OWNED` and `ASKED`, unless nobody has the device's file open.
/// - While `users` is not zero, `request` is a request that is started and not ended. Each [`Share`]
///   counts as a user, and each buffer of a ring, and the state `OWNED`, `ASKED` or `COMMITTING`.
pub(crate) struct SlotState {
    word: Atomic<usize>,
    users: Atomic<u32>,
    request: Atomic<*mut bindings::request>,
    task: TaskCell,
    /// Where the last copy of the request's data has ended.
    place: Place,
}

/// What was left in a slot.
pub(crate) enum Left<'a> {
    Nothing,
    Request(Share<'a>),
    Command(Command),
}

impl SlotState {
    /// Returns the state of an idle slot.
    pub(crate) fn new() -> Self {
        // INVARIANT: There is no user.
        Self {
            word: Atomic::new(IDLE),
            users: Atomic::new(0),
            request: Atomic::new(core::ptr::null_mut()),
            task: TaskCell::new(),
            place: Place::new(),
        }
    }

    /// Takes the first command, of the current task. Gives it back if the slot is not idle.
    ///
    /// The callers hold a lock.
    pub(crate) fn fetch(&self, command: Command) -> Result<(), Command> {
        if self.word.load(Relaxed) != IDLE {
            return Err(command);
        }
        self.task.set_current();
        let word = command.into_word();
        match self.word.cmpxchg(IDLE, word, Full) {
            Ok(_) => Ok(()),
            // SAFETY: The word is not in the slot.
            Err(_) => Err(unsafe { Command::from_word(word) }),
        }
    }

    /// Takes the command for a request that is sent to its task.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<(Sending<'_>, Command)> {
        let command = self.leave_fetched(SENT)?;
        Some((Sending(self), command))
    }

    /// Takes the command, and lets no other come.
    pub(crate) fn cancel(&self) -> Option<Command> {
        self.leave_fetched(ABORTED)
    }

    /// The same, if it is this one.
    pub(super) fn cancel_this(&self, word: usize) -> Option<Command> {
        self.word.cmpxchg(word, ABORTED, Full).ok()?;
        // SAFETY: It was in the slot, and no longer is.
        Some(unsafe { Command::from_word(word) })
    }

    #[inline(always)]
    fn leave_fetched(&self, into: usize) -> Option<Command> {
        let word = self.word.load(Relaxed);
        if word <= ABORTED {
            return None;
        }
        self.word.cmpxchg(word, into, Full).ok()?;
        // SAFETY: It was in the slot, and no longer is.
        Some(unsafe { Command::from_word(word) })
    }

    /// Returns whether nothing was fetched.
    pub(crate) fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == IDLE
    }

    /// Returns whether the current task is the one that has fetched.
    #[inline(always)]
    pub(crate) fn is_of_task(&self) -> bool {
        self.task.is_current()
    }

    /// Returns the request, if the current task has it.
    #[inline(always)]
    pub(crate) fn held(&self) -> Option<Held<'_>> {
        let is_held = self.is_of_task() && matches!(self.word.load(Relaxed), OWNED | ASKED);
        // SAFETY: The state is a user of the request, and only this task leaves it: it is in a call for
        // the file.
        is_held.then(|| Held(self, unsafe { self.request() }, NotThreadSafe))
    }

    /// Begins to take a request from the server, which passes a buffer if `has_asked`.
    ///
    /// `EBUSY` if it has none, `EINVAL` if it has to do the other thing first, or for another task.
    #[inline(always)]
    pub(crate) fn commit(&self, has_asked: bool) -> Result<Committing<'_>> {
        if !self.is_of_task() {
            return Err(EINVAL);
        }
        let (from, other) = match has_asked {
            false => (OWNED, ASKED),
            true => (ASKED, OWNED),
        };
        match self.word.cmpxchg(from, COMMITTING, Full) {
            // SAFETY: The state was a user of the request, and is one.
            Ok(_) => Ok(Committing(self, unsafe { self.request() })),
            Err(found) if found == other => Err(EINVAL),
            Err(_) => Err(EBUSY),
        }
    }

    /// Returns a share of the request, if a server has it. `None` also if it has too many users.
    pub(crate) fn borrow(&self) -> Option<Share<'_>> {
        let mut users = self.users.load(Relaxed);
        while users != 0 && users < MOST_USERS {
            match self.users.cmpxchg(users, users + 1, Full) {
                // INVARIANT: The share is counted.
                Ok(_) => return Some(self.share()),
                Err(found) => users = found,
            }
        }
        None
    }

    /// Makes the slot idle. No server uses it.
    pub(crate) fn clear(&self) -> Left<'_> {
        self.task.clear();
        match self.word.xchg(IDLE, Full) {
            // The state was a user, which the share is now. Nobody commits without a server, and
            // what was sent has a file, which is closed.
            OWNED | ASKED => Left::Request(self.share()),
            IDLE | SENT | COMMITTING | ABORTED => Left::Nothing,
            // SAFETY: It was in the slot, and no longer is.
            word => Left::Command(unsafe { Command::from_word(word) }),
        }
    }

    /// A share that is counted.
    #[inline(always)]
    fn share(&self) -> Share<'_> {
        // SAFETY: By the type's invariant, there is a request as long as it has users.
        Share(self, unsafe { self.request() })
    }

    /// # Safety
    ///
    /// The request has a user, which the caller knows.
    #[inline(always)]
    unsafe fn request(&self) -> Request {
        // SAFETY: By the condition.
        unsafe { Request::from_raw(self.request.load(Relaxed)) }
    }

    /// The share of a ring's buffer.
    ///
    /// # Safety
    ///
    /// The buffer has one, and gives it up.
    pub(super) unsafe fn share_of_buffer(&self) -> Share<'_> {
        self.share()
    }
}

/// The right to end the state `SENT`.
#[must_use]
pub(crate) struct Sending<'a>(&'a SlotState);

impl<'a> Sending<'a> {
    /// The right goes with the command.
    #[inline(always)]
    pub(super) fn is_sent(self) {}

    /// Continues where a command was sent.
    ///
    /// # Safety
    ///
    /// [`Self::is_sent`] was called for the slot, and this is the only call for it.
    #[inline(always)]
    pub(super) unsafe fn resume(state: &'a SlotState) -> Self {
        Self(state)
    }

    /// Gives the server the request, which asks for a buffer or not. A buffer of a ring may have a
    /// share of it already.
    #[inline(always)]
    pub(crate) fn lend(self, request: Request, asks: bool, has_buffer: bool) {
        self.0.place.forget();
        // INVARIANT: The state is a user, and the buffer is one.
        self.0.request.store(request.into_raw(), Relaxed);
        self.0.users.store(1 + u32::from(has_buffer), Release);
        self.0.word.store(if asks { ASKED } else { OWNED }, Release);
    }

    /// The command waits for another request.
    pub(crate) fn put_back(self, command: Command) {
        self.0.word.store(command.into_word(), Release);
    }

    /// There will be no more requests.
    pub(crate) fn abort(self) {
        self.0.word.store(ABORTED, Release);
    }
}

/// The right to end the state `COMMITTING`.
#[must_use]
pub(crate) struct Committing<'a>(&'a SlotState, Request);

impl<'a> Committing<'a> {
    #[inline(always)]
    pub(crate) fn request(&self) -> &Request {
        &self.1
    }

    /// The server keeps the request.
    pub(crate) fn keep(self, asks: bool) {
        self.0.word.store(if asks { ASKED } else { OWNED }, Release);
    }

    /// The command waits for the next request. Returns the server's share of this one.
    #[inline(always)]
    pub(crate) fn fetched(self, command: Command) -> Share<'a> {
        self.0.word.store(command.into_word(), Release);
        // The state was a user, which the share is now.
        self.0.share()
    }
}

/// A request that the current task has.
pub(crate) struct Held<'a>(&'a SlotState, Request, NotThreadSafe);

impl Held<'_> {
    #[inline(always)]
    pub(crate) fn request(&self) -> &Request {
        &self.1
    }

    pub(crate) fn place(&self) -> &Place {
        &self.0.place
    }
}

/// A share of a request. It has to be ended.
///
/// # Invariants
///
/// It is counted in the slot's state.
#[must_use]
pub(crate) struct Share<'a>(&'a SlotState, Request);

impl Share<'_> {
    #[inline(always)]
    pub(crate) fn request(&self) -> &Request {
        &self.1
    }

    pub(crate) fn place(&self) -> &Place {
        &self.0.place
    }

    /// A buffer of a ring has the share from now on.
    pub(crate) fn give_to_buffer(self) {}

    /// Ends the share. Returns the request if it was the last one.
    #[inline(always)]
    pub(crate) fn end(self) -> Option<Request> {
        // The last one sees what all others have done.
        (self.0.users.fetch_sub(1, Full) == 1).then_some(self.1)
    }
}
