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
//! knows the place of that frame; whether a call still has a caller that waits for it is checked in
//! one place, [`TransactionBox::return_to_caller`], under the caller's lock. What a transaction
//! holds on to depends on how far it has come: that is [`Content`], and dropping it undoes exactly
//! that.

mod reply;
mod traced;
mod waiter;

pub(crate) use reply::ArrivedReply;
pub(crate) use waiter::Waiter;

use crate::{
    allocation::Buffer,
    common::{
        debug::binder_debug,
        failure::{Failure, Reason},
        netlink::Party,
        stats::{CountedAs, Kind}, //
    },
    defs::{Return, TransactionRequest, TF_ONE_WAY, TF_UPDATE_TXN},
    ffi::trace,
    kernel_ext::{
        link::Placed,
        park::WakeHint,
        pid,
        ticks::Ticks, //
    },
    node::Node,
    process::{Pid, ProcessState, StateGuard},
    pure::{
        call_stack::FrameId,
        freeze_state::Admission,
        node_counts::Uncounted,
        priority_rules::{Priority, SavedPriority}, //
    },
    thread::Thread,
    work::{Waking, Work}, //
};
use kernel::{
    alloc::AllocError,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
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
    /// The thread that made the call. None of a oneway call that is queued: nobody waits for its
    /// outcome, and it keeps nothing of a sender that ends.
    caller: Option<Arc<Thread>>,
    /// When the call or its reply was sent.
    pub(crate) start: Ticks,
    /// The priority of the caller when it made the call.
    pub(crate) caller_priority: Priority,
    /// The priority of the serving thread before the call; none until it begins to change.
    pub(crate) saved_priority: SavedPriority,
    content: Content,
    /// The frame of a call on its caller's stack; in two fields, to save padding. Of a oneway call
    /// that is queued: the number of its sender's [group](pid::current_group_number), if another
    /// call may supersede it, and of the thread.
    frame_serial: u64,
    frame_place: u32,
    _counted: CountedAs<{ Kind::Transaction as u8 }>,
}

// With its place, of 24 bytes, as large as the kernel's allocator has room for before the next
// size, which is half as large again.
const _: () = assert!(size_of::<Transaction>() <= 104);

/// How far a transaction has come, and what it holds on to.
pub(crate) enum Content {
    /// Nothing: not in use, or delivered and being served.
    Empty,
    /// A call that is not queued yet.
    Draft { node: Arc<Node>, buffer: Buffer },
    /// A call that is queued; its node is in use.
    Call { node: Arc<Node>, buffer: Buffer },
    /// A oneway call that is queued; its node is in use, and busy with it unless it has to wait.
    Oneway {
        node: Arc<Node>,
        buffer: Buffer,
        turn: Turn,
        /// The number of the process that it is from.
        from: Pid,
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
    /// Drops the content.
    #[cold]
    fn free(self) {}
}

/// Whether a oneway call is the one that its node is busy with (contract TXN-22).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is, until its buffer is freed.
    Taken,
    /// It waits behind another.
    Awaited,
}

impl Transaction {
    /// Allocates a transaction for calls of this thread.
    pub(crate) fn new(caller: &Arc<Thread>) -> Result<TransactionBox, AllocError> {
        let transaction = || Self {
            id: 0,
            code: 0,
            flags: 0,
            sender_euid: Kuid::current_euid(),
            caller: Some(caller.clone()),
            start: Ticks::now(),
            caller_priority: Priority::default(),
            saved_priority: SavedPriority::NONE,
            content: Content::Empty,
            frame_serial: FrameId::NONE.serial,
            frame_place: FrameId::NONE.place,
            _counted: CountedAs::new(),
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

    /// Records the frame that the call has on its caller's stack.
    pub(crate) fn set_frame(&mut self, frame: FrameId) {
        self.frame_serial = frame.serial;
        self.frame_place = frame.place;
    }

    /// Returns the frame that the call has on its caller's stack.
    pub(crate) fn frame(&self) -> FrameId {
        FrameId {
            place: self.frame_place,
            serial: self.frame_serial,
        }
    }

    /// Returns the thread that made the call, unless the call is oneway and queued.
    #[inline(always)]
    pub(crate) fn caller(&self) -> Option<&Arc<Thread>> {
        self.caller.as_ref()
    }

    /// Returns the numbers of the process and the thread that made the call.
    pub(crate) fn sender(&self) -> Party {
        match (&self.caller, &self.content) {
            (Some(caller), _) => caller.party(),
            (None, Content::Oneway { from, .. }) => Party {
                pid: *from,
                // CAST: It was stored from a `Pid`, by `Self::leave_sender`.
                tid: self.frame_place as Pid,
            },
            (None, _) => Party::default(),
        }
    }

    /// Returns the thread that waits for the outcome, and its frame.
    pub(crate) fn waiter(&self) -> Option<Waiter> {
        Some(Waiter {
            thread: self.caller.clone()?,
            frame: self.frame(),
        })
    }

    /// Whether the caller does not wait for a reply.
    pub(crate) fn is_oneway(&self) -> bool {
        self.flags & TF_ONE_WAY != 0
    }

    /// Returns the code that the sender of a oneway draft reads once the draft is queued (contract
    /// TXN-16).
    pub(crate) fn acknowledgement(&self) -> Return {
        match &self.content {
            Content::Draft { buffer, .. } if buffer.is_spam_suspect => Return::OnewaySpamSuspect,
            _ => Return::TransactionComplete,
        }
    }

    /// Whether this oneway call may take the place of one that waits.
    pub(crate) fn may_supersede(&self) -> bool {
        self.flags & TF_UPDATE_TXN != 0
    }

    /// Whether `newer`, which is for the same node, is an update of this oneway call and is to take
    /// its place (contract TXN-23). Both are admitted.
    pub(crate) fn is_superseded_by(&self, newer: &Self) -> bool {
        let both = TF_ONE_WAY | TF_UPDATE_TXN;
        self.flags & both == both
            && self.flags == newer.flags
            && self.code == newer.code
            && self.frame_serial == newer.frame_serial
    }

    /// Returns the node, if it is busy with another oneway call whose end this one has to wait for.
    pub(crate) fn node_to_wait_for(&self) -> Option<Arc<Node>> {
        match &self.content {
            Content::Oneway {
                node,
                turn: Turn::Awaited,
                ..
            } => Some(node.clone()),
            _ => None,
        }
    }

    /// Records that the oneway call before this one has ended, and the node is busy with this one
    /// now.
    pub(crate) fn take_turn(&mut self) {
        if let Content::Oneway { turn, .. } = &mut self.content {
            *turn = Turn::Taken;
        }
    }

    /// Turns a draft into a call that is outstanding for its target and counts for its node, if the
    /// target is alive and takes it. Returns whether it may have to wait until the target is
    /// thawed.
    pub(crate) fn admit(
        &mut self,
        target: &mut ProcessState,
        route: Option<&Thread>,
    ) -> Result<Admission, Failure> {
        let Content::Draft { node, .. } = &self.content else {
            return Err(Failure::new(Reason::DriverFault, EINVAL));
        };
        let admission = target.freeze.admit(self.is_oneway());
        if admission == Admission::Rejected {
            return Err(Failure::without_errno(Reason::ReceiverFrozen));
        }
        let is_route_gone = route.is_some_and(|thread| thread.has_ended.load(Relaxed));
        if node.owner().has_ended.load(Relaxed) || is_route_gone {
            return Err(Failure::without_errno(Reason::ReceiverEnded));
        }
        node.begin_call(target)
            .map_err(|Uncounted| Failure::new(Reason::NoHandle, EINVAL))?;
        target.freeze.add_transaction();
        if let Content::Draft { node, buffer } = self.take_content() {
            let content = if self.is_oneway() {
                let from = self.leave_sender();
                let turn = node.take_turn(target);
                Content::Oneway {
                    node,
                    buffer,
                    turn,
                    from,
                }
            } else {
                Content::Call { node, buffer }
            };
            self.put_content(content);
        }
        Ok(admission)
    }

    /// Replaces the calling thread, which sends this oneway call, by its numbers. Returns that of
    /// its process.
    #[inline]
    fn leave_sender(&mut self) -> Pid {
        let sender = self.sender();
        // Not the last reference: the thread is in an operation, which has another.
        self.caller = None;
        self.frame_serial = match self.may_supersede() {
            true => pid::current_group_number(),
            false => FrameId::NONE.serial,
        };
        // CAST: The bits are kept.
        self.frame_place = sender.tid as u32;
        sender.pid
    }

    /// Reserves this call for the sleeping thread that is going to serve it, if one exists and its
    /// priority has to be raised before. Returns that thread. A call that is served while sharing
    /// the CPU with other threads (not at a real-time priority) is never reserved, because such
    /// priorities differ by little.
    pub(crate) fn reserve_thread(
        &self,
        target: &mut ProcessState,
        route: Option<&Arc<Thread>>,
    ) -> Option<Arc<Thread>> {
        let is_served_as_sharing = match &self.content {
            Content::Call { node, .. } => node.priority.is_served_as_sharing(self.caller_priority),
            Content::Oneway { node, .. } => !node.priority.demands_real_time(),
            _ => true,
        };
        if is_served_as_sharing {
            return None;
        }
        // Under the lock this is not the last reference: the list or the caller has another.
        let server = route.or(target.newest_idle.as_ref())?.clone();
        if !target.reserve_thread(&server) {
            return None;
        }
        // If a call that the thread waits for ends meanwhile, the thread reads that outcome after
        // this call.
        server.state(target).pending_calls += 1;
        Some(server)
    }

    /// Raises the priority of the thread that the call is reserved for as far as serving it
    /// requires. Returns the former priority if that changes it.
    pub(crate) fn raise(&self, server: &Thread) -> Option<Priority> {
        match &self.content {
            Content::Call { node, .. } => server.raise(Some(self.caller_priority), &node.priority),
            Content::Oneway { node, .. } => server.raise(None, &node.priority),
            _ => None,
        }
    }

    /// Returns the number of the process that made the call, as the calling task sees it; 0 if the
    /// calling task cannot see that process or the caller has ended (contract TXN-5).
    pub(crate) fn caller_pid(&self) -> Pid {
        match &self.caller {
            Some(caller) if !caller.has_ended.load(Relaxed) => {
                caller.process.group.number_for_current()
            }
            _ => 0,
        }
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

    /// Returns how far the transaction has come.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// Returns the buffer that is to be delivered, if the transaction has one.
    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match &self.content {
            Content::Draft { buffer, .. }
            | Content::Call { buffer, .. }
            | Content::Oneway { buffer, .. }
            | Content::Reply { buffer, .. } => Some(buffer),
            Content::Empty | Content::Failed(_) => None,
        }
    }

    /// Takes out what the transaction holds on to, to pass it on.
    pub(crate) fn take_content(&mut self) -> Content {
        core::mem::replace(&mut self.content, Content::Empty)
    }

    /// Undoes what the transaction holds on to. Sleeps; no lock may be held.
    pub(crate) fn release_content(&mut self) {
        match self.take_content() {
            Content::Empty | Content::Failed(_) => {}
            Content::Draft { node, buffer } => node.owner().give_back_buffer(buffer),
            Content::Call { node, buffer } => {
                node.end_call();
                node.owner().give_back_buffer(buffer);
            }
            Content::Oneway {
                node, buffer, turn, ..
            } => {
                if turn == Turn::Taken {
                    node.end_oneway();
                }
                node.end_call();
                node.owner().give_back_buffer(buffer);
            }
            Content::Reply {
                buffer, is_queued, ..
            } => {
                if let Some(caller) = &self.caller {
                    caller.process.give_back_buffer(buffer);
                    if is_queued {
                        caller.process.end_transaction();
                    }
                }
            }
        }
    }

    /// Counts a reply as outstanding for the process of its caller, until the caller has it.
    fn count_as_queued(&mut self, process: &mut ProcessState) {
        if let Content::Reply { is_queued, .. } = &mut self.content {
            *is_queued = true;
            process.freeze.add_transaction();
        }
    }
}

impl TransactionBox {
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
        let is_oneway = matches!(self.content, Content::Oneway { .. });
        self.release_content();
        if is_oneway {
            return;
        }
        self.content = Content::Failed(error);
        self.return_to_caller(None, WakeHint::Anywhere, |_, _| {});
    }

    /// Returns the transaction, with a reply or a transaction error in it, to the thread that made
    /// the call. Releases its content if that thread does not wait for it any more. No lock may be
    /// held.
    ///
    /// `error` is recorded as the caller's extended error, unless it has an unread one. `and` is
    /// called with the caller, under its lock.
    pub(crate) fn return_to_caller(
        mut self,
        error: Option<(u32, Failure)>,
        hint: WakeHint,
        and: impl FnOnce(&Thread, &StateGuard<'_>),
    ) {
        let Some(caller) = self.caller.clone() else {
            return;
        };
        let mut process = caller.process.lock_state();
        and(&caller, &process);
        let state = caller.state(&mut process);
        // Also of one that waits for something else first, and that has ended and does not ask.
        if let Some((id, error)) = error {
            state.set_error_if_none(id, error);
        }
        if caller.has_ended.load(Relaxed) || !state.end_innermost_call(self.frame()) {
            return self.return_to_outer_call(process, &caller);
        }
        self.count_as_queued(&mut process);
        let wake = process.push_to_thread(&caller, Work::Outcome(self), Waking::Now);
        wake.after(process, &caller.process, hint);
    }

    /// The same if the thread has a call to serve that was made in the course of this one: it reads
    /// the outcome of this one after it has replied to that. Or the thread does not wait for this
    /// one any more.
    #[cold]
    fn return_to_outer_call(mut self, mut process: StateGuard<'_>, caller: &Thread) {
        self.count_as_queued(&mut process);
        let stack = &mut caller.state(&mut process).stack;
        let frame = self.frame();
        // A thread that has ended removes its frames, and looks only into those of calls that it
        // serves.
        let kept = match caller.has_ended.load(Relaxed) {
            false => stack.keep_outcome(frame, self),
            true => Err(self),
        };
        let Err(unwanted) = kept else {
            return;
        };
        drop(process);
        binder_debug!(
            DeadTransaction,
            "nobody waits for the reply to call {}: thread {} of process {} has ended, or its call has",
            unwanted.id,
            caller.id,
            caller.process.pid()
        );
        if let Some(buffer) = unwanted.buffer() {
            trace::transaction_failed_buffer_release(|| buffer.traced(unwanted.id));
        }
        drop(unwanted);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        match &self.content {
            Content::Empty | Content::Failed(_) => {}
            Content::Draft { node, buffer } => {
                trace::transaction_failed_buffer_release(|| buffer.traced(self.id));
                let to = node.owner().clone();
                self.release_content();
                trace::txn_latency_free(|| self.ended_as_draft(&to));
            }
            Content::Call { node, .. } | Content::Oneway { node, .. } => {
                trace::txn_latency_free(|| self.ended_at(node.owner().pid(), 0));
                self.release_content();
            }
            Content::Reply { .. } => {
                let Party { pid, tid } = self.sender();
                trace::txn_latency_free(|| self.ended_at(pid, tid));
                self.release_content();
            }
        }
    }
}
