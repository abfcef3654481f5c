// SPDX-License-Identifier: GPL-2.0

//! The memory of a request of the block layer. The modules here have this file among their own.

use core::marker::PhantomData;
use kernel::{
    bindings,
    page::{PAGE_SHIFT, PAGE_SIZE}, //
};

/// The memory of a request.
///
/// # Invariants
///
/// `bio` is null, or in the chain of a request that is begun. If it is not null, `offset` bytes of
/// the vector `index` and those before are done, and `left` bytes are not.
pub(crate) struct Segments<'a> {
    bio: *mut bindings::bio,
    left: u32,
    index: u32,
    offset: u32,
    _request: PhantomData<&'a ()>,
}

impl Segments<'_> {
    /// Returns the memory of a request.
    ///
    /// # Safety
    ///
    /// The request is begun, and does not end during the lifetime. Nobody changes its bios.
    #[inline(always)]
    pub(super) unsafe fn of(request: *const bindings::request) -> Self {
        let mut segments = Self {
            // SAFETY: By the condition.
            bio: unsafe { (*request).bio },
            left: 0,
            index: 0,
            offset: 0,
            _request: PhantomData,
        };
        segments.enter();
        segments
    }

    /// Begins with the bio.
    #[inline(always)]
    fn enter(&mut self) {
        if !self.bio.is_null() {
            // SAFETY: By the type's invariant. Nobody changes this field until the request ends.
            let from = unsafe { (*self.bio).bi_iter };
            (self.left, self.index, self.offset) = (from.bi_size, from.bi_idx, from.bi_offset);
        }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Segment<'a>> {
        self.next_of(usize::MAX)
    }
}

impl<'a> Segments<'a> {
    /// Returns the next part, which has at most so many bytes, of which there are some.
    #[inline(always)]
    pub(crate) fn next_of(&mut self, most: usize) -> Option<Segment<'a>> {
        while !self.bio.is_null() {
            if self.left == 0 {
                // SAFETY: As in `enter`.
                self.bio = unsafe { (*self.bio).bi_next };
                self.enter();
                continue;
            }
            // SAFETY: As in `enter`. A bio that has bytes left has a vector with them.
            let vector = unsafe { *(*self.bio).bi_io_vec.add(self.index as usize) };
            let start = (vector.bv_offset + self.offset) as usize;
            let in_vector = u32::min(vector.bv_len - self.offset, self.left) as usize;
            let in_page = usize::min(in_vector, PAGE_SIZE - start % PAGE_SIZE);
            let size = usize::min(in_page, most);
            // CAST: At most a page.
            self.left -= size as u32;
            self.offset += size as u32;
            if self.offset == vector.bv_len {
                self.index += 1;
                self.offset = 0;
            }
            return Some(Segment {
                // The pages of a vector follow each other.
                page: vector.bv_page.wrapping_add(start >> PAGE_SHIFT),
                offset: start % PAGE_SIZE,
                size,
                _request: PhantomData,
            });
        }
        None
    }
}

/// A part of a request's memory.
///
/// # Invariants
///
/// The bytes from `offset` on, of which there are `size`, are in the page, and belong to a request
/// that is begun.
#[derive(Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(super) page: *mut bindings::page,
    pub(super) offset: usize,
    pub(super) size: usize,
    pub(super) _request: PhantomData<&'a ()>,
}

impl Segment<'_> {
    /// Returns the number of bytes.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}
