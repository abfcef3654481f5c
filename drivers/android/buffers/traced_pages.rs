// SPDX-License-Identifier: GPL-2.0

//! The pages of a buffer that come into use with it and are free after it, and trace events about
//! them.
//!
//! A page that a buffer shares with its neighbours is in use as long as any of them. The C driver
//! takes a page off its list whenever it comes into use. Here a page that is used again stays on
//! the pool's list (see [`crate::kernel_ext::page_range`]). The events about that list report when
//! a page comes into use and when it is free.

use crate::{
    ffi::trace, //
    kernel_ext::page_range::PageRange,
    range_alloc::RangeAllocator,
};
use core::ops::Range;
use kernel::page::{PAGE_SHIFT, PAGE_SIZE};

/// A buffer, and those of its pages in which no other buffer has a byte.
pub(crate) struct OwnPages {
    buffer: Range<usize>,
    pub(crate) pages: Range<usize>,
}

impl OwnPages {
    /// Finds the pages of a buffer of `ranges`, which begins at `offset`.
    pub(crate) fn of<D>(ranges: &RangeAllocator<D>, offset: usize, size: usize) -> Self {
        let end = offset + size;
        let first = offset >> PAGE_SHIFT;
        let last = (end - 1) >> PAGE_SHIFT;
        let is_first_shared = ranges.touches(first << PAGE_SHIFT, offset);
        let is_last_shared = ranges.touches(end, (last + 1) << PAGE_SHIFT);
        let start = first + usize::from(is_first_shared);
        let stop = last + usize::from(!is_last_shared);
        Self {
            buffer: offset..end,
            pages: start..stop.max(start),
        }
    }

    /// Emits the events for a buffer that was reserved.
    pub(crate) fn trace_taken(&self, process: i32, pages: &PageRange) {
        let Range { start, end } = self.pages;
        let bytes = (end - start) << PAGE_SHIFT;
        trace::update_page_range(process, true, start << PAGE_SHIFT, bytes);
        for index in self.pages.clone().filter(|index| pages.has_page(*index)) {
            trace::alloc_lru(process, index);
        }
    }

    /// Emits the events for a buffer that was freed: first for the pages that had no other, then
    /// for its last and for its first page, if others might have shared them.
    pub(crate) fn trace_freed(&self, process: i32, pages: &PageRange) {
        let Range { start, end } = self.buffer;
        let first = start >> PAGE_SHIFT;
        let last = end >> PAGE_SHIFT;
        let begins_within = start % PAGE_SIZE != 0;
        let ends_within = end % PAGE_SIZE != 0;
        let inner = first + usize::from(begins_within);
        free(process, pages, inner..last.max(inner));
        let is_one_page = first == last && begins_within;
        if ends_within && !is_one_page && self.pages.contains(&last) {
            free(process, pages, last..last + 1);
        }
        if begins_within && self.pages.contains(&first) {
            free(process, pages, first..first + 1);
        }
    }
}

/// Emits the events for pages that are free.
fn free(process: i32, pages: &PageRange, free: Range<usize>) {
    let bytes = free.len() << PAGE_SHIFT;
    trace::update_page_range(process, false, free.start << PAGE_SHIFT, bytes);
    for index in free.filter(|index| pages.has_page(*index)) {
        trace::free_lru(process, index);
    }
}

/// Emits the events for the buffers of a space that ends, which are freed one after the other.
pub(crate) fn trace_all_freed<D>(ranges: &RangeAllocator<D>, process: i32, pages: &PageRange) {
    if !trace::are_pages_on() {
        return;
    }
    let starts = Iterator::chain(
        ranges.ranges().skip(1).map(|range| range.offset),
        [usize::MAX],
    );
    for (range, next) in ranges.ranges().zip(starts) {
        let end = range.offset + range.size;
        let first = range.offset >> PAGE_SHIFT;
        let stop = usize::min(end.div_ceil(PAGE_SIZE), next >> PAGE_SHIFT);
        let own = OwnPages {
            buffer: range.offset..end,
            pages: first..stop.max(first),
        };
        own.trace_freed(process, pages);
    }
}
