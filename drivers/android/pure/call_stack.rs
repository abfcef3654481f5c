// SPDX-License-Identifier: GPL-2.0

//! The calls that a thread has made and serves, the innermost last.
//!
//! A call that a thread made keeps its place on the stack until its outcome arrives. The
//! transaction names the frame of its caller by that place ([`FrameId`]), so no search is needed.
//! For code that has the transaction, the frame exists as long as the calling thread exists. Code
//! that has kept only the [`FrameId`] has to check whether the thread still
//! [waits](CallStack::waits_for) in that frame: another call may have taken the place.
//!
//! The stack does not depend on what a transaction is, nor on which lock guards it.

use crate::pure::chunked_stack::{ChunkedStack, Shortage};
use kernel::alloc::AllocError;

/// One level of a thread's call stack; `T` is a transaction.
pub(crate) enum Frame<T> {
    /// A call that the thread made and waits for.
    Outgoing {
        /// The serial number of its [`FrameId`].
        serial: u64,
        /// The pid of the process that it is for. It names that process only for people, and for
        /// searches that find out by the serial number whether they are right.
        target: i32,
    },
    /// A call that the thread made and whose outcome arrived before the thread has replied to a
    /// call made in the course of it, because a process or thread in between died. The thread reads
    /// the outcome after its reply (contract TXN-26).
    Ended(T),
    /// A call that the thread serves.
    Incoming(T),
    /// A call to which the thread is replying. Until the reply is sent, the outcome of no call
    /// below is delivered: the thread reads the completion of its reply first.
    Replying,
}

// As small as without what is of use only to searches: a page has room for as many calls as ever.
const _: () = assert!(size_of::<Frame<&()>>() == 16);

/// Names a frame of an outgoing call, and thereby the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameId {
    /// The place of the frame on the stack.
    pub(crate) place: u32,
    /// The serial number of the call among all calls that the thread has made.
    pub(crate) serial: u64,
}

impl FrameId {
    /// The id of no frame.
    pub(crate) const NONE: Self = Self {
        place: 0,
        serial: 0,
    };

    fn place(self) -> usize {
        self.place as usize
    }
}

/// A thread's call stack.
pub(crate) struct CallStack<T> {
    /// The last one is the innermost: what the thread does at present. The place of a frame is how
    /// many are below it.
    pub(crate) frames: ChunkedStack<Frame<T>>,
    /// The serial number of the call that was made last.
    last_serial: u64,
}

impl<T> CallStack<T> {
    /// Returns an empty stack.
    pub(crate) fn new() -> Self {
        Self {
            frames: ChunkedStack::new(),
            last_serial: 0,
        }
    }

    /// Whether the thread makes or serves a call. A call to which the thread is replying does not
    /// count.
    pub(crate) fn is_calling(&self) -> bool {
        match self.frames.len() {
            0 => false,
            1 => !matches!(self.frames.last(), Some(Frame::Replying)),
            _ => true,
        }
    }

    /// Returns what has to be allocated before another frame can be pushed. Fails when no further
    /// place can be named, which takes more memory than any machine has.
    pub(crate) fn shortage(&self) -> Result<Option<Shortage>, AllocError> {
        let shortage = self.frames.shortage();
        if shortage.is_some() && self.frames.len() >= (u32::MAX / 2) as usize {
            return Err(AllocError);
        }
        Ok(shortage)
    }

    /// Pushes a call that the thread makes to the process of this pid, and returns its id. The
    /// stack must have room.
    #[inline(always)]
    pub(crate) fn push_outgoing(&mut self, target: i32) -> FrameId {
        self.last_serial += 1;
        let serial = self.last_serial;
        let pushed = self.frames.push(Frame::Outgoing { serial, target });
        FrameId {
            place: pushed.unwrap_or_default() as u32,
            serial,
        }
    }

    /// Pushes a call that the thread serves. The stack must have room.
    #[inline]
    pub(crate) fn push_incoming(&mut self, call: T) {
        let _ = self.frames.push(Frame::Incoming(call));
    }

    /// Removes the call that the thread serves, if that is the innermost frame, and returns it.
    #[inline]
    pub(crate) fn pop_incoming(&mut self) -> Option<T> {
        if !matches!(self.frames.last(), Some(Frame::Incoming(_))) {
            return None;
        }
        match self.frames.pop() {
            Some(Frame::Incoming(transaction)) => Some(transaction),
            _ => None,
        }
    }

    /// Returns the call that the thread serves, like [`Self::pop_incoming`], but its frame stays as
    /// [`Frame::Replying`] until [`Self::end_reply`].
    pub(crate) fn begin_reply(&mut self) -> Option<T> {
        let innermost = self.frames.last_mut()?;
        if !matches!(innermost, Frame::Incoming(_)) {
            return None;
        }
        match core::mem::replace(innermost, Frame::Replying) {
            Frame::Incoming(transaction) => Some(transaction),
            _ => None,
        }
    }

    /// Removes the frame of the call to which the thread is replying: the thread reads that the
    /// reply is sent.
    pub(crate) fn end_reply(&mut self) {
        if matches!(self.frames.last(), Some(Frame::Replying)) {
            let _ = self.frames.pop();
        }
    }

    /// Removes the innermost frame and returns its outcome, if the outcome has arrived.
    pub(crate) fn pop_ended(&mut self) -> Option<T> {
        if !matches!(self.frames.last(), Some(Frame::Ended(_))) {
            return None;
        }
        match self.frames.pop() {
            Some(Frame::Ended(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// Removes this frame, if it is the innermost one and the thread waits for its call. Returns
    /// whether it did.
    #[inline]
    pub(crate) fn pop_outgoing(&mut self, frame: FrameId) -> bool {
        let innermost = self.frames.last();
        let is_it =
            matches!(innermost, Some(Frame::Outgoing { serial, .. }) if *serial == frame.serial);
        if is_it {
            // Such a frame has nothing to drop; the compiler would call a function to find that
            // out.
            core::mem::forget(self.frames.pop());
        }
        is_it
    }

    /// Whether the thread waits for the outcome of the call of this frame, which may be any frame
    /// of the stack.
    pub(crate) fn waits_for(&self, frame: FrameId) -> bool {
        let at = self.frames.get(frame.place());
        matches!(at, Some(Frame::Outgoing { serial, .. }) if *serial == frame.serial)
    }

    /// Keeps the outcome of the call of this frame until the thread has replied to those made in
    /// the course of it. Fails and returns the outcome if the thread does not wait for the call
    /// (see [`Self::waits_for`]).
    pub(crate) fn keep_outcome(&mut self, of: FrameId, outcome: T) -> Result<(), T> {
        match self.frames.get_mut(of.place()) {
            Some(frame) if matches!(&*frame, Frame::Outgoing { serial, .. } if *serial == of.serial) =>
            {
                *frame = Frame::Ended(outcome);
                Ok(())
            }
            _ => Err(outcome),
        }
    }

    /// Returns the call that the thread served when it made the call of this frame, if the thread
    /// still waits for the latter.
    pub(crate) fn served_during(&self, frame: FrameId) -> Option<&T> {
        let previous = self.frames.get(frame.place().checked_sub(1)?)?;
        match (self.frames.get(frame.place())?, previous) {
            (Frame::Outgoing { serial, .. }, Frame::Incoming(served))
                if *serial == frame.serial =>
            {
                Some(served)
            }
            _ => None,
        }
    }
}
