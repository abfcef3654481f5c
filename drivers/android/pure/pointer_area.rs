// SPDX-License-Identifier: GPL-2.0

//! What pointers in a transaction's data point to: where each block goes, and which bytes of it are
//! not copied but put there by somebody else.
//!
//! A block is an object of the data (`PTR`). Its copy is cut from the front of an area of the
//! receiver's buffer, so no two blocks share a byte. Other objects may claim *gaps* in it: the place
//! of a pointer to another block, or an array of file descriptors. Which gaps are allowed is the
//! contract's OBJ-4:
//!
//! ```text
//!   block A  ├──copied──┤gap: pointer to B├──copied──┤gap: pointer to C├──── not yet ────┤
//!   block C  ├── not yet ──┤                                            ▲ A's cursor
//! ```
//!
//! Each open block has a cursor that only moves forward: up to it, every byte has been copied or
//! claimed, exactly once; behind it, nothing has been touched (lessons R16, C07). A claim copies
//! what lies between the cursor and the gap and moves the cursor behind the gap. Only the latest
//! block and its ancestors are open; a claim in one of them closes those that are nested more
//! deeply, which copies what remains of them. So the sender's pointers and descriptors are never
//! copied, and the order in which they may be replaced needs no rule of its own.
//!
//! This room has no memory of the sender or the receiver in its hands: it is told to copy through a
//! function, and is tested on the host with another one.

use kernel::{alloc::AllocError, prelude::*};

/// Blocks begin at multiples of this within the area.
const BLOCK_ALIGNMENT: u64 = 8;

/// Gaps begin at multiples of this within their block (contract OBJ-6).
const GAP_ALIGNMENT: u64 = 4;

/// The size of a pointer as the wire has it.
pub(crate) const POINTER_SIZE: u64 = size_of::<u64>() as u64;

/// Says that an object does not fit: there is no room left for it, or it may not be where it wants
/// to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DoesNotFit;

/// Bytes to be copied from the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where they go, relative to the start of the buffer.
    pub(crate) at: usize,
    /// Where they are in the sender's memory.
    pub(crate) source: u64,
    pub(crate) length: usize,
}

/// Bytes of a block that are not copied. Whoever claimed them fills them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Where they are, relative to the start of the buffer.
    pub(crate) at: usize,
    /// Where the sender has what he wants replaced.
    pub(crate) source: u64,
}

/// Why an area cannot take an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AreaError<E> {
    DoesNotFit,
    NoMemory,
    /// The copying itself failed.
    Copy(E),
}

impl<E> From<DoesNotFit> for AreaError<E> {
    fn from(_: DoesNotFit) -> Self {
        Self::DoesNotFit
    }
}

impl<E> From<AllocError> for AreaError<E> {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// A block in which gaps may still be claimed.
#[derive(Clone, Copy)]
struct Block {
    /// The object that it belongs to, as an index into the array of offsets.
    object: u64,
    start: usize,
    source: u64,
    length: usize,
    /// Up to where the block is done. An empty gap may lie behind the block's end, and then this
    /// does as well.
    cursor: u64,
}

impl Block {
    /// What lies between the cursor and `end`, or the end of the block if that comes first.
    fn piece_until(&self, end: u64) -> Option<Piece> {
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(self.length);
        let done = usize::try_from(self.cursor).unwrap_or(usize::MAX);
        let length = end.checked_sub(done).filter(|length| *length != 0)?;
        Some(Piece {
            at: self.start + done,
            source: self.source.wrapping_add(self.cursor),
            length,
        })
    }

    /// Whether a gap may be where it is wanted. An empty one may be anywhere behind the cursor, for
    /// it takes nothing.
    fn admits(&self, offset: u64, size: u64) -> Result<(), DoesNotFit> {
        let is_inside = offset
            .checked_add(size)
            .is_some_and(|end| end <= self.length as u64);
        let is_empty = size == 0;
        if offset < self.cursor || !is_empty && (!is_inside || offset % GAP_ALIGNMENT != 0) {
            return Err(DoesNotFit);
        }
        Ok(())
    }
}

/// The part of a buffer that takes copies of what pointers point to.
pub(crate) struct PointerArea {
    /// Where the next block goes.
    next: usize,
    end: usize,
    /// The latest block and its ancestors, the outermost first.
    open: Option<KVVec<Block>>,
}

impl PointerArea {
    /// An area between two places of a buffer.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self {
            next: start,
            end,
            open: None,
        }
    }

    /// Adds the block of object number `object`, which is nobody's child. Says where it goes.
    ///
    /// Numbers only ever grow from call to call.
    pub(crate) fn add_root<E>(
        &mut self,
        object: u64,
        source: u64,
        length: u64,
        copy: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<usize, AreaError<E>> {
        let block = self.cut(object, source, length)?;
        self.close_down_to(0, copy)?;
        self.push(block)?;
        Ok(block.start)
    }

    /// Adds the block of an object to which a pointer in the block of `parent`, at `parent_offset`,
    /// points. Says where it goes, and where that has to be written.
    pub(crate) fn add_child<E>(
        &mut self,
        object: u64,
        source: u64,
        length: u64,
        (parent, parent_offset): (u64, u64),
        copy: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(usize, Gap), AreaError<E>> {
        let block = self.cut(object, source, length)?;
        let gap = self.claim(parent, parent_offset, POINTER_SIZE, copy)?;
        self.push(block)?;
        Ok((block.start, gap))
    }

    /// Claims `size` bytes in the block of object `parent`.
    pub(crate) fn claim<E>(
        &mut self,
        parent: u64,
        offset: u64,
        size: u64,
        copy: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<Gap, AreaError<E>> {
        let open = self.open.as_ref().ok_or(DoesNotFit)?;
        let depth = open.iter().rev().position(|b| b.object == parent);
        let depth = open.len() - depth.ok_or(DoesNotFit)?;
        self.close_down_to(depth, copy)?;
        let last = self.open.as_mut().and_then(|open| open.last_mut());
        let block = last.ok_or(DoesNotFit)?;
        block.admits(offset, size)?;
        if let Some(piece) = block.piece_until(offset) {
            copy(piece).map_err(AreaError::Copy)?;
        }
        // No overflow: a gap that is not empty ends inside of the block.
        block.cursor = offset + size;
        // CAST: where an empty gap lies nobody asks.
        Ok(Gap {
            at: block.start.wrapping_add(offset as usize),
            source: block.source.wrapping_add(offset),
        })
    }

    /// No more objects: copies what remains of all blocks.
    pub(crate) fn finish<E>(
        mut self,
        copy: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), AreaError<E>> {
        self.close_down_to(0, copy)
    }

    /// Cuts a block off the rest of the area.
    fn cut(&mut self, object: u64, source: u64, length: u64) -> Result<Block, DoesNotFit> {
        let start = self.next;
        let room = self.end - start;
        let used = length
            .checked_next_multiple_of(BLOCK_ALIGNMENT)
            .and_then(|used| usize::try_from(used).ok())
            .filter(|used| *used <= room)
            .ok_or(DoesNotFit)?;
        self.next += used;
        Ok(Block {
            object,
            start,
            source,
            // CAST: no larger than `used`.
            length: length as usize,
            cursor: 0,
        })
    }

    /// Opens a block, whose memory is allocated with the first of them.
    fn push(&mut self, block: Block) -> Result<(), AllocError> {
        let open = self.open.get_or_insert_with(KVVec::new);
        open.push(block, GFP_KERNEL)
    }

    /// Closes all but the `depth` outermost blocks.
    fn close_down_to<E>(
        &mut self,
        depth: usize,
        copy: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), AreaError<E>> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        while open.len() > depth {
            let Some(block) = open.pop() else {
                break;
            };
            if let Some(piece) = block.piece_until(u64::MAX) {
                copy(piece).map_err(AreaError::Copy)?;
            }
        }
        Ok(())
    }
}
