// SPDX-License-Identifier: GPL-2.0

//! Queues of a device. Each has a slot for each request that it may have at a time.

use crate::{
    edge::{
        abi::{io, operation, Descriptor, SECTOR_SHIFT},
        read_once,
        trace::QueueName,
        Command, Context, Data, Descriptors, Incoming, Request, Sending, Share, Slot, Status,
        Taken,
    },
    latency::Histogram,
    policy::{Policy, Recovery},
};
use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, //
    },
};

/// How data get to the server.
#[derive(Clone, Copy)]
pub(crate) struct Ways {
    /// The driver copies them to a buffer of the server.
    pub(crate) copies: bool,
    /// The server passes the buffer when there is a write.
    pub(crate) needs_get_data: bool,
    /// The server reads and writes its file.
    pub(crate) user_copy: bool,
    /// The server registers the request's memory.
    pub(crate) zero_copy: bool,
    /// The driver registers it.
    pub(crate) auto_buffers: bool,
}

/// The result of a request whose server is gone.
pub(crate) const LOST: i32 = i32::MIN;

/// The index of a buffer that the driver registers, as a server passes it.
#[derive(Clone, Copy)]
pub(crate) struct AutoBuffer(u64);

impl AutoBuffer {
    const INDEX: u64 = 0xffff;
    const MAY_FALL_BACK: u64 = 1 << 16;

    /// Returns the address if it describes a buffer. `EINVAL` if bits are set that mean nothing.
    pub(crate) fn checked(address: u64) -> Result<u64> {
        match address & !(Self::INDEX | Self::MAY_FALL_BACK) {
            0 => Ok(address),
            _ => Err(EINVAL),
        }
    }

    /// Returns the buffer of a checked address.
    #[inline(always)]
    pub(crate) fn of(address: u64) -> Self {
        Self(address)
    }

    pub(crate) fn index(self) -> u32 {
        (self.0 & Self::INDEX) as u32
    }

    fn may_fall_back(self) -> bool {
        self.0 & Self::MAY_FALL_BACK != 0
    }
}

/// A queue of a device.
pub(crate) struct Queue {
    pub(crate) ways: Ways,
    slots: KVVec<Slot>,
    pub(crate) descriptors: Descriptors,
    pub(crate) policy: Arc<Policy>,
    /// One of its commands was ended because the server has to end.
    pub(crate) has_ended_command: Atomic<bool>,
    name: QueueName,
    pub(crate) latency: Histogram,
}

impl Queue {
    /// Makes a queue for so many requests. `ENOMEM`.
    pub(crate) fn new(
        depth: u16,
        descriptor_size: u16,
        ways: Ways,
        policy: Arc<Policy>,
        name: QueueName,
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
            has_ended_command: Atomic::new(false),
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
        match self.start(request) {
            Ok((sending, command, request, taken)) => {
                command.send(sending, request);
                taken
            }
            Err(request) => self.refuse(request),
        }
    }

    /// Starts a request that the server can get now.
    #[inline(always)]
    #[allow(clippy::type_complexity)] // What belongs together until it is sent.
    pub(crate) fn start(
        &self,
        request: Incoming,
    ) -> Result<(Sending<'_>, Command, Request, Taken), Incoming> {
        if !request.is_known() {
            return Err(request);
        }
        match self.own_slot(request.tag()).take() {
            Some((sending, command)) => {
                let (request, taken) = request.start();
                Ok((sending, command, request, taken))
            }
            None => Err(request),
        }
    }

    /// There is no server for a request, or none gets such requests.
    #[cold]
    fn refuse(&self, request: Incoming) -> Taken {
        match self.policy.recovery {
            Recovery::Wait | Recovery::Reissue if request.is_known() => {
                let (request, taken) = request.start();
                self.policy.without_server(request);
                taken
            }
            Recovery::Fail if request.is_known() => request.refuse(Status::NO_SERVER),
            _ => request.refuse(Status::IO_ERROR),
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
            if self.ways.needs_get_data {
                self.pass(tag, &descriptor, &mut sending);
                sending.lend(request, true, false);
                return command.done(io::NEEDS_DATA, context);
            }
            let copied = request.copy_out(descriptor.address);
            if copied != request.bytes() {
                if copied == 0 {
                    self.wait_again(tag, sending, command, context);
                    return self.policy.try_again(request);
                }
                descriptor.sectors = copied >> SECTOR_SHIFT;
            }
        } else if self.ways.auto_buffers && has_data {
            let buffer = AutoBuffer::of(descriptor.address);
            match command.register(&request, buffer.index(), context) {
                Ok(()) => {
                    has_buffer = true;
                    sending.values().ring = command.ring();
                }
                Err(_) if buffer.may_fall_back() => {
                    descriptor.operation |= operation::NEEDS_BUFFER;
                }
                Err(_) => {
                    self.wait_again(tag, sending, command, context);
                    return request.end(Status::IO_ERROR);
                }
            }
        }
        self.pass(tag, &descriptor, &mut sending);
        sending.lend(request, false, has_buffer);
        command.done(io::OK, context);
    }

    /// Describes a request for the server.
    #[inline(always)]
    fn pass(&self, tag: u16, descriptor: &Descriptor, sending: &mut Sending<'_>) {
        self.descriptors.set(tag, descriptor);
        self.name.trace_request(tag, descriptor);
        sending.values().began = self.latency.begin();
    }

    /// Lets a command wait for another request.
    #[cold]
    fn wait_again(&self, tag: u16, sending: Sending<'_>, command: Command, context: Context) {
        sending.put_back(command);
        self.end_if_leaving(tag, context);
    }

    /// Ends the command that has begun to wait, if the server has to end.
    #[inline(always)]
    pub(crate) fn end_if_leaving(&self, tag: u16, context: Context) {
        if read_once(&self.policy.is_leaving) {
            self.end_command_of(tag, context);
        }
    }

    #[cold]
    fn end_command_of(&self, tag: u16, context: Context) {
        if let Some(command) = self.own_slot(tag).cancel() {
            self.cancel_command(command, context);
        }
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
        self.has_ended_command.store(true, Relaxed);
    }

    /// Ends a share of a request. The last one ends the request.
    #[inline(always)]
    pub(crate) fn end_share(&self, tag: u16, share: Share<'_>) {
        if let Some(ended) = share.end() {
            self.latency.end(ended.began);
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

    /// Ends the commands that wait for requests: the server has to end.
    pub(crate) fn cancel(&self) {
        for slot in self.slots.iter() {
            if let Some(command) = slot.cancel() {
                self.cancel_command(command, Context::ANYWHERE);
            }
        }
    }
}
