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

use kernel::{
    alloc::{AllocError, Flags},
    prelude::*, //
};

/// One level of a thread's call stack; `T` is a transaction.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) enum Frame<T> {
    /// A call that the thread made and waits for.
    Outgoing {
        /// The serial number of its [`FrameId`].
        serial: u64,
        /// The pid of the process that it is for. It names that process only for people, and for
        /// searches that find out by the serial number whether they are right.
        target: i32,
    },
    /// A call that the thread made and whose outcome arrived early, because a process or thread in
    /// between died. The thread has not replied yet to a call made in the course of this one. The
    /// thread reads the outcome after its reply (contract TXN-26).
    Ended(T),
    /// A call that the thread serves.
    Incoming(T),
    /// A call to which the thread is replying. Until the reply is sent, the outcome of no call
    /// below is delivered: the thread reads the completion of its reply first.
    Replying,
}

// As small as without what is of use only to searches: a page has room for as many calls as ever.
const _: () = assert!(size_of::<Frame<&()>>() == 16);

/// Names a frame of an outgoing call, and thereby the call. Packed, so that a transaction has no
/// padding for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(Rust, packed(4))]
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

    /// Returns whether a frame is the one of this call.
    #[inline(always)]
    fn names<T>(self, frame: Option<&Frame<T>>) -> bool {
        matches!(frame, Some(Frame::Outgoing { serial, .. }) if *serial == self.serial)
    }
}

/// A thread's call stack.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
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

    /// Returns whether the thread makes or serves a call. A call to which the thread is replying
    /// does not count.
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

    /// Removes the call that the thread serves, if that is the innermost frame, and returns it.
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
        let is_it = frame.names(self.frames.last());
        if is_it {
            // Such a frame has nothing to drop; the compiler would call a function to find that
            // out.
            core::mem::forget(self.frames.pop());
        }
        is_it
    }

    /// Returns whether the thread waits for the outcome of the call of this frame, which may be any
    /// frame of the stack.
    pub(crate) fn waits_for(&self, frame: FrameId) -> bool {
        frame.names(self.frames.get(frame.place()))
    }

    /// Keeps the outcome of the call of this frame until the thread has replied to those made in
    /// the course of it. Fails and returns the outcome if the thread does not wait for the call
    /// (see [`Self::waits_for`]).
    pub(crate) fn keep_outcome(&mut self, of: FrameId, outcome: T) -> Result<(), T> {
        match self.frames.get_mut(of.place()) {
            Some(frame) if of.names(Some(&*frame)) => {
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
        match previous {
            Frame::Incoming(served) if self.waits_for(frame) => Some(served),
            _ => None,
        }
    }
}

/// The number of items that fit into the lowest chunk: few stacks ever have more.
const FIRST: usize = 8;
/// The number of items that fit into any. The kernel allocates less than 2 GiB at once, and warns
/// of requests for more.
const MOST: usize = 1 << 26;

const _: () = assert!(MOST * size_of::<Option<Frame<&()>>>() < i32::MAX as usize);

/// The number of items that the next chunk has to have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage(usize);

/// Memory for more items.
pub(crate) type Room<T> = KBox<StackChunk<T>>;

/// A piece of memory of a stack.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct StackChunk<T> {
    /// Has no `None`: an item goes there and comes back as it is, so the compiler need not take it
    /// apart to find out that it is one.
    items: KVVec<Option<T>>,
    /// The place of the first item.
    start: usize,
    below: Option<Room<T>>,
}

/// A stack that is limited by memory alone, and whose items keep their places.
///
/// The last item, which is the only one of most stacks, is in the stack itself. Those below it are
/// in chunks: an item goes there when another one is pushed, and comes back when that is popped.
/// Each chunk has room for twice as many items as the one below it, up to [`MOST`], so no item is
/// moved when the stack grows, and few steps lead to any place.
///
/// ```text
///   highest ─► 32: empty ─► 16: places 8 … 11 ─► 8: places 0 … 7        last: place 12
/// ```
///
/// The caller passes the memory by which the stack grows and receives the memory that becomes free,
/// so pushing and popping neither allocate nor free.
/// A [`KVVec`] would move all items when it grows, under the lock of the process.
///
/// # Invariants
///
/// - If there is no `last` item, there are none in chunks.
/// - The chunks above one that is not full are empty, and those below one that is not empty are
///   full.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct ChunkedStack<T> {
    last: Option<T>,
    highest: Option<Room<T>>,
}

impl Shortage {
    /// Allocates the memory. Fails with `ENOMEM`; may sleep if `flags` permit it.
    pub(crate) fn allocate<T>(self, flags: Flags) -> Result<Room<T>> {
        let chunk = StackChunk {
            items: KVVec::with_capacity(self.0, flags)?,
            start: 0,
            below: None,
        };
        Ok(KBox::new(chunk, flags)?)
    }
}

impl<T> StackChunk<T> {
    fn is_full(&self) -> bool {
        self.items.len() == self.items.capacity()
    }

    /// Returns the place behind the last item.
    fn end(&self) -> usize {
        self.start + self.items.len()
    }
}

impl<T> ChunkedStack<T> {
    /// Returns an empty stack, without memory.
    pub(crate) fn new() -> Self {
        Self {
            last: None,
            highest: None,
        }
    }

    /// Returns the number of items, which is the place of the next one.
    pub(crate) fn len(&self) -> usize {
        self.place_of_last() + usize::from(self.last.is_some())
    }

    /// Returns the place of the last item, which is the number of those below it.
    fn place_of_last(&self) -> usize {
        let mut chunk = self.highest.as_deref();
        while let Some(empty) = chunk.filter(|chunk| chunk.items.is_empty()) {
            chunk = empty.below.as_deref();
        }
        chunk.map_or(0, StackChunk::end)
    }

    /// Returns the item that was pushed last.
    pub(crate) fn last(&self) -> Option<&T> {
        self.last.as_ref()
    }

    /// Returns the item that was pushed last.
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.last.as_mut()
    }

    /// Returns the item at a place.
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        if place == self.place_of_last() {
            return self.last.as_ref();
        }
        let mut chunk = self.highest.as_deref()?;
        while place < chunk.start {
            chunk = chunk.below.as_deref()?;
        }
        chunk.items.get(place - chunk.start)?.as_ref()
    }

    /// Returns the item at a place.
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        if place == self.place_of_last() {
            return self.last.as_mut();
        }
        let mut chunk = self.highest.as_deref_mut()?;
        while place < chunk.start {
            chunk = chunk.below.as_deref_mut()?;
        }
        chunk.items.get_mut(place - chunk.start)?.as_mut()
    }

    /// Returns whether an item can be pushed.
    pub(crate) fn has_room(&self) -> bool {
        self.last.is_none() || self.highest.as_deref().is_some_and(|it| !it.is_full())
    }

    /// Returns what has to be allocated before an item can be pushed, if anything.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        let highest = self.highest.as_deref();
        let next = highest.map_or(FIRST, |highest| 2 * highest.items.capacity());
        (!self.has_room()).then_some(Shortage(next.min(MOST)))
    }

    /// Adds memory. Returns what is not needed, to be dropped where freeing is allowed.
    pub(crate) fn add_room(&mut self, mut room: Room<T>) -> Option<Room<T>> {
        if self.has_room() {
            return Some(room);
        }
        room.start = self.place_of_last();
        room.below = self.highest.take();
        self.highest = Some(room);
        None
    }

    /// Pushes an item, and returns its place. Fails and returns the item if the stack has no room.
    #[inline(always)] // Most of a short lock round, and the item is made for it.
    pub(crate) fn push(&mut self, item: T) -> Result<usize, T> {
        if self.last.is_none() {
            // The old value, `None`, is not dropped: the compiler cannot prove that it is `None`
            // where items went through chunks, and would add code that drops it.
            core::mem::forget(self.last.replace(item));
            return Ok(0);
        }
        let chunk = self.highest.as_deref_mut();
        let Some(chunk) = chunk.and_then(Self::with_room) else {
            return Err(item);
        };
        let place = chunk.end();
        // Does not fail, because there is room.
        let _ = chunk.items.push_within_capacity(self.last.replace(item));
        Ok(place + 1)
    }

    /// Returns the lowest chunk that is not full, from the highest one.
    #[inline(never)] // Most stacks have one item, which is in no chunk.
    fn with_room(mut chunk: &mut StackChunk<T>) -> Option<&mut StackChunk<T>> {
        while chunk.below.as_ref().is_some_and(|below| !below.is_full()) {
            chunk = chunk.below.as_deref_mut()?;
        }
        (!chunk.is_full()).then_some(chunk)
    }

    /// Removes the item that was pushed last, and returns it.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = match &mut self.highest {
            None => None,
            Some(highest) => Self::pop_below(highest),
        };
        core::mem::replace(&mut self.last, last)
    }

    /// Removes the last item that is in a chunk, and returns it.
    #[inline(never)] // As above.
    fn pop_below(mut chunk: &mut StackChunk<T>) -> Option<T> {
        while chunk.items.is_empty() {
            chunk = chunk.below.as_deref_mut()?;
        }
        let item = chunk.items.last_mut()?.take();
        // Its place now contains `None`, so nothing has to be dropped.
        core::mem::forget(chunk.items.pop());
        item
    }

    /// Returns a chunk that became free, to be dropped where freeing is allowed: one that is empty
    /// and has an empty one below it. Between two chunks that become free, as many items are popped
    /// as fit into one.
    #[inline]
    pub(crate) fn take_surplus(&mut self) -> Option<Room<T>> {
        let is_empty = |chunk: &Room<T>| chunk.items.is_empty();
        let mut surplus = self
            .highest
            .take_if(|highest| is_empty(highest) && highest.below.as_ref().is_some_and(is_empty))?;
        self.highest = surplus.below.take();
        Some(surplus)
    }
}
