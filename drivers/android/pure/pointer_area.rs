// SPDX-License-Identifier: GPL-2.0

//! The pointer area of a buffer: the place of each pointer's block, and the bytes of a block that
//! the driver writes instead of copying them from the sender.
//!
//! A block belongs to an object of the data (`PTR`). Its copy is cut from the front of an area of
//! the receiver's buffer, so no two blocks share a byte. Other objects may claim *gaps* in it: the
//! place of a pointer to another block, or an array of file descriptors. OBJ-4 of the contract
//! defines which gaps are allowed:
//!
//! ```text
//!   block A  ├──copied──┤gap: pointer to B├──copied──┤gap: pointer to C├──── not yet ────┤
//!   block C  ├── not yet ──┤                                            ▲ A's cursor
//! ```
//!
//! Each open block has a cursor that only moves forward. Every byte before the cursor has been
//! copied or claimed, exactly once; no byte behind it has been touched (lessons R16, C07). A claim
//! copies the bytes between the cursor and the gap and moves the cursor behind the gap. Only the
//! latest block and its ancestors are open. A claim in one of them closes the blocks that are
//! nested more deeply, which copies the rest of them. So the sender's pointers and descriptors are
//! never copied, and the order in which they may be replaced needs no rule of its own.
//!
//! This module does not access the memory of the sender or the receiver: the caller passes a
//! function that copies, and the tests on the host pass another one.

use kernel::prelude::*;

/// The alignment of blocks within the area.
const BLOCK_ALIGNMENT: u64 = 8;

/// The alignment of gaps within their block (contract OBJ-6).
const GAP_ALIGNMENT: u64 = 4;

/// The size of a pointer in the data of a transaction.
const POINTER_SIZE: u64 = size_of::<u64>() as u64;

/// Bytes of a block: to be copied from the sender, or a gap, which the object that claimed it
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The offset of the bytes from the start of the buffer.
    pub(crate) at: usize,
    /// The address in the sender's memory of the bytes that are copied or replaced.
    pub(crate) source: u64,
    pub(crate) length: usize,
}

/// A block in which gaps may still be claimed.
#[derive(Clone, Copy)]
struct Block {
    /// The object to which the block belongs, as an index into the array of offsets.
    object: u64,
    start: usize,
    source: u64,
    length: usize,
    /// The end of the part that is copied or claimed. An empty gap may lie behind the end of the
    /// block, and the cursor is behind it then, too.
    cursor: u64,
}

impl Block {
    /// Returns what lies between the cursor and `end`, or the end of the block if that is lower.
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

    /// Returns whether a gap is allowed at a place. An empty gap may be anywhere behind the cursor,
    /// because it takes no bytes.
    fn admits(&self, offset: u64, size: u64) -> bool {
        let is_inside = offset
            .checked_add(size)
            .is_some_and(|end| end <= self.length as u64);
        offset >= self.cursor && (size == 0 || is_inside && offset % GAP_ALIGNMENT == 0)
    }
}

/// The part of a buffer that receives copies of the blocks to which pointers point.
///
/// Its functions fail with `EINVAL` if an object does not fit: no room is left for it, or its place
/// is not allowed. They also fail with `ENOMEM`, and if the function that copies fails.
pub(crate) struct PointerArea {
    /// The offset of the next block.
    next: usize,
    end: usize,
    /// The latest block and its ancestors, the outermost first.
    open: KVVec<Block>,
}

impl PointerArea {
    /// Returns an area between two offsets of a buffer.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self {
            next: start,
            end,
            open: KVVec::new(),
        }
    }

    /// Adds the block of object number `object`. `parent` is the object in whose block a pointer to
    /// the new block lies, if one does, and the offset of that pointer. Returns where the block
    /// goes, and the gap in which the pointer has to be written.
    ///
    /// The numbers of objects increase from call to call.
    pub(crate) fn add(
        &mut self,
        object: u64,
        source: u64,
        length: u64,
        parent: Option<(u64, u64)>,
        copy: &mut impl FnMut(Piece) -> Result,
    ) -> Result<(usize, Option<Piece>)> {
        let block = self.cut(object, source, length)?;
        let gap = match parent {
            Some((parent, offset)) => Some(self.claim(parent, offset, POINTER_SIZE, copy)?),
            None => {
                self.close_down_to(0, copy)?;
                None
            }
        };
        self.open.push(block, GFP_KERNEL)?;
        Ok((block.start, gap))
    }

    /// Claims `size` bytes in the block of object `parent`, and returns them as a gap.
    pub(crate) fn claim(
        &mut self,
        parent: u64,
        offset: u64,
        size: u64,
        copy: &mut impl FnMut(Piece) -> Result,
    ) -> Result<Piece> {
        let index = self.open.iter().rposition(|b| b.object == parent);
        let index = index.ok_or(EINVAL)?;
        self.close_down_to(index + 1, copy)?;
        let block = self.open.get_mut(index).ok_or(EINVAL)?;
        if !block.admits(offset, size) {
            return Err(EINVAL);
        }
        if let Some(piece) = block.piece_until(offset) {
            copy(piece)?;
        }
        // No overflow: a gap that is not empty ends inside of the block.
        block.cursor = offset + size;
        // CAST: the place of an empty gap is never used.
        Ok(Piece {
            at: block.start.wrapping_add(offset as usize),
            source: block.source.wrapping_add(offset),
            length: size as usize,
        })
    }

    /// Ends the area after the last object: copies what remains of all blocks.
    pub(crate) fn finish(mut self, copy: &mut impl FnMut(Piece) -> Result) -> Result {
        self.close_down_to(0, copy)?;
        if self.open.capacity() == 0 {
            // It has no memory, and would call the allocator to free it.
            core::mem::forget(self.open);
        }
        Ok(())
    }

    /// Cuts a block from the unused rest of the area.
    fn cut(&mut self, object: u64, source: u64, length: u64) -> Result<Block> {
        let start = self.next;
        let room = self.end - start;
        let used = length
            .checked_next_multiple_of(BLOCK_ALIGNMENT)
            .and_then(|used| usize::try_from(used).ok())
            .filter(|used| *used <= room)
            .ok_or(EINVAL)?;
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

    /// Closes all but the `depth` outermost blocks: copies what remains of them.
    fn close_down_to(&mut self, depth: usize, copy: &mut impl FnMut(Piece) -> Result) -> Result {
        while self.open.len() > depth {
            let piece = self
                .open
                .pop()
                .and_then(|block| block.piece_until(u64::MAX));
            if let Some(piece) = piece {
                copy(piece)?;
            }
        }
        Ok(())
    }
}
