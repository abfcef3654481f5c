// SPDX-License-Identifier: GPL-2.0

//! Requests of the block layer: their operations, their memory, and their ends.

use super::{
    abi::{operation, Descriptor, SECTOR_SHIFT},
    inline::*,
    segments::Segments,
};
use crate::queue::Queue;
use core::{
    mem::{transmute, MaybeUninit},
    ptr::NonNull,
};
use kernel::{bindings, prelude::*};

/// Until a request is tried again for which the server's memory could not be reached.
const DELAY_MS: usize = 3;

/// How a request ends.
#[derive(Clone, Copy)]
pub(crate) struct Status(u8);

impl Status {
    pub(crate) const OK: Self = Self(0);
    pub(crate) const IO_ERROR: Self = Self(10);
    /// Linux calls it `BLK_STS_TARGET`.
    pub(crate) const NO_SERVER: Self = Self(5);

    /// Returns the status for a negative errno.
    pub(crate) fn from_errno(errno: i32) -> Self {
        // SAFETY: May be called for each number.
        Self(unsafe { bindings::errno_to_blk_status(errno) })
    }
}

/// Where the data of a request go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    None,
    FromServer,
    ToServer,
}

/// Numbers of the operations that a server gets, by the block layer's.
#[inline(always)]
fn operation_of(flags: u32) -> Option<u32> {
    match flags & ((1 << bindings::REQ_OP_BITS) - 1) {
        bindings::req_op_REQ_OP_READ => Some(operation::READ),
        bindings::req_op_REQ_OP_WRITE => Some(operation::WRITE),
        bindings::req_op_REQ_OP_FLUSH => Some(operation::FLUSH),
        bindings::req_op_REQ_OP_DISCARD => Some(operation::DISCARD),
        bindings::req_op_REQ_OP_WRITE_ZEROES => Some(operation::WRITE_ZEROES),
        _ => None,
    }
}

/// The block layer's flags that a server gets, and its own.
const FLAGS: [(u32, u32); 7] = [
    (
        bindings::req_flag_bits___REQ_FAILFAST_DEV,
        operation::FAILFAST_DEVICE,
    ),
    (
        bindings::req_flag_bits___REQ_FAILFAST_TRANSPORT,
        operation::FAILFAST_TRANSPORT,
    ),
    (
        bindings::req_flag_bits___REQ_FAILFAST_DRIVER,
        operation::FAILFAST_DRIVER,
    ),
    (bindings::req_flag_bits___REQ_META, operation::META),
    (bindings::req_flag_bits___REQ_FUA, operation::FUA),
    (bindings::req_flag_bits___REQ_NOUNMAP, operation::NO_UNMAP),
    (bindings::req_flag_bits___REQ_SWAP, operation::SWAP),
];

/// A request that the block layer passes, and that is not started.
///
/// # Invariants
///
/// The block layer has passed it to the driver, and nobody else uses it.
#[must_use]
pub(crate) struct Incoming(NonNull<bindings::request>);

/// The block layer's result for a request.
#[must_use]
pub(crate) struct Taken(pub(super) u8);

impl Incoming {
    /// # Safety
    ///
    /// The block layer has passed the request, and nobody else uses it.
    #[inline(always)]
    pub(super) unsafe fn new(request: *mut bindings::request) -> Self {
        // SAFETY: By the condition. INVARIANT: As well.
        Self(unsafe { NonNull::new_unchecked(request) })
    }

    /// Returns whether a server can get such a request.
    #[inline(always)]
    pub(crate) fn is_known(&self) -> bool {
        // SAFETY: By the type's invariant.
        operation_of(unsafe { (*self.0.as_ptr()).cmd_flags }).is_some()
    }

    /// Returns its number in its queue.
    #[inline(always)]
    pub(crate) fn tag(&self) -> u16 {
        // SAFETY: By the type's invariant. CAST: A queue has at most 4096.
        unsafe { (*self.0.as_ptr()).tag as u16 }
    }

    #[inline(always)]
    pub(super) fn into_raw(self) -> *mut bindings::request {
        self.0.as_ptr()
    }

    /// Starts it. From now on it has to be ended, or put back.
    #[inline(always)]
    pub(crate) fn start(self) -> (Request, Taken) {
        // SAFETY: By the type's invariant.
        unsafe { bindings::blk_mq_start_request(self.0.as_ptr()) };
        // INVARIANT: It is started.
        (Request(self.0), Taken(Status::OK.0))
    }

    /// Lets the block layer end it.
    pub(crate) fn refuse(self, status: Status) -> Taken {
        Taken(status.0)
    }
}

/// A request that is started.
///
/// # Invariants
///
/// It is started, and not ended. The owner of the value may end it; others may read it.
#[must_use]
pub(crate) struct Request(NonNull<bindings::request>);

impl Request {
    /// # Safety
    ///
    /// The request is started. One value at a time is used to end it.
    #[inline(always)]
    pub(super) unsafe fn from_raw(request: *mut bindings::request) -> Self {
        // SAFETY: By the condition. INVARIANT: As well.
        Self(unsafe { NonNull::new_unchecked(request) })
    }

    #[inline(always)]
    pub(super) fn into_raw(self) -> *mut bindings::request {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub(super) fn as_ptr(&self) -> *mut bindings::request {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn flags(&self) -> u32 {
        // SAFETY: By the type's invariant. Nobody changes this field until the request ends.
        unsafe { (*self.0.as_ptr()).cmd_flags }
    }

    /// Returns the length in bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u32 {
        // SAFETY: As for the flags.
        unsafe { (*self.0.as_ptr()).__data_len }
    }

    /// Returns where its data go.
    #[inline(always)]
    pub(crate) fn data(&self) -> Data {
        match operation_of(self.flags()) {
            Some(operation::READ) => Data::FromServer,
            Some(operation::WRITE) => Data::ToServer,
            _ => Data::None,
        }
    }

    /// Returns what a server sees of it, with the address of a buffer.
    #[inline(always)]
    pub(crate) fn describe(&self, address: u64) -> Descriptor {
        let flags = self.flags();
        let mut operation = operation_of(flags).unwrap_or(operation::READ);
        // Most requests have none of them.
        const ANY: u32 = {
            let (mut any, mut index) = (0, 0);
            while index < FLAGS.len() {
                any |= 1 << FLAGS[index].0;
                index += 1;
            }
            any
        };
        if flags & ANY != 0 {
            for (from, to) in FLAGS {
                if flags & (1 << from) != 0 {
                    operation |= to;
                }
            }
        }
        Descriptor {
            operation,
            sectors: self.bytes() >> SECTOR_SHIFT,
            // SAFETY: As for the flags.
            sector: unsafe { (*self.0.as_ptr()).__sector },
            address,
        }
    }

    /// Returns its memory.
    #[inline(always)]
    fn segments(&self) -> Segments<'_> {
        // SAFETY: By the type's invariant. The request does not end while it is borrowed.
        unsafe { Segments::of(self.0.as_ptr()) }
    }

    /// Returns its memory from a byte on.
    fn segments_from(&self, mut start: usize) -> Segments<'_> {
        let mut segments = self.segments();
        while start > 0 {
            match segments.next_of(start) {
                Some(before) => start -= before.size(),
                None => break,
            }
        }
        segments
    }

    /// Copies its data to user memory of the task. Returns how many bytes were copied. May sleep.
    #[inline]
    pub(crate) fn copy_out(&self, address: u64) -> u32 {
        let mut done = 0;
        for segment in self.segments() {
            // SAFETY: The segment is in the page.
            let copied = unsafe {
                ublk_rust_copy_out(
                    address.wrapping_add(done as u64),
                    segment.page,
                    segment.offset,
                    segment.size(),
                )
            };
            done += copied;
            if copied < segment.size() {
                break;
            }
        }
        // CAST: At most as long as the request.
        done as u32
    }

    /// Copies so many bytes from user memory of the task to it. Returns how many were copied. May
    /// sleep.
    #[inline]
    pub(crate) fn copy_in(&self, address: u64, size: u32) -> u32 {
        let mut done = 0;
        let mut segments = self.segments();
        while let Some(segment) = segments.next_of(size as usize - done) {
            // SAFETY: The segment is in the page.
            let copied = unsafe {
                ublk_rust_copy_in(
                    segment.page,
                    segment.offset,
                    address.wrapping_add(done as u64),
                    segment.size(),
                )
            };
            done += copied;
            if copied < segment.size() || done == size as usize {
                break;
            }
        }
        // CAST: At most as long as the request.
        done as u32
    }

    /// Copies data from a byte on to or from what an iterator describes. Returns how many bytes were
    /// copied. `EACCES` if that is no user memory. May sleep.
    pub(super) fn copy_iter(
        &self,
        start: usize,
        iter: *mut bindings::iov_iter,
        data: Data,
    ) -> Result<usize> {
        copy(&mut self.segments_from(start), iter, data).map(|(done, _)| done)
    }

    /// The same, from a place on, which is of this request.
    #[inline(always)]
    pub(super) fn copy_on(
        &self,
        start: usize,
        place: &mut Place,
        iter: *mut bindings::iov_iter,
        data: Data,
    ) -> Result<usize> {
        if place.end != start {
            let segments = self.segments_from(start);
            // SAFETY: By the type's invariant, it is used as long as the request is there.
            let segments = unsafe { transmute::<Segments<'_>, Segments<'static>>(segments) };
            place.segments.write(segments);
        }
        place.end = Place::NONE;
        // SAFETY: By the type's invariant, or it was written.
        let (done, is_whole) = copy(unsafe { place.segments.assume_init_mut() }, iter, data)?;
        if is_whole {
            place.end = start + done;
        }
        Ok(done)
    }

    /// Ends it. May be called in any context.
    #[inline]
    pub(crate) fn end(self, status: Status) {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_end_request(self.0.as_ptr(), status.0) };
    }

    /// Ends its first bytes, of which there are some. The rest becomes a request again.
    #[inline]
    pub(crate) fn end_bytes(self, bytes: u32) {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_end_bytes(self.0.as_ptr(), bytes) };
    }

    /// Puts it back until the next server is there, or at once.
    pub(crate) fn put_back(self, at_once: bool) {
        // SAFETY: By the type's invariant.
        unsafe { bindings::blk_mq_requeue_request(self.0.as_ptr(), at_once) };
    }

    /// Puts it back for some milliseconds.
    pub(crate) fn put_back_for_a_while(self) {
        // SAFETY: By the type's invariant. The queue has the request, so it is there.
        unsafe {
            let queue = (*self.0.as_ptr()).q;
            bindings::blk_mq_requeue_request(self.0.as_ptr(), false);
            bindings::blk_mq_delay_kick_requeue_list(queue, DELAY_MS);
        }
    }
}

/// The end of the last copy of a request's data, where the next copy mostly begins.
///
/// # Invariants
///
/// If `end` is not `NONE`, `segments` are those of the slot's request behind that byte.
pub(super) struct Place {
    end: usize,
    segments: MaybeUninit<Segments<'static>>,
}

impl Place {
    const NONE: usize = usize::MAX;

    /// Returns no place.
    pub(super) const fn new() -> Self {
        // INVARIANT: There is none.
        Self {
            end: Self::NONE,
            segments: MaybeUninit::uninit(),
        }
    }

    /// There is another request.
    #[inline(always)]
    pub(super) fn reset(&mut self) {
        // INVARIANT: There is none.
        self.end = Self::NONE;
    }
}

/// Copies between segments and what an iterator describes. Returns how many bytes were copied, and
/// whether whole segments were. `EACCES` if that is no user memory. May sleep.
#[inline(always)]
fn copy(
    segments: &mut Segments<'_>,
    iter: *mut bindings::iov_iter,
    data: Data,
) -> Result<(usize, bool)> {
    // SAFETY: The iterator is the caller's.
    let bytes = unsafe { ublk_rust_user_bytes(iter) };
    // CAST: An errno.
    let bytes = usize::try_from(bytes).map_err(|_| Error::from_errno(bytes as i32))?;
    let mut done = 0;
    while done < bytes {
        let Some(segment) = segments.next_of(bytes - done) else {
            break;
        };
        // SAFETY: The segment is in the page, and the iterator is the caller's.
        let copied = unsafe {
            match data {
                Data::ToServer => {
                    ublk_rust_iter_out(segment.page, segment.offset, segment.size(), iter)
                }
                _ => ublk_rust_iter_in(segment.page, segment.offset, segment.size(), iter),
            }
        };
        done += copied;
        if copied < segment.size() {
            return Ok((done, false));
        }
    }
    Ok((done, true))
}

/// A buffer of a ring with the memory of a request is gone.
///
/// # Safety
///
/// io_uring calls this once for a request that was registered, and that is not ended.
pub(super) unsafe extern "C" fn buffer_is_gone(request: *mut c_void) {
    let request = request.cast::<bindings::request>();
    // SAFETY: By the condition. The driver has set the queue, which outlives its requests.
    unsafe {
        let queue = &*(*(*request).mq_hctx).driver_data.cast::<Queue>();
        let tag = (*request).tag as u16;
        queue.end_share(tag, queue.own_slot(tag).share());
    }
}
