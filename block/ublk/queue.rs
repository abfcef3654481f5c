// SPDX-License-Identifier: GPL-2.0

//! Queues of a device. Each has a slot for each request that it may have at a time.

use crate::{
    edge::{
        abi::{io, operation},
        trace::Name,
        Command, Context, Data, Descriptors, Incoming, Request, Sending, Share, Slot, Status,
        Taken,
    },
    latency::{self, Histogram},
};
use kernel::{
    alloc::KVVec,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, SpinLock,
    },
};

/// How data get to the server.
#[derive(Clone, Copy)]
pub(crate) struct Ways {
    /// The driver copies them to a buffer of the server.
    pub(crate) copies: bool,
    /// The server passes the buffer when there is a write.
    pub(crate) asks: bool,
    /// The server reads and writes its file.
    pub(crate) user_copy: bool,
    /// The server registers the request's memory.
    pub(crate) zero_copy: bool,
    /// The driver registers it.
    pub(crate) auto_buffers: bool,
}

/// What happens when the server is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// The disk is removed.
    None,
    /// Requests wait for the next server. Those that this one had fail.
    Wait,
    /// Requests wait, also those that this one had.
    Reissue,
    /// Requests fail until there is a server.
    Fail,
}

/// Whether there is a server for requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    /// The server ends, or has ended.
    Without,
    /// The disk is being removed: no request waits for a server.
    Stopping,
}

/// What all queues of a device follow.
#[pin_data]
pub(crate) struct Policy {
    pub(crate) recovery: Recovery,
    /// Requests are put back under this lock, so that those who change the stage find them.
    #[pin]
    stage: SpinLock<Stage>,
    /// The server was told to end: it gets no more requests for those that it gives back.
    pub(crate) is_leaving: Atomic<bool>,
}

impl Policy {
    pub(crate) fn new(recovery: Recovery) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            recovery,
            stage <- new_spinlock!(Stage::Without, "ublk stage"),
            is_leaving: Atomic::new(false),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// There is a server. Requests that were put back have to be let go on.
    pub(crate) fn serve(&self) {
        *self.stage.lock() = Stage::Serving;
    }

    /// The server ends.
    pub(crate) fn end_serving(&self) {
        let mut stage = self.stage.lock();
        if *stage == Stage::Serving {
            *stage = Stage::Without;
        }
    }

    /// No request waits from now on. Those that were put back have to be let go on.
    pub(crate) fn stop(&self) {
        *self.stage.lock() = Stage::Stopping;
    }

    /// Returns whether requests wait when there is no server.
    fn may_wait(&self) -> bool {
        matches!(self.recovery, Recovery::Wait | Recovery::Reissue)
    }

    /// Puts a request back until there is a server, or lets it fail.
    fn without_server(&self, request: Request) {
        let stage = self.stage.lock();
        match *stage {
            Stage::Serving if self.may_wait() => request.put_back(true),
            Stage::Without if self.may_wait() => request.put_back(false),
            _ => {
                drop(stage);
                request.end(Status::IO_ERROR);
            }
        }
    }
}

/// The result of a request whose server is gone.
pub(crate) const LOST: i32 = i32::MIN;

/// The index of a buffer that the driver registers, as a server passes it.
#[derive(Clone, Copy)]
pub(crate) struct AutoBuffer(u64);

impl AutoBuffer {
    const MAY_FALL_BACK: u64 = 1 << 16;

    /// `EINVAL` if bits are set that mean nothing.
    pub(crate) fn parse(address: u64) -> Result<Self> {
        match address >> 17 {
            0 => Ok(Self(address)),
            _ => Err(EINVAL),
        }
    }

    /// Returns the buffer that a slot has kept.
    #[inline(always)]
    pub(crate) fn of(address: u64) -> Self {
        Self(address)
    }

    pub(crate) fn as_word(self) -> u64 {
        self.0
    }

    pub(crate) fn index(self) -> u32 {
        (self.0 & 0xffff) as u32
    }
}

/// A queue of a device.
pub(crate) struct Queue {
    pub(crate) ways: Ways,
    slots: KVVec<Slot>,
    pub(crate) descriptors: Descriptors,
    pub(crate) policy: Arc<Policy>,
    /// One of its commands was ended since its server was told to end.
    pub(crate) is_told: Atomic<bool>,
    name: Name,
    pub(crate) latency: Histogram,
}

impl Queue {
    /// Makes a queue for so many requests. `ENOMEM`.
    pub(crate) fn new(
        depth: u16,
        descriptor_size: u16,
        ways: Ways,
        policy: Arc<Policy>,
        name: Name,
    ) -> Result<Self> {
        let mut slots = KVVec::with_capacity(depth.into(), GFP_KERNEL)?;
        for _ in 0..depth {
            slots.push(Slot::new(), GFP_KERNEL)?;
        }
        Ok(Self {
            ways,
            slots,
            descriptors: Descriptors::new(depth, descriptor_size)?,
            policy,
            is_told: Atomic::new(false),
            name,
            latency: Histogram::new(),
        })
    }

    pub(crate) fn slot(&self, tag: u16) -> Option<&Slot> {
        self.slots.get(usize::from(tag))
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns a slot that there is.
    #[inline(always)]
    pub(crate) fn own_slot(&self, tag: u16) -> &Slot {
        &self.slots[usize::from(tag)]
    }

    /// Takes a request from the block layer.
    #[inline(always)]
    pub(crate) fn accept(&self, request: Incoming) -> Taken {
        if !request.is_known() {
            return request.refuse(Status::IO_ERROR);
        }
        match self.own_slot(request.tag()).take() {
            Some((sending, command)) => {
                let (request, taken) = request.start();
                command.send(sending, request);
                taken
            }
            None => self.refuse(request),
        }
    }

    /// Starts a request that a server can get now.
    #[inline(always)]
    pub(crate) fn start(&self, request: Incoming) -> Option<(Sending<'_>, Command, Request)> {
        if !request.is_known() {
            return None;
        }
        let (sending, command) = self.own_slot(request.tag()).take()?;
        let (request, _) = request.start();
        Some((sending, command, request))
    }

    /// There is no server for a request.
    #[cold]
    fn refuse(&self, request: Incoming) -> Taken {
        match self.policy.recovery {
            Recovery::None => request.refuse(Status::IO_ERROR),
            Recovery::Fail => request.refuse(Status::NO_SERVER),
            Recovery::Wait | Recovery::Reissue => {
                let (request, taken) = request.start();
                self.policy.without_server(request);
                taken
            }
        }
    }

    /// Passes a request on, in the task that has fetched.
    #[inline]
    pub(crate) fn dispatch(
        &self,
        tag: u16,
        mut sending: Sending<'_>,
        command: Command,
        request: Request,
        is_over: bool,
        context: Context,
    ) {
        if is_over {
            return self.abort(sending, command, request, context);
        }
        let mut descriptor = request.describe(sending.values().address);
        let has_data = request.data() != Data::None;
        let mut has_buffer = false;
        if self.ways.copies && request.data() == Data::ToServer {
            if self.ways.asks {
                self.descriptors.set(tag, &descriptor);
                sending.lend(request, true, false);
                return command.done(io::NEEDS_DATA, context);
            }
            let copied = request.copy_out(descriptor.address);
            if copied != request.bytes() {
                if copied == 0 {
                    sending.put_back(command);
                    return request.put_back_for_a_while();
                }
                descriptor.sectors = copied >> 9;
            }
        } else if self.ways.auto_buffers && has_data {
            let buffer = AutoBuffer::of(descriptor.address);
            match command.register(&request, buffer.index(), context) {
                Ok(()) => {
                    has_buffer = true;
                    sending.values().ring = command.ring();
                }
                Err(_) if buffer.0 & AutoBuffer::MAY_FALL_BACK != 0 => {
                    descriptor.operation |= operation::NEEDS_BUFFER;
                }
                Err(_) => {
                    sending.put_back(command);
                    return request.end(Status::IO_ERROR);
                }
            }
        }
        self.descriptors.set(tag, &descriptor);
        self.name.trace_request(tag, &descriptor);
        sending.values().began = latency::begin();
        sending.lend(request, false, has_buffer);
        command.done(io::OK, context);
    }

    /// The task or its ring ends, and nobody gets the request.
    #[cold]
    fn abort(&self, sending: Sending<'_>, command: Command, request: Request, context: Context) {
        self.policy.end_serving();
        sending.abort();
        command.done(io::ABORT, context);
        self.policy.without_server(request);
    }

    /// Ends a command that is cancelled.
    pub(crate) fn cancel_command(&self, command: Command, context: Context) {
        self.policy.end_serving();
        command.done(io::ABORT, context);
        self.is_told.store(true, Relaxed);
    }

    /// Ends a share of a request. The last one ends the request.
    #[inline(always)]
    pub(crate) fn end_share(&self, tag: u16, share: Share<'_>) {
        if let Some(ended) = share.end() {
            latency::end(ended.began, &self.latency);
            self.name.trace_result(tag, &ended);
            self.finish(ended.result, ended.request);
        }
    }

    /// Ends a request with its server's result.
    #[inline(always)]
    fn finish(&self, result: i32, request: Request) {
        let data = request.data();
        if result < 0 {
            self.finish_failed(result, request);
        } else if result == 0 && data == Data::FromServer {
            request.end(Status::IO_ERROR);
        } else if self.ways.copies && data == Data::FromServer {
            // CAST: It is positive.
            request.end_bytes(result as u32);
        } else {
            request.end(Status::OK);
        }
    }

    #[cold]
    fn finish_failed(&self, result: i32, request: Request) {
        match result {
            LOST if self.policy.recovery == Recovery::Reissue => {
                self.policy.without_server(request);
            }
            LOST => request.end(Status::IO_ERROR),
            errno => request.end(Status::from_errno(errno)),
        }
    }

    /// Ends the commands that wait for requests: the server is told to end.
    pub(crate) fn cancel(&self) {
        for slot in self.slots.iter() {
            if let Some(command) = slot.cancel() {
                self.cancel_command(command, Context::ANYWHERE);
            }
        }
    }
}
