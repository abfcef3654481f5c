// SPDX-License-Identifier: GPL-2.0

//! A transaction: one call, from the thread that makes it to the thread that serves it, and back.
//!
//! A [`Transaction`] has one owner at any time, and moves:
//!
//! ```text
//!   caller's spare ──► draft ──► queue of the target ──► stack of the serving thread
//!         ▲              │             │                          │
//!         │              │             │ target ends              │ BC_REPLY, or the thread ends
//!         └── outcome ◄──┴─────────────┴───── caller's queue ◄────┘
//! ```
//!
//! Only the owner has a pointer to it. The caller's stack has a frame for it, and the transaction
//! has the place of that frame. One function, [`TransactionBox::return_to_caller`], checks under
//! the caller's lock whether a caller still waits for the call. The objects that a transaction
//! holds depend on its stage: they are its [`Content`], and dropping the content undoes exactly
//! that stage.

use crate::{
    allocation::Buffer,
    common::{
        debug::binder_debug,
        failure::{Failure, Reason},
        netlink::Party,
        stats::{Counted, Kind}, //
    },
    defs::{TransactionRequest, TF_ONE_WAY, TF_UPDATE_TXN},
    ffi::trace,
    kernel_ext::{
        clocks::Ticks,
        link::Placed,
        once::read_once,
        pid,
        sched::WakeHint, //
    },
    names::ThreadName,
    node::Node,
    process::{Pid, Process, ProcessState, StateGuard},
    pure::{
        call_stack::FrameId,
        freeze_state::Admission,
        node_counts::{Strength, Uncounted},
        priority_rules::Priority, //
    },
    thread::Thread,
    work::Work, //
};
use kernel::{
    alloc::AllocError,
    prelude::*,
    sync::Arc,
    task::Kuid, //
};

/// A transaction and its owner: it brings its place in queues.
pub(crate) type TransactionBox = Placed<Transaction>;

/// A call from one thread to another process.
pub(crate) struct Transaction {
    /// Unique among transactions, nodes and refs.
    pub(crate) id: u32,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    /// Effective user of the task that sent the data in the buffer.
    pub(crate) sender_euid: Kuid,
    /// The thread that made the call. None of a oneway call: nobody waits for its outcome, and it
    /// keeps nothing of a sender that ends.
    pub(crate) caller: Option<Arc<ThreadName>>,
    /// The time when the call or its reply was sent.
    pub(crate) start: Ticks,
    /// The priority of the caller when it made the call.
    pub(crate) caller_priority: Priority,
    /// The priority that the serving thread had before the call, while the thread serves it.
    pub(crate) saved_priority: Priority,
    /// The objects that it holds at its stage.
    pub(crate) content: Content,
    /// The frame of a call on its caller's stack. Of a oneway call: as `serial` the number of its
    /// sender's [group](pid::current_group_number), if another call may supersede it, and as
    /// `place` that of the thread.
    pub(crate) frame: FrameId,
    _counted: Counted,
}

// With its place, of 24 bytes, as large as the kernel's allocator has room for before the next
// size, which is half as large again.
const _: () = assert!(size_of::<Transaction>() <= 104);

/// The objects that a transaction holds.
#[derive(Default)]
pub(crate) enum Content {
    /// Nothing: not in use, or delivered and being served.
    #[default]
    Empty,
    /// A call, and the number of the process that it is from.
    Call {
        node: Arc<Node>,
        buffer: Buffer,
        from: Pid,
        stage: CallStage,
    },
    /// A reply on its way back, the numbers of the process and the thread that it is from, and
    /// whether it is queued for the caller.
    Reply {
        buffer: Buffer,
        from: (Pid, Pid),
        is_queued: bool,
    },
    /// The error that the caller reads instead of a reply.
    Failed(Failure),
}

impl Content {
    /// Takes the node and the buffer of a call. [`None`] if it is no call.
    #[inline(always)] // Otherwise the buffer would be copied, here and below.
    pub(crate) fn take_call(&mut self) -> Option<(Arc<Node>, Buffer)> {
        if !matches!(self, Self::Call { .. }) {
            return None;
        }
        match core::mem::take(self) {
            Self::Call { node, buffer, .. } => Some((node, buffer)),
            other => {
                other.free();
                None
            }
        }
    }

    /// Takes the buffer of a reply. [`None`] if it is no reply.
    #[inline(always)]
    pub(crate) fn take_reply(&mut self) -> Option<Buffer> {
        if !matches!(self, Self::Reply { .. }) {
            return None;
        }
        match core::mem::take(self) {
            Self::Reply { buffer, .. } => Some(buffer),
            other => {
                other.free();
                None
            }
        }
    }

    /// Drops the content.
    #[cold]
    fn free(self) {}
}

/// The stage of a call that is not delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallStage {
    /// It is a draft.
    Draft,
    /// It is queued, and its node in use. A oneway call waits behind another one to the same node.
    Queued,
    /// It is queued, its node in use, and busy with it until its buffer is freed: it is oneway
    /// (contract TXN-22).
    HasTurn,
}

/// A thread that waited for the outcome of a call when it was looked up, and the frame in which it
/// waits.
pub(crate) struct Waiter<T> {
    pub(crate) thread: T,
    pub(crate) frame: FrameId,
}

/// A reply that its receiver has taken out of the queue.
pub(crate) struct ArrivedReply {
    pub(crate) id: u32,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    pub(crate) sender_euid: Kuid,
    pub(crate) buffer: Buffer,
}

impl Transaction {
    /// Allocates a transaction for calls of this thread that are not oneway.
    pub(crate) fn new(caller: &Thread) -> Result<TransactionBox, AllocError> {
        Self::allocate(Some(caller.name.clone()), FrameId::NONE)
    }

    /// Allocates a transaction for a oneway call of this thread with these flags.
    pub(crate) fn new_oneway(sender: &Thread, flags: u32) -> Result<TransactionBox, AllocError> {
        let serial = match flags & TF_UPDATE_TXN {
            0 => FrameId::NONE.serial,
            _ => pid::current_group_number(),
        };
        // CAST: The bits are kept.
        let place = sender.id as u32;
        Self::allocate(None, FrameId { place, serial })
    }

    #[inline]
    fn allocate(
        caller: Option<Arc<ThreadName>>,
        frame: FrameId,
    ) -> Result<TransactionBox, AllocError> {
        let transaction = || Self {
            id: 0,
            code: 0,
            flags: 0,
            sender_euid: Kuid::current_euid(),
            caller,
            start: Ticks::now(),
            caller_priority: Priority::default(),
            saved_priority: Priority::default(),
            content: Content::Empty,
            frame,
            _counted: Counted::new(Kind::Transaction),
        };
        Placed::new(transaction, GFP_KERNEL)
    }

    /// Records the request and the sender. While a reply is on its way, this is about the reply.
    pub(crate) fn describe(&mut self, id: u32, request: &TransactionRequest) {
        self.id = id;
        self.code = request.code;
        self.flags = request.flags;
        self.sender_euid = Kuid::current_euid();
        self.start = Ticks::now();
    }

    /// Returns the numbers of the process and the thread that made the call.
    pub(crate) fn sender(&self) -> Party {
        match (&self.caller, &self.content) {
            (Some(caller), _) => caller.party(),
            (None, Content::Call { from, .. }) => Party {
                pid: *from,
                // CAST: It was stored from a `Pid`, by `Self::new_oneway`.
                tid: self.frame.place as Pid,
            },
            (None, _) => Party::default(),
        }
    }

    /// Returns the thread that waits for the outcome, and its frame.
    pub(crate) fn waiter(&self) -> Option<Waiter<Arc<ThreadName>>> {
        Some(Waiter {
            thread: self.caller.clone()?,
            frame: self.frame,
        })
    }

    /// Returns whether `newer`, which may supersede a oneway call and is for the same node, is to
    /// take the place of this one (contract TXN-23). Both are oneway and admitted. Equal flags mean
    /// that this call permits it, too.
    pub(crate) fn is_superseded_by(&self, newer: &Self) -> bool {
        self.flags == newer.flags
            && self.code == newer.code
            && self.frame.serial == newer.frame.serial
    }

    /// Turns a draft into a call that is outstanding for its target and counts for its node, if the
    /// target is alive and takes it. Returns whether it may have to wait until the target is
    /// thawed, and whether it waits until the oneway call before it has ended.
    #[inline(always)] // It has one caller.
    pub(crate) fn admit(
        &mut self,
        process: &Process,
        target: &mut ProcessState,
        route: Option<&Arc<Thread>>,
    ) -> Result<(bool, bool), Failure> {
        let Content::Call { node, stage, .. } = &mut self.content else {
            return Err(Failure::new(Reason::DriverFault, EINVAL));
        };
        let is_oneway = self.flags & TF_ONE_WAY != 0;
        let admission = target.freeze.admit(is_oneway);
        if admission == Admission::Rejected {
            return Err(Failure::without_errno(Reason::ReceiverFrozen));
        }
        let is_route_gone = route.is_some_and(|thread| thread.name.has_ended());
        if read_once(&process.has_ended) || is_route_gone {
            return Err(Failure::without_errno(Reason::ReceiverEnded));
        }
        // Fails if the last strong handle was dropped in the meantime, and the owner may have read
        // that. It does not fail for the node of a process that has ended, which is refused above.
        let counts = &mut node.state.access_mut(target).counts;
        let counted = counts.add_local(Strength::Strong);
        counted.map_err(|Uncounted| Failure::new(Reason::NoHandle, EINVAL))?;
        // A oneway call takes its turn, or waits until the one that the node is busy with ends.
        let awaits_turn = is_oneway && core::mem::replace(&mut counts.is_busy, true);
        target.freeze.outstanding += 1;
        *stage = match is_oneway && !awaits_turn {
            true => CallStage::HasTurn,
            false => CallStage::Queued,
        };
        Ok((admission == Admission::Pending, awaits_turn))
    }

    /// Returns the fields of trace events about its end; see the [function](ended_at).
    pub(crate) fn ended_at(&self, to: Party) -> Ended {
        ended_at(self.id, self.code, self.flags, to)
    }

    /// The same for a call that is not queued, because something fails.
    pub(crate) fn ended_as_draft(&self, to: Pid) -> Ended {
        let from = match self.flags & TF_ONE_WAY != 0 {
            true => Party::default(),
            false => self.sender(),
        };
        let (code, flags) = (self.code, self.flags);
        (self.id, from.pid, from.tid, to, 0, code, flags)
    }

    /// Sets what the transaction holds on to; it is unused before.
    #[inline]
    pub(crate) fn put_content(&mut self, content: Content) {
        if matches!(self.content, Content::Empty) {
            // Empty content needs no drop; without this the compiler emits a call to find that out,
            // and copies the content for it.
            core::mem::forget(core::mem::replace(&mut self.content, content));
        } else {
            core::mem::replace(&mut self.content, content).free();
        }
    }

    /// Returns the buffer that is to be delivered, if the transaction has one.
    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match &self.content {
            Content::Call { buffer, .. } | Content::Reply { buffer, .. } => Some(buffer),
            Content::Empty | Content::Failed(_) => None,
        }
    }

    /// Undoes what the transaction holds on to. Sleeps; no lock may be held.
    pub(crate) fn release_content(&mut self) {
        match core::mem::take(&mut self.content) {
            Content::Empty | Content::Failed(_) => {}
            Content::Call {
                node,
                buffer,
                stage,
                ..
            } => {
                if stage == CallStage::HasTurn {
                    node.end_oneway();
                }
                if stage != CallStage::Draft {
                    node.end_call();
                }
                // The space of a process that has ended is gone.
                if let Some(owner) = node.owner().get() {
                    owner.give_back_buffer(buffer);
                }
            }
            Content::Reply {
                buffer, is_queued, ..
            } => {
                let caller = self.caller.as_ref();
                if let Some(process) = caller.and_then(|caller| caller.process().process.get()) {
                    process.give_back_buffer(buffer);
                    if is_queued {
                        let mut state = process.state.lock();
                        let wake = state.freeze.end_transaction();
                        process.unlock_and_wake_freezers(state, wake);
                    }
                }
            }
        }
    }
}

impl TransactionBox {
    /// Makes it a transaction of this caller, if it is that of another thread of the process. It is
    /// not in use. No lock may be held.
    #[inline(always)] // Mostly the same thread makes one call after the other.
    pub(crate) fn of_caller(mut self, caller: &Thread) -> Self {
        let is_callers = |of: &Arc<ThreadName>| Arc::ptr_eq(of, &caller.name);
        if !self.caller.as_ref().is_some_and(is_callers) {
            self.set_caller(caller);
        }
        self
    }

    #[cold]
    fn set_caller(&mut self, caller: &Thread) {
        self.caller = Some(caller.name.clone());
    }

    /// Frees a oneway call whose place a newer one has taken.
    #[cold]
    pub(crate) fn supersede(mut self) {
        if let Some(buffer) = self.buffer() {
            trace::transaction_update_buffer_release(|| buffer.traced(self.id));
        }
        self.release_content();
    }

    /// Returns the call to its caller with an error in place of a reply; for a oneway call nobody
    /// waits. Sleeps; no lock may be held.
    pub(crate) fn fail(mut self, error: Failure) {
        self.release_content();
        self.content = Content::Failed(error);
        let caller = self.caller.as_ref().and_then(|caller| caller.thread());
        self.return_to_caller(caller, WakeHint::Anywhere, |_, _| {});
    }

    /// Returns the transaction, with a reply or a transaction error in it, to the thread that made
    /// the call: to `caller`, if it had not ended before. Releases its content if that thread does
    /// not wait for it any more. No lock may be held.
    ///
    /// `and` is called with the caller first, under its lock: also if the caller waits for
    /// something else before this, or ends and does not read it.
    pub(crate) fn return_to_caller(
        mut self,
        caller: Option<Arc<Thread>>,
        hint: WakeHint,
        and: impl FnOnce(&Thread, &mut StateGuard<'_>),
    ) {
        let Some(caller) = caller else {
            return self.drop_unwanted();
        };
        let mut process = caller.process.state.lock();
        and(&caller, &mut process);
        let state = caller.state.access_mut(&mut process);
        // It has to reply to a call that is queued for it, or about to be, before it may read this.
        let is_innermost = !caller.name.has_ended()
            && state.pending_calls == 0
            && state.stack.pop_outgoing(self.frame);
        // A reply is outstanding for the process until the thread has it, or it is released.
        if let Content::Reply { is_queued, .. } = &mut self.content {
            *is_queued = true;
            process.freeze.outstanding += 1;
        }
        if !is_innermost {
            return self.return_to_outer_call(process, &caller);
        }
        let wake = process.push_to_thread(&caller, Work::Outcome(self));
        wake.after(process, &caller.process, hint);
    }

    /// The same if the thread has a call to serve that was made in the course of this one. The
    /// thread reads the outcome of this one after it has replied to that call. Or the thread does
    /// not wait for this one any more.
    #[cold]
    fn return_to_outer_call(self, mut process: StateGuard<'_>, caller: &Thread) {
        let stack = &mut caller.state.access_mut(&mut process).stack;
        let frame = self.frame;
        // A thread that has ended removes its frames, and looks only into those of calls that it
        // serves.
        let kept = match caller.name.has_ended() {
            false => stack.keep_outcome(frame, self),
            true => Err(self),
        };
        drop(process);
        if let Err(unwanted) = kept {
            unwanted.drop_unwanted();
        }
    }

    /// Drops the transaction, for which no thread waits any more.
    #[cold]
    fn drop_unwanted(self) {
        let Some(caller) = &self.caller else {
            return;
        };
        let Party { pid, tid } = caller.party();
        binder_debug!(
            DeadTransaction,
            "nobody waits for the reply to call {}: thread {tid} of process {pid} has ended, or its call has",
            self.id
        );
        if let Some(buffer) = self.buffer() {
            trace::transaction_failed_buffer_release(|| buffer.traced(self.id));
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        match &self.content {
            Content::Empty | Content::Failed(_) => {}
            Content::Call {
                node,
                buffer,
                stage: CallStage::Draft,
                ..
            } => {
                trace::transaction_failed_buffer_release(|| buffer.traced(self.id));
                let to = node.state.name().pid;
                self.release_content();
                trace::txn_latency_free(|| self.ended_as_draft(to));
            }
            Content::Call { node, .. } => {
                let pid = node.state.name().pid;
                trace::txn_latency_free(|| self.ended_at(Party { pid, tid: 0 }));
                self.release_content();
            }
            Content::Reply { .. } => {
                trace::txn_latency_free(|| self.ended_at(self.sender()));
                self.release_content();
            }
        }
    }
}

/// The fields of [`trace::txn_latency_free`] about a call or reply.
type Ended = (u32, Pid, Pid, Pid, Pid, u32, u32);

/// Returns the fields of trace events about the end of call or reply `id`, which was for `to`. The
/// sender is not known then, as in the C driver.
pub(crate) fn ended_at(id: u32, code: u32, flags: u32, to: Party) -> Ended {
    (id, 0, 0, to.pid, to.tid, code, flags)
}
