// SPDX-License-Identifier: GPL-2.0

//! Data in pages, which are found without a lock.

use super::{inline::*, segments::Segment};
use core::{marker::PhantomData, ops::Range};
use kernel::{bindings, page::PAGE_SIZE, prelude::*, sync::rcu, types::Opaque};

/// The bytes of a page.
pub(crate) const PAGE: usize = PAGE_SIZE;

/// A caller may sleep, or must not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    MaySleep,
    Atomic,
}

/// The data of a device. Bytes that were never written are zero.
///
/// # Invariants
///
/// Each entry is a page that the array owns. A page that is taken out is freed when all RCU read
/// sections have ended that had begun before.
#[pin_data(PinnedDrop)]
pub(crate) struct Pages {
    #[pin]
    pages: Opaque<bindings::xarray>,
}

// SAFETY: The array has a lock of its own, and readers are in RCU sections.
unsafe impl Send for Pages {}
// SAFETY: As above.
unsafe impl Sync for Pages {}

/// A part of a page of the data.
struct Place {
    index: usize,
    offset: usize,
}

impl Place {
    #[inline(always)]
    fn of(position: u64) -> Self {
        // CAST: A device with more pages than a word can count has no address in memory.
        Self {
            index: (position / PAGE as u64) as usize,
            offset: (position % PAGE as u64) as usize,
        }
    }
}

impl Pages {
    /// Makes data without a page.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The place is there, and nobody uses it yet.
            pages <- Opaque::ffi_init(|place| unsafe { bindings::xa_init_flags(place, 0) }),
        })
    }

    /// Returns whether there is no page.
    pub(crate) fn is_empty(&self) -> bool {
        let mut index = 0;
        // SAFETY: The array is initialised. The function has an RCU section of its own.
        let page = unsafe { bindings::xa_find(self.pages.get(), &mut index, usize::MAX, PRESENT) };
        page.is_null()
    }

    /// Begins accesses. They are cheap if they go forward.
    #[inline(always)]
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        let mut state: bindings::xa_state = pin_init::zeroed();
        state.xa = self.pages.get();
        state.xa_node = RESTART;
        Cursor {
            state,
            reading: Some(rcu::read_lock()),
            _pages: PhantomData,
        }
    }

    /// Makes all bytes of a range zero, and frees the pages that are in it. Does not sleep.
    pub(crate) fn discard(&self, range: Range<u64>) {
        let page = PAGE as u64;
        let (first, behind) = (range.start.div_ceil(page), range.end / page);
        if first > behind {
            return self.cursor().clear(range);
        }
        self.cursor().clear(range.start..first * page);
        self.cursor().clear(behind * page..range.end);
        if first < behind {
            // CAST: As for places. SAFETY: The array is initialised.
            unsafe { nullb_pages_remove(self.pages.get(), first as usize, behind as usize - 1) };
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Pages {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Nobody uses the array any more.
        unsafe { nullb_pages_free(self.pages.get()) };
    }
}

/// `XA_PRESENT`: any entry.
const PRESENT: bindings::xa_mark_t = 8;

/// The state of a walk that has to begin at the top of the array.
const RESTART: *mut bindings::xa_node = core::ptr::without_provenance_mut(3);

/// A place in data, where an RCU read section begins.
///
/// # Invariants
///
/// The state is for the array of the pages, and begins anew if the section was left in between.
pub(crate) struct Cursor<'a> {
    state: bindings::xa_state,
    /// Nothing for a moment, while a page is added.
    reading: Option<rcu::Guard>,
    _pages: PhantomData<&'a Pages>,
}

impl Cursor<'_> {
    /// Reads what is at a position into a segment. Does not sleep.
    #[inline(always)]
    pub(crate) fn read(&mut self, mut position: u64, mut segment: Segment<'_>) {
        while segment.size() > 0 {
            let Place { index, offset } = Place::of(position);
            let (part, rest) = segment.split(PAGE - offset);
            let page = self.find(index);
            if page.is_null() {
                part.zero();
            } else {
                // SAFETY: The page lives until the section ends. Both parts are in their pages.
                unsafe { nullb_copy(part.page, part.offset, page, offset, part.size) };
            }
            position += part.size as u64;
            segment = rest;
        }
    }

    /// Writes a segment to a position. Sleeps if the context allows it. `ENOMEM`.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        mut position: u64,
        mut segment: Segment<'_>,
        context: Context,
    ) -> Result {
        while segment.size() > 0 {
            let Place { index, offset } = Place::of(position);
            let (part, rest) = segment.split(PAGE - offset);
            let page = self.find_or_add(index, context)?;
            // SAFETY: The page lives until the section ends. Both parts are in their pages.
            unsafe { nullb_copy(page, offset, part.page, part.offset, part.size) };
            position += part.size as u64;
            segment = rest;
        }
        Ok(())
    }

    /// Reads what is at a position, in one page, into memory. Does not sleep.
    pub(crate) fn get(&mut self, position: u64, data: &mut [u8]) {
        let Place { index, offset } = Place::of(position);
        assert!(offset + data.len() <= PAGE);
        let page = self.find(index);
        if page.is_null() {
            data.fill(0);
        } else {
            // SAFETY: The page lives until the section ends. The part is in it, and the memory is as
            // large.
            unsafe { nullb_copy_out(data.as_mut_ptr().cast(), page, offset, data.len()) };
        }
    }

    /// Writes data to a position; they are in one page. Sleeps. `ENOMEM`.
    pub(crate) fn put(&mut self, position: u64, data: &[u8]) -> Result {
        let Place { index, offset } = Place::of(position);
        assert!(offset + data.len() <= PAGE);
        let page = self.find_or_add(index, Context::MaySleep)?;
        // SAFETY: As above.
        unsafe { nullb_copy_in(page, offset, data.as_ptr().cast(), data.len()) };
        Ok(())
    }

    /// Makes all bytes of a range in one page zero.
    fn clear(&mut self, range: Range<u64>) {
        let Place { index, offset } = Place::of(range.start);
        let page = self.find(index);
        if range.start < range.end && !page.is_null() {
            // CAST: In a page. SAFETY: The page lives until the section ends.
            unsafe { nullb_zero(page, offset, (range.end - range.start) as usize) };
        }
    }

    /// Returns a page, or null. It lives until the section ends.
    #[inline(always)]
    fn find(&mut self, index: usize) -> *mut bindings::page {
        // SAFETY: By the type's invariant, in the section.
        unsafe { nullb_pages_find(&mut self.state, index) }
    }

    /// Returns a page, which is added if it is not there. It lives until the section ends.
    #[inline(always)]
    fn find_or_add(&mut self, index: usize, context: Context) -> Result<*mut bindings::page> {
        loop {
            let page = self.find(index);
            if !page.is_null() {
                return Ok(page);
            }
            self.add(index, context)?;
            // It may be gone again.
        }
    }

    /// Adds a page if there is none. Leaves the section for that.
    #[inline(never)]
    fn add(&mut self, index: usize, context: Context) -> Result {
        self.reading = None;
        let may_wait = context == Context::MaySleep;
        // SAFETY: By the invariant of the type. It sleeps only if the context allows it.
        let page = unsafe { nullb_pages_add(self.state.xa, index, may_wait) };
        // INVARIANT: The state begins anew.
        self.state.xa_node = RESTART;
        self.reading = Some(rcu::read_lock());
        match page.is_null() {
            true => Err(ENOMEM),
            false => Ok(()),
        }
    }
}
