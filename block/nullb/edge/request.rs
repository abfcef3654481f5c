// SPDX-License-Identifier: GPL-2.0

//! Requests of the block layer: their operations, their memory, and how each ends exactly once.

use super::{
    inline::*,
    segments::{Segment, Segments},
};
use core::ptr::NonNull;
use kernel::{bindings, container_of};

/// How a request ends.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Done = 0,
    NotSupported = 1,
    NoSpace = 3,
    Failed = 10,
}

/// The value of `queue_rq` for a request for which there is no memory now. The block layer passes it
/// again, some milliseconds later.
const STS_RESOURCE: u8 = 9;

/// How often a request is put back before it fails: for about a second.
const MOST_TRIES: u32 = 300;

/// What the driver keeps behind each request.
pub(super) struct Pdu {
    status: u8,
    /// How often the request was put back, if it was.
    tries: u32,
    timer: bindings::hrtimer,
}

/// The operation of a request.
pub(crate) enum Operation {
    Read,
    Write {
        /// The data survive a loss of power when the request ends.
        is_durable: bool,
    },
    Flush,
    Discard,
    Other,
}

/// A request that the driver works on. It has to be ended or put back.
///
/// # Invariants
///
/// The block layer has passed the request, it is started, and nobody else ends it. A `Pdu` is behind
/// it.
#[must_use]
pub(crate) struct Started(NonNull<bindings::request>);

/// Proof that a request is not the driver's any more, or that an interrupt will end it.
pub(crate) struct Handled(pub(super) u8);

impl Started {
    /// Starts a request.
    ///
    /// # Safety
    ///
    /// The block layer has passed it to `queue_rq`, and nobody else uses it. A `Pdu` is behind it.
    #[inline(always)]
    pub(super) unsafe fn start(request: NonNull<bindings::request>) -> Self {
        // SAFETY: By the condition of this function.
        unsafe { bindings::blk_mq_start_request(request.as_ptr()) };
        // INVARIANT: It is started, and the rest is the condition.
        Self(request)
    }

    /// Returns the operation.
    #[inline(always)]
    pub(crate) fn operation(&self) -> Operation {
        // SAFETY: By the type's invariant. Nobody changes this field until the request ends.
        let flags = unsafe { (*self.0.as_ptr()).cmd_flags };
        match flags & ((1 << bindings::REQ_OP_BITS) - 1) {
            bindings::req_op_REQ_OP_READ => Operation::Read,
            bindings::req_op_REQ_OP_WRITE => Operation::Write {
                is_durable: flags & 1 << bindings::req_flag_bits___REQ_FUA != 0,
            },
            bindings::req_op_REQ_OP_FLUSH => Operation::Flush,
            bindings::req_op_REQ_OP_DISCARD => Operation::Discard,
            _ => Operation::Other,
        }
    }

    /// Returns the first sector.
    #[inline(always)]
    pub(crate) fn sector(&self) -> u64 {
        // SAFETY: As for the operation.
        unsafe { (*self.0.as_ptr()).__sector }
    }

    /// Returns the length in bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u32 {
        // SAFETY: As for the operation.
        unsafe { (*self.0.as_ptr()).__data_len }
    }

    /// Returns the memory of the request, in parts that are in one page each.
    #[inline(always)]
    pub(crate) fn segments(&self) -> Segments<'_> {
        // SAFETY: By the type's invariant. The request does not end while it is borrowed.
        unsafe { Segments::of(self.0.as_ptr()) }
    }

    /// Ends the request here. May be called in any context.
    #[inline(always)]
    pub(crate) fn end(self, status: Status) -> Handled {
        // SAFETY: By the type's invariant. The request is not used any more.
        unsafe { bindings::blk_mq_end_request(self.0.as_ptr(), status as u8) };
        Handled(0)
    }

    /// Ends the request as an interrupt of a device would, on the CPU that has sent it.
    pub(crate) fn complete(mut self, status: Status) -> Handled {
        self.pdu().status = status as u8;
        // SAFETY: By the type's invariant. `complete` below ends the request.
        unsafe { bindings::blk_mq_complete_request(self.0.as_ptr()) };
        Handled(0)
    }

    /// Ends the request in a timer's interrupt, so many nanoseconds later.
    pub(crate) fn complete_after(mut self, nanoseconds: u64, status: Status) -> Handled {
        let pdu = self.pdu();
        pdu.status = status as u8;
        let timer = &raw mut pdu.timer;
        let mode = bindings::hrtimer_mode_HRTIMER_MODE_REL;
        // CAST: More than 292 years are as good as 292.
        let delay = nanoseconds.min(i64::MAX as u64) as i64;
        // SAFETY: The timer of the request before has ended that. `expired` ends this one, and the
        // memory is there as long as the queue, which waits for its requests.
        unsafe {
            let clock = bindings::CLOCK_MONOTONIC as i32;
            bindings::hrtimer_setup(timer, Some(expired), clock, mode);
            bindings::hrtimer_start_range_ns(timer, delay, 0, mode);
        }
        Handled(0)
    }

    /// Puts the request back, because there is no memory for it now, or ends it if that was often so.
    /// The next try writes all of it again.
    #[cold]
    pub(crate) fn put_back(mut self) -> Handled {
        const IS_PUT_BACK: u32 = 1 << bindings::rqf_flags___RQF_DONTPREP;
        let request = self.0.as_ptr();
        // SAFETY: By the type's invariant. Nobody else changes this field now. The block layer clears
        // the flag when it uses the request for something else.
        let was_put_back = unsafe {
            let flags = (*request).rq_flags;
            (*request).rq_flags = flags | IS_PUT_BACK;
            flags & IS_PUT_BACK != 0
        };
        let pdu = self.pdu();
        pdu.tries = if was_put_back { pdu.tries + 1 } else { 0 };
        match pdu.tries {
            MOST_TRIES => self.end(Status::NoSpace),
            _ => Handled(STS_RESOURCE),
        }
    }

    fn pdu(&mut self) -> &mut Pdu {
        // SAFETY: By the type's invariant.
        unsafe { &mut *pdu_of(self.0.as_ptr()) }
    }
}

/// Returns the place behind a request.
fn pdu_of(request: *mut bindings::request) -> *mut Pdu {
    request.wrapping_add(1).cast()
}

/// Ends a request that was completed.
///
/// # Safety
///
/// The block layer calls this once, for a request that [`Started::complete`] has completed.
pub(super) unsafe extern "C" fn complete(request: *mut bindings::request) {
    // SAFETY: By the condition, the request and what is behind it are still the driver's.
    unsafe { bindings::blk_mq_end_request(request, (*pdu_of(request)).status) };
}

/// Ends a request whose time has come.
///
/// # Safety
///
/// The timer is that of a request for which [`Started::complete_after`] was called.
unsafe extern "C" fn expired(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
    // SAFETY: By the condition, the timer is in a `Pdu`, which is behind a request.
    unsafe {
        let pdu: *mut Pdu = container_of!(timer, Pdu, timer);
        bindings::blk_mq_end_request(pdu.cast::<bindings::request>().sub(1), (*pdu).status);
    }
    bindings::hrtimer_restart::HRTIMER_NORESTART
}

impl Segment<'_> {
    /// Splits the segment behind at most `size` bytes.
    #[inline(always)]
    pub(crate) fn split(self, size: usize) -> (Self, Self) {
        let size = usize::min(size, self.size);
        let rest = Self {
            offset: self.offset + size,
            size: self.size - size,
            ..self
        };
        (Self { size, ..self }, rest)
    }

    /// Writes zeros.
    #[inline]
    pub(crate) fn zero(&self) {
        // SAFETY: By the type's invariant.
        unsafe { nullb_zero(self.page, self.offset, self.size) };
    }

    /// Writes data, of which there are as many bytes.
    pub(crate) fn put(&self, data: &[u8]) {
        assert_eq!(data.len(), self.size);
        // SAFETY: By the type's invariant, and the sizes are equal.
        unsafe { nullb_copy_in(self.page, self.offset, data.as_ptr().cast(), self.size) };
    }

    /// Reads into memory that has as many bytes.
    pub(crate) fn get(&self, data: &mut [u8]) {
        assert_eq!(data.len(), self.size);
        // SAFETY: By the type's invariant, and the sizes are equal.
        unsafe { nullb_copy_out(data.as_mut_ptr().cast(), self.page, self.offset, self.size) };
    }
}
