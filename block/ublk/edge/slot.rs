// SPDX-License-Identifier: GPL-2.0

//! A slot of a queue, which has at most one command and at most one request.
//!
//! ```text
//! idle -> fetched -> sent -> owned -> committing -> fetched
//!            |         |
//!            +---------+--> aborted
//! ```
//!
//! The first fetch goes through `committing`, too.
//!
//! Each step is a move: who leaves a state has what belongs to it, and nobody else does.

use super::{
    node::ServerData,
    process::TaskCell,
    read_once,
    request::{Place, Request},
    uring::Command,
};
use core::cell::UnsafeCell;
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
const NEEDS_DATA: usize = 3;
/// The server's task is giving the request back, or is fetching first.
const COMMITTING: usize = 4;
/// There will be no more requests for this server.
const ABORTED: usize = 5;

/// The most users of a request's memory.
const MOST_USERS: u32 = u32::MAX / 2;

/// Values of a slot's request.
#[derive(Default)]
pub(crate) struct Values {
    /// The server's buffer, or a buffer that the driver registers.
    pub(crate) address: u64,
    /// The ring in which the driver has registered the memory; 0 if it has not.
    pub(crate) ring: usize,
    /// The result by the server.
    pub(crate) result: i32,
    /// When the server got it; 0 if nobody measures.
    pub(crate) began: i64,
}

/// A slot.
///
/// # Invariants
///
/// - `word` is one of the constants, or a command's word, which belongs to the slot.
/// - Only the task in `task` leaves `OWNED` and `NEEDS_DATA`, unless nobody has the device's file open.
/// - While `users` is not zero, `request` is a request that is started and not ended. Each [`Share`]
///   counts as a user, and each buffer of a ring, and the states `OWNED` and `NEEDS_DATA`, and
///   `COMMITTING` behind them.
/// - `values`, `request` and `place` belong to who has moved the state to `SENT` or `COMMITTING`, and
///   then to the request: who ends its last share may read them. The state's share may set the
///   result, and the task that has the request uses the place.
pub(crate) struct Slot {
    word: Atomic<usize>,
    users: Atomic<u32>,
    request: UnsafeCell<*mut bindings::request>,
    values: UnsafeCell<Values>,
    task: TaskCell,
    /// Of copies by the task.
    place: UnsafeCell<Place>,
}

// SAFETY: By the type's invariants, one thread at a time writes what has no lock, and nobody reads it
// then.
unsafe impl Sync for Slot {}
// SAFETY: Any thread may use it.
unsafe impl Send for Slot {}

/// The rest in a slot without a server.
pub(crate) enum Left<'a> {
    Nothing,
    Request(Share<'a>),
    Command(Command),
}

impl Slot {
    /// Returns an idle slot.
    pub(crate) fn new() -> Self {
        // INVARIANT: There is no user.
        Self {
            word: Atomic::new(IDLE),
            users: Atomic::new(0),
            request: UnsafeCell::new(core::ptr::null_mut()),
            values: UnsafeCell::new(Values::default()),
            task: TaskCell::new(),
            place: UnsafeCell::new(Place::new()),
        }
    }

    /// Takes the first command, of the current task, with the address for its request. Gives it back
    /// if the slot is not idle.
    pub(crate) fn fetch(&self, command: Command, address: u64) -> Result<(), Command> {
        if self.word.cmpxchg(IDLE, COMMITTING, Full).is_err() {
            return Err(command);
        }
        self.task.set_current();
        // SAFETY: The state is `COMMITTING`. A request that a server has left may be there still, but
        // who ends it reads other values.
        unsafe {
            (*self.values.get()).address = address;
            (*self.values.get()).ring = 0;
        }
        self.word.store(command.into_word(), Release);
        Ok(())
    }

    /// Takes the command for a request that is sent to its task.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<(Sending<'_>, Command)> {
        let command = self.leave_fetched(SENT)?;
        Some((Sending(self), command))
    }

    /// Takes the command. There are no more behind it.
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
        let word = read_once(&self.word);
        if word <= ABORTED {
            return None;
        }
        self.word.cmpxchg(word, into, Full).ok()?;
        // SAFETY: It was in the slot, and no longer is.
        Some(unsafe { Command::from_word(word) })
    }

    /// Returns whether the current task is the one that has fetched.
    #[inline(always)]
    pub(crate) fn is_of_task(&self) -> bool {
        self.task.is_current()
    }

    /// Returns the request, if the server has it, and the current task is the one that has fetched.
    #[inline(always)]
    pub(crate) fn held(&self) -> Option<Held<'_>> {
        let is_held = matches!(read_once(&self.word), OWNED | NEEDS_DATA) && self.is_of_task();
        // SAFETY: The state is a user of the request, and only this task leaves it: it is in a call for
        // the file.
        is_held.then(|| Held(self, unsafe { self.request() }, NotThreadSafe))
    }

    /// Begins to take a request from the server, which passes a buffer if `needs_data`.
    ///
    /// `EBUSY` if it has none, `EINVAL` if it has to do the other thing first, or for another task.
    #[inline(always)]
    pub(crate) fn commit(&self, needs_data: bool) -> Result<Committing<'_>> {
        if !self.is_of_task() {
            return Err(EINVAL);
        }
        let (from, other) = match needs_data {
            false => (OWNED, NEEDS_DATA),
            true => (NEEDS_DATA, OWNED),
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
                // SAFETY: The share is counted.
                Ok(_) => return Some(unsafe { self.share() }),
                Err(found) => users = found,
            }
        }
        None
    }

    /// Clears the task that has fetched. Nobody has the device's file open.
    pub(crate) fn clear_task(&self) {
        self.task.clear();
    }

    /// Kills the task that has fetched, if there is one. Nobody clears it during this call.
    pub(crate) fn kill_task(&self) {
        self.task.kill();
    }

    /// Makes the slot idle. No server uses it. A request that is left gets a result.
    pub(crate) fn clear(&self, lost: i32) -> Left<'_> {
        match self.word.xchg(IDLE, Full) {
            // SAFETY: The state was a user, which the share is now.
            OWNED | NEEDS_DATA => unsafe {
                (*self.values.get()).result = lost;
                Left::Request(self.share())
            },
            // Nobody commits without a server, and what was sent has a file, which is closed.
            IDLE | SENT | COMMITTING | ABORTED => Left::Nothing,
            // SAFETY: It was in the slot, and no longer is.
            word => Left::Command(unsafe { Command::from_word(word) }),
        }
    }

    /// A share that is counted.
    ///
    /// # Safety
    ///
    /// It is counted, for this call.
    #[inline(always)]
    pub(super) unsafe fn share(&self) -> Share<'_> {
        // SAFETY: By the condition, there is a user.
        Share(self, unsafe { self.request() })
    }

    /// # Safety
    ///
    /// The request has a user.
    #[inline(always)]
    unsafe fn request(&self) -> Request {
        // SAFETY: By the condition. Nobody writes it while there is a user.
        unsafe { Request::from_raw(*self.request.get()) }
    }
}

/// The right to end the state `SENT`.
#[must_use]
pub(crate) struct Sending<'a>(&'a Slot);

impl<'a> Sending<'a> {
    /// The right goes with the command.
    #[inline(always)]
    pub(super) fn pass_on(self) {}

    /// Continues where a command was sent.
    ///
    /// # Safety
    ///
    /// [`Self::pass_on`] was called for the slot, and this is the only call for it.
    #[inline(always)]
    pub(super) unsafe fn resume(slot: &'a Slot) -> Self {
        Self(slot)
    }

    #[inline(always)]
    pub(crate) fn values(&mut self) -> &mut Values {
        // SAFETY: By the slot's invariant, they belong to who has this right.
        unsafe { &mut *self.0.values.get() }
    }

    /// Gives the server the request. Its data may need a buffer first. A buffer of a ring may have a
    /// share of it already.
    #[inline(always)]
    pub(crate) fn lend(self, request: Request, needs_data: bool, has_buffer: bool) {
        // SAFETY: By the slot's invariant, both belong to who has this right.
        unsafe {
            (*self.0.place.get()).reset();
            *self.0.request.get() = request.into_raw();
        }
        // INVARIANT: The state is a user, and the buffer is one.
        self.0.users.store(1 + u32::from(has_buffer), Release);
        self.0
            .word
            .store(if needs_data { NEEDS_DATA } else { OWNED }, Release);
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
pub(crate) struct Committing<'a>(&'a Slot, Request);

impl<'a> Committing<'a> {
    #[inline(always)]
    pub(crate) fn request(&self) -> &Request {
        &self.1
    }

    #[inline(always)]
    pub(crate) fn values(&mut self) -> &mut Values {
        // SAFETY: By the slot's invariant, they belong to who has this right.
        unsafe { &mut *self.0.values.get() }
    }

    /// The server keeps the request, and has passed what it had to.
    pub(crate) fn keep(self) {
        self.0.word.store(OWNED, Release);
    }

    /// The command waits for the next request. Returns the server's share of this one.
    #[inline(always)]
    pub(crate) fn fetched(self, command: Command) -> Share<'a> {
        self.0.word.store(command.into_word(), Release);
        // The state was a user, which the share is now.
        Share(self.0, self.1)
    }
}

/// A request that the current task has.
pub(crate) struct Held<'a>(&'a Slot, Request, NotThreadSafe);

impl<'a> Held<'a> {
    #[inline(always)]
    pub(crate) fn request(&self) -> &Request {
        &self.1
    }

    /// Copies data of the request, from this byte on. Returns how many bytes were copied. `EACCES` if
    /// no user memory is to be copied. May sleep.
    #[inline(always)]
    pub(crate) fn copy(&self, data: &mut ServerData, start: usize) -> Result<usize> {
        // SAFETY: By the slot's invariant, it belongs to the task, which is in one call at a time.
        let place = unsafe { &mut *self.0.place.get() };
        data.copy_on(&self.1, start, place)
    }

    /// Returns a share. `None` if the request has too many users.
    #[inline(always)]
    pub(crate) fn share(self) -> Option<Share<'a>> {
        if self.0.users.fetch_add(1, Relaxed) >= MOST_USERS {
            // There are others, of which one is the state.
            self.0.users.fetch_sub(1, Relaxed);
            return None;
        }
        Some(Share(self.0, self.1))
    }
}

/// A share of a request. It has to be ended.
///
/// # Invariants
///
/// It is counted in the slot.
#[must_use]
pub(crate) struct Share<'a>(&'a Slot, Request);

/// A request whose last share was ended.
pub(crate) struct Ended {
    pub(crate) request: Request,
    pub(crate) result: i32,
    pub(crate) began: i64,
}

impl Share<'_> {
    #[inline(always)]
    pub(crate) fn request(&self) -> &Request {
        &self.1
    }

    /// As [`Held::copy`].
    pub(crate) fn copy(&self, data: &mut ServerData, start: usize) -> Result<usize> {
        data.copy(&self.1, start)
    }

    /// A buffer of a ring has the share from now on.
    pub(crate) fn give_to_buffer(self) {}

    /// Ends the share. Returns the request if it was the last one.
    #[inline(always)]
    pub(crate) fn end(self) -> Option<Ended> {
        // The last one sees what all others have done.
        if self.0.users.fetch_sub(1, Full) != 1 {
            return None;
        }
        // SAFETY: By the slot's invariant, who ends the last share may read them.
        let (result, began) = unsafe {
            let values = self.0.values.get();
            ((*values).result, (*values).began)
        };
        Some(Ended {
            request: self.1,
            result,
            began,
        })
    }
}
