// SPDX-License-Identifier: GPL-2.0

//! Requests that the block layer passes together. Those for one task go there together.

use super::{
    inline::*,
    request::{Incoming, Request},
    slot::Sending,
    uring::{self, Command},
};
use crate::queue::Queue;
use kernel::bindings;

/// What is kept behind a request of a batch: the word of its command.
pub(super) type Pdu = usize;

/// Requests that are started, each with its command, in a chain.
///
/// # Invariants
///
/// Each has its command's word in its [`Pdu`], and both belong to the batch, as do the rights to end
/// their states. All commands are of one ring and task.
struct Batch {
    first: *mut bindings::request,
    last: *mut bindings::request,
}

impl Batch {
    const EMPTY: Self = Self {
        first: core::ptr::null_mut(),
        last: core::ptr::null_mut(),
    };

    /// Adds a request. Sends the batch before if that has another task.
    fn add(&mut self, sending: Sending<'_>, command: Command, request: Request) {
        sending.pass_on();
        let (request, word) = (request.into_raw(), command.into_word());
        // SAFETY: By the type's invariant. Nobody else uses the link of a request that is started, and
        // the commands are not completed.
        unsafe {
            *pdu_of(request) = word;
            if !self.last.is_null() {
                let last = *pdu_of(self.last) as *mut bindings::io_uring_cmd;
                if ublk_rust_is_same_task(last, word as *mut bindings::io_uring_cmd) {
                    (*self.last).__bindgen_anon_1.rq_next = request;
                    self.last = request;
                    return;
                }
                self.send();
            }
        }
        // INVARIANT: The request is started, and its word is there.
        *self = Self {
            first: request,
            last: request,
        };
    }

    /// Lets the task continue with all requests.
    fn send(&mut self) {
        let Self { first, .. } = core::mem::replace(self, Self::EMPTY);
        if !first.is_null() {
            // SAFETY: By the type's invariant. `arrived` gets all that is in the batch.
            unsafe { uring::send(*pdu_of(first), first, arrived) };
        }
    }
}

/// Returns the place behind a request.
///
/// # Safety
///
/// The request is of a queue of this driver.
unsafe fn pdu_of(request: *mut bindings::request) -> *mut Pdu {
    // SAFETY: By the condition, the block layer has allocated it there.
    unsafe { request.add(1).cast() }
}

/// Takes requests. Those that no server takes stay in the list: the block layer passes them alone.
///
/// # Safety
///
/// The block layer calls this with requests of this driver.
pub(super) unsafe extern "C" fn queue(list: *mut bindings::rq_list) {
    let mut batch = Batch::EMPTY;
    let mut rest = core::ptr::null_mut::<bindings::request>();
    let mut last = rest;
    // SAFETY: By the condition, each request in the chain is passed to the driver, and its context has
    // a queue.
    unsafe {
        let mut next = (*list).head;
        while !next.is_null() {
            let request = next;
            next = (*request).__bindgen_anon_1.rq_next;
            let queue = &*(*(*request).mq_hctx).driver_data.cast::<Queue>();
            (*request).__bindgen_anon_1.rq_next = core::ptr::null_mut();
            let request = match queue.start(Incoming::new(request)) {
                Ok((sending, command, request, _)) => {
                    batch.add(sending, command, request);
                    continue;
                }
                Err(request) => request.into_raw(),
            };
            match last.is_null() {
                true => rest = request,
                false => (*last).__bindgen_anon_1.rq_next = request,
            }
            last = request;
        }
        (*list).head = rest;
        (*list).tail = last;
    }
    batch.send();
}

/// Requests have arrived in the task of their commands.
///
/// # Safety
///
/// io_uring calls this for the first command of a batch that [`Batch::send`] has sent.
unsafe extern "C" fn arrived(task: uring::InTask, token: uring::Token) {
    // SAFETY: By the condition, all that was in the batch is moved here.
    unsafe {
        let mut next = task.request();
        while !next.is_null() {
            let request = next;
            next = (*request).__bindgen_anon_1.rq_next;
            (*request).__bindgen_anon_1.rq_next = core::ptr::null_mut();
            let command = Command::from_word(*pdu_of(request));
            uring::dispatch(command, Request::from_raw(request), &token);
        }
    }
}
