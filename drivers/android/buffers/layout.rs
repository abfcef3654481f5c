// SPDX-License-Identifier: GPL-2.0

//! Where the parts of a transaction lie in its buffer: the data, the array of offsets, the blocks
//! that pointers point to, and the sender's security context.

use crate::{
    defs::TransactionRequest,
    ffi::trace, //
    range_alloc::Label,
};
use kernel::prelude::*;

/// The layout of a transaction in its buffer; all sizes in bytes, none larger than the largest
/// space.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) data_size: u32,
    pub(crate) offsets_size: u32,
    /// The size of the part at the end for the sender's security context; 0 if there is none.
    context_size: u32,
    pub(crate) total: u32,
}

/// Sizes below this are added up without checks for overflow.
pub(crate) const SMALL: u64 = 1 << 24;

impl Layout {
    /// Returns the layout for a request with a security context of this size (contract OBJ-3).
    /// `EINVAL` if the total exceeds what can be counted, `ENOSPC` if it exceeds every space.
    #[inline]
    pub(crate) fn of(request: &TransactionRequest, context_size: usize) -> Result<Self> {
        let all = request.data_size | request.offsets_size | request.buffers_size;
        if all | context_size as u64 >= SMALL {
            return Err(Self::why_too_large(request, context_size));
        }
        // CAST: they are less than `SMALL`.
        let data_size = request.data_size as u32;
        let offsets_size = request.offsets_size as u32;
        let buffers_size = request.buffers_size as u32;
        let context_size = aligned_to::<u64>(context_size as u32);
        // Four sizes up to `SMALL` do not wrap, and checked additions are a branch each in every
        // call.
        Ok(Self {
            data_size,
            offsets_size,
            context_size,
            total: aligned(data_size)
                .wrapping_add(aligned(offsets_size))
                .wrapping_add(aligned(buffers_size))
                .wrapping_add(context_size),
        })
    }

    #[cold]
    fn why_too_large(request: &TransactionRequest, context_size: usize) -> Error {
        let sizes = [
            request.data_size,
            request.offsets_size,
            request.buffers_size,
        ];
        let mut total = context_size;
        for size in sizes {
            let size = usize::try_from(size).ok();
            let size = size.and_then(|size| size.checked_next_multiple_of(size_of::<usize>()));
            match size.and_then(|size| total.checked_add(size)) {
                Some(sum) => total = sum,
                None => return EINVAL,
            }
        }
        ENOSPC
    }

    /// Returns the size of the data.
    pub(crate) fn data_size(&self) -> usize {
        self.data_size as usize
    }

    /// Returns the size of the array of offsets.
    pub(crate) fn offsets_size(&self) -> usize {
        self.offsets_size as usize
    }

    /// Returns the offset of the sender's security context from the start of the buffer, if the
    /// buffer has one.
    pub(crate) fn context_at(&self) -> Option<usize> {
        (self.context_size != 0).then(|| (self.total - self.context_size) as usize)
    }

    /// Returns the start of the array of offsets, relative to the data.
    pub(crate) fn offsets_at(&self) -> usize {
        aligned(self.data_size) as usize
    }

    /// Returns the size of the buffer, which has at least the size of a pointer.
    pub(crate) fn size(&self) -> usize {
        usize::max(self.total as usize, size_of::<usize>())
    }

    /// Returns what is noted of the buffer of transaction `id` in the space.
    pub(crate) fn label(&self, id: u32) -> Label {
        Label {
            id,
            data_size: self.data_size,
            offsets_size: self.offsets_size,
        }
    }

    /// Returns what trace events say of the buffer of transaction `id`. The security context counts
    /// among the blocks that pointers point to.
    pub(crate) fn traced(&self, id: u32) -> trace::BufferOf {
        let before = aligned(self.data_size) + aligned(self.offsets_size);
        trace::BufferOf {
            id,
            data_size: self.data_size as usize,
            offsets_size: self.offsets_size as usize,
            extra_size: (self.total - before) as usize,
        }
    }

    /// Returns the start and the end of the pointer area: it lies between the offsets and the
    /// security context.
    pub(crate) fn pointers(&self) -> (usize, usize) {
        let start = aligned(self.data_size) + aligned(self.offsets_size);
        (start as usize, (self.total - self.context_size) as usize)
    }
}

/// Rounds up to the size of a pointer.
pub(crate) fn aligned(size: u32) -> u32 {
    aligned_to::<usize>(size)
}

/// Rounds a [small](SMALL) size up to the size of a `T`.
fn aligned_to<T>(size: u32) -> u32 {
    let last = size_of::<T>() as u32 - 1;
    size.wrapping_add(last) & !last
}
