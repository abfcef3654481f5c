// SPDX-License-Identifier: GPL-2.0

//! The calls that a thread has made and serves, the innermost last.
//!
//! A call that was made keeps its place on the stack until its outcome is there, so the transaction
//! names its caller's frame by that place ([`FrameId`]), and nothing is ever searched for. Whoever has
//! the transaction knows that the frame is there as long as the thread is. Whoever has only
//! remembered the frame has to ask again whether the thread [waits](CallStack::waits_for) in it: by then
//! another call may have that place.
//!
//! What a transaction is, and who guards the stack, is nothing to it.

use crate::pure::chunked_stack::{Chunk, ChunkedStack, Room, Shortage};
use kernel::alloc::AllocError;

/// One level of a thread's call stack; `T` is a transaction.
pub(crate) enum Frame<T> {
    /// A call that the thread made and waits for; the number is that of its [`FrameId`].
    Outgoing(u64),
    /// A call that the thread made and whose outcome came before it has replied to one made in the
    /// course of that: somebody in between died. It hears of this after its reply (contract TXN-26).
    Ended(T),
    /// A call that the thread serves.
    Incoming(T),
    /// A call that the thread is replying to. As long as that takes, nothing of the calls below it is
    /// told: the thread hears that its reply is on its way first.
    Replying,
}

/// Names a frame of an outgoing call, and with it the call.
#[derive(Clone, Copy)]
pub(crate) struct FrameId {
    /// Where the frame is on the stack.
    pub(crate) place: u32,
    /// Which of all calls that the thread has ever made it is.
    pub(crate) serial: u64,
}

impl FrameId {
    /// Of no call.
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
    frames: ChunkedStack<Frame<T>>,
    /// The number of the call that was made last.
    last_serial: u64,
}

impl<T> CallStack<T> {
    /// Without calls.
    pub(crate) fn new() -> Self {
        Self {
            frames: ChunkedStack::new(),
            last_serial: 0,
        }
    }

    /// Whether there is nothing on the stack.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether the thread makes or serves a call. One that is replying does so no more.
    pub(crate) fn is_calling(&self) -> bool {
        match self.frames.len() {
            0 => false,
            1 => !matches!(self.frames.last(), Some(Frame::Replying)),
            _ => true,
        }
    }

    /// What the thread does at present.
    #[inline]
    pub(crate) fn innermost(&self) -> Option<&Frame<T>> {
        self.frames.last()
    }

    /// Whether the thread can begin another call.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.frames.has_room()
    }

    /// What has to be allocated before it can. Fails when no more places can be named, which takes
    /// more memory than there is.
    pub(crate) fn shortage(&self) -> Result<Option<Shortage>, AllocError> {
        let shortage = self.frames.shortage();
        if shortage.is_some() && self.frames.len() >= (u32::MAX / 2) as usize {
            return Err(AllocError);
        }
        Ok(shortage)
    }

    /// Brings that. Gives back what is not needed, to be dropped without the lock.
    pub(crate) fn add_room(&mut self, room: Room<Frame<T>>) -> Option<Room<Frame<T>>> {
        self.frames.add_room(room)
    }

    /// Memory that became free as calls ended, to be dropped without the lock.
    pub(crate) fn take_surplus(&mut self) -> Option<Chunk<Frame<T>>> {
        self.frames.take_surplus()
    }

    /// The thread makes a call. There has to be room.
    #[inline]
    pub(crate) fn push_outgoing(&mut self) -> FrameId {
        self.last_serial += 1;
        let frame = FrameId {
            place: self.frames.len() as u32,
            serial: self.last_serial,
        };
        let _ = self.frames.push(Frame::Outgoing(frame.serial));
        frame
    }

    /// The thread serves a call. There has to be room.
    #[inline]
    pub(crate) fn push_incoming(&mut self, call: T) {
        let _ = self.frames.push(Frame::Incoming(call));
    }

    /// Takes off whatever the thread does at present.
    pub(crate) fn pop(&mut self) -> Option<Frame<T>> {
        self.frames.pop()
    }

    /// Takes off the call that the thread serves, if that is what it does.
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

    /// The same, but the thread is [replying](Frame::Replying) until [`Self::end_reply`].
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

    /// The thread hears that its reply is on its way.
    pub(crate) fn end_reply(&mut self) {
        if matches!(self.frames.last(), Some(Frame::Replying)) {
            let _ = self.frames.pop();
        }
    }

    /// Takes off the outcome of the innermost call, if it is there already.
    pub(crate) fn pop_ended(&mut self) -> Option<T> {
        if !matches!(self.frames.last(), Some(Frame::Ended(_))) {
            return None;
        }
        match self.frames.pop() {
            Some(Frame::Ended(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// Takes off the call of this frame, if it is the innermost and the thread waits for it.
    #[inline]
    pub(crate) fn pop_outgoing(&mut self, frame: FrameId) -> bool {
        let is_it =
            matches!(self.frames.last(), Some(Frame::Outgoing(serial)) if *serial == frame.serial);
        if is_it {
            // In such a frame there is nothing to drop, which the compiler would call somebody to find out.
            core::mem::forget(self.frames.pop());
        }
        is_it
    }

    /// Whether the thread waits for the outcome of the call of this frame, which need not be the
    /// innermost.
    pub(crate) fn waits_for(&self, frame: FrameId) -> bool {
        matches!(self.frames.get(frame.place()), Some(Frame::Outgoing(serial)) if *serial == frame.serial)
    }

    /// Keeps the outcome of the call of this frame until the thread has replied to those made in the course of
    /// that. Gives it back if the thread does not [wait for](Self::waits_for) the call.
    pub(crate) fn keep_outcome(&mut self, of: FrameId, outcome: T) -> Result<(), T> {
        match self.frames.get_mut(of.place()) {
            Some(frame) if matches!(&*frame, Frame::Outgoing(serial) if *serial == of.serial) => {
                *frame = Frame::Ended(outcome);
                Ok(())
            }
            _ => Err(outcome),
        }
    }

    /// What the thread served when it made the call of this frame, if it still waits for that.
    pub(crate) fn served_during(&self, frame: FrameId) -> Option<&T> {
        match self.frames.get_with_previous(frame.place())? {
            (Frame::Outgoing(serial), Frame::Incoming(served)) if *serial == frame.serial => {
                Some(served)
            }
            _ => None,
        }
    }
}
