// SPDX-License-Identifier: GPL-2.0

//! `state`, `transactions` and `proc/<pid>`: everything that each process has, or what has to do
//! with transactions (contract LOG-1 to LOG-11), as it is copied.

use super::{
    lines::{Line, LineOfBuffer, LineOfNode, LineOfTransaction, PlaceOfData},
    pause,
    sort_by_key,
    CallKey,
    NodeKey,
    Snapshot,
    FEW,
    FLAGS, //
};
use crate::{
    common::netlink::Party,
    defs::Return,
    kernel_ext::{link::View, once::read_once},
    lifecycle::processes::{opened, opened_by},
    names::ThreadName,
    node::Node,
    process::{Pid, Process, ProcessState},
    pure::{
        call_stack::Frame,
        notification_state::{DeathState, Message}, //
    },
    range_alloc::State,
    thread::{Thread, WaitState},
    transaction::{Content, Transaction, TransactionBox},
    work::{Code, Work}, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The number of items of a queue that are copied, under one lock. A queue cannot be left in its
/// middle and found again there: the next item may be anywhere then.
const MOST_QUEUED: usize = 1024;

/// The lines of one item at most: of a queue, its end, what it belongs to, and what is delivered.
pub(super) const MOST_OF_ITEM: usize = MOST_QUEUED + 4;

pub(super) fn key_of(node: &Node) -> NodeKey {
    (node.debug_id, core::ptr::from_ref(node).addr())
}

impl Snapshot {
    /// Copies a process.
    pub(super) fn process(&mut self, process: &Arc<Process>) -> Result {
        self.make_room(1)?;
        let start = self.lines.len();
        self.push(Line::Process(self.processes.len()));
        self.processes.push(process.clone(), FLAGS)?;
        // In this order each buffer that is copied as delivered has a call that is served, or that
        // has ended, however fast calls come and go.
        let mut buffers = copy_buffers(process)?;
        self.threads(process)?;
        if !self.find_data(start, &mut buffers) {
            // Those are freed, or were delivered after the buffers were copied.
            self.find_data(start, &mut copy_buffers(process)?);
        }
        self.nodes(process)?;
        if self.is_complete {
            self.refs(process)?;
        }
        sort_by_key(&mut buffers, |buffer| buffer.data.offset);
        for buffer in buffers {
            self.make_room(1)?;
            self.push(Line::Buffer(buffer));
        }
        self.work(process)?;
        if !self.is_complete && self.lines.len() == start + 1 {
            self.lines.truncate(start);
            self.processes.pop();
        }
        Ok(())
    }

    /// Copies the processes that are called by those of a pid, which are copied: their lines are
    /// not shown, and have the calls.
    pub(super) fn add_called(&mut self, pid: Pid) -> Result {
        let mut pids = KVVec::new();
        for line in &self.lines {
            match line {
                Line::Outgoing { target, .. } if *target != pid => {
                    pause()?;
                    pids.push(*target, FLAGS)?;
                }
                _ => {}
            }
        }
        sort_by_key(&mut pids, |pid| *pid);
        self.is_complete = false;
        let mut last = None;
        for pid in &pids {
            if last.replace(pid) == Some(pid) {
                continue;
            }
            for process in opened_by(*pid) {
                self.threads(&process)?;
                self.work(&process)?;
            }
        }
        Ok(())
    }

    /// Adds the title, and the dead nodes, each of which is given once for each holder. A node that
    /// is shown with its owner is left out: the owner has ended in the meantime, or is ending.
    pub(super) fn add_head(&mut self, title: &'static str) -> Result {
        self.head.push(Line::Fixed("", title), FLAGS)?;
        let shown = self.node_keys()?;
        sort_by_key(&mut self.dead, |node| Arc::as_ptr(node).addr());
        let mut last = None;
        for node in &self.dead {
            let address = Arc::as_ptr(node);
            let is_known = last.replace(address) == Some(address);
            if is_known || shown.binary_search(&key_of(node)).is_ok() {
                continue;
            }
            pause()?;
            if self.head.len() == 1 {
                self.head.push(Line::Fixed("", "dead nodes:"), FLAGS)?;
            }
            let line = LineOfNode::of(node, node.counts());
            self.head.push(Line::Node(line), FLAGS)?;
        }
        Ok(())
    }

    /// Copies the threads of a process: what each of them is, calls and serves, and what is queued
    /// for it. A place is a thread and how many of its frames are left, once its line is copied.
    fn threads(&mut self, process: &Process) -> Result {
        let first = (Pid::MIN, None);
        self.copy_items(process, first, |copy, state, &(from, left)| {
            let thread = state.thread_from(from)?;
            let own = thread.state.access(state);
            let Some(left) = left.filter(|_| thread.id == from) else {
                if own.is_available() && !copy.is_complete {
                    return Some((thread.id + 1, None));
                }
                let is_waiting = own.wait_state != WaitState::Awake;
                copy.push(Line::Thread {
                    id: thread.id,
                    looper: u32::from(own.looper.bits()) | u32::from(is_waiting) << 4,
                    must_return: read_once(&thread.must_return),
                });
                return Some((thread.id, Some(own.stack.frames.len())));
            };
            // The stack may have become shorter since its last frames were copied.
            if let Some(left) = left.min(own.stack.frames.len()).checked_sub(1) {
                copy.frame(&thread, own.stack.frames.get(left));
                return Some((thread.id, Some(left)));
            }
            let prefixes = ("    ", "    pending transaction");
            copy.queue(own.work.iter(), state, thread.party(), prefixes);
            Some((thread.id + 1, None))
        })
    }

    fn frame(&mut self, thread: &Arc<Thread>, frame: Option<&Frame<TransactionBox>>) {
        let own = thread.party();
        match frame {
            Some(Frame::Outgoing { serial, target, .. }) => {
                let line = Line::Outgoing {
                    call: self.key_of_call(&thread.name, *serial),
                    from: own,
                    target: *target,
                };
                self.push(line);
            }
            // The thread reads the outcome later.
            Some(Frame::Ended(outcome)) => self.push(Line::Transaction(
                "    outgoing transaction",
                LineOfTransaction::of(outcome, own),
            )),
            Some(Frame::Incoming(call)) => {
                self.record_call(call);
                self.push(Line::Incoming(LineOfTransaction::of(call, own)));
            }
            Some(Frame::Replying) | None => {}
        }
    }

    /// Copies what is queued for any thread of a process, and whether notifications are delivered.
    fn work(&mut self, process: &Process) -> Result {
        self.copy_items(process, (), |copy, state, ()| {
            let prefixes = ("  ", "  pending transaction");
            copy.queue(state.work.iter(), state, process.party(0), prefixes);
            if !state.delivered_deaths.is_empty() {
                copy.push(Line::Fixed("  ", "has delivered dead binder"));
            }
            if !state.delivered_freezes.is_empty() {
                copy.push(Line::Fixed("  ", "has delivered freeze binder"));
            }
            None
        })
    }

    /// Copies the nodes of a process, with the oneway calls that wait for others. This ends,
    /// although others may add nodes with ever higher pointers: they take the lock in turn, and add
    /// one each time.
    fn nodes(&mut self, process: &Process) -> Result {
        self.copy_items(process, 0, |copy, state, from| {
            let node = state.nodes.first_from(*from)?;
            let own = node.state.access(state);
            if copy.is_complete || own.counts.is_busy {
                copy.push(Line::Node(LineOfNode::of(&node, own.counts.clone())));
                let prefixes = ("    ", "    pending async transaction");
                copy.queue(own.waiting.iter(), state, process.party(0), prefixes);
            }
            node.name.ptr.checked_add(1)
        })
    }

    /// Copies the items in a queue of `to`, except those that user space will not read any more.
    /// The queue is that of a process, of one of its threads or of one of its nodes. Lines of
    /// transactions begin with `before_transaction`.
    fn queue<'a>(
        &mut self,
        works: impl Iterator<Item = View<'a, Work>>,
        state: &ProcessState,
        to: Party,
        (prefix, before_transaction): (&'static str, &'static str),
    ) {
        let transaction = |transaction: &Transaction| {
            Line::Transaction(before_transaction, LineOfTransaction::of(transaction, to))
        };
        let fixed = |text| Line::Fixed(prefix, text);
        for (number, work) in works.enumerate() {
            if number == MOST_QUEUED {
                // In place of those that are not copied.
                self.push(fixed("more than 1024"));
                return;
            }
            let line = match &*work {
                Work::Call(call) => {
                    self.record_call(call);
                    transaction(call)
                }
                Work::Outcome(outcome) => match &outcome.content {
                    Content::Failed(error) => Line::Error(prefix, error.return_code()),
                    _ => transaction(outcome),
                },
                Work::Error(thread) => Line::Error(prefix, thread.state.access(state).unread_error),
                // The C driver has no words for two kinds of completions, and prints their numbers.
                Work::Code(code) => fixed(match **code {
                    Code::Return(Return::TransactionPendingFrozen) => "unknown work: type 3",
                    Code::Return(Return::OnewaySpamSuspect) => "unknown work: type 4",
                    Code::Return(_) | Code::Completion => "transaction complete",
                }),
                Work::Node(node) => Line::NodeWork(prefix, node.debug_id, node.name),
                Work::Death(death) => fixed(match death.state(state) {
                    DeathState::Queued { is_cleared: false } => "has dead binder",
                    DeathState::Queued { is_cleared: true } => "has cleared dead binder",
                    DeathState::Clearing => "has cleared death notification",
                    _ => continue,
                }),
                Work::Freeze(freeze) => fixed(match freeze.queued(state) {
                    Some(Message::Event) => "has frozen binder",
                    Some(Message::ClearDone) => "has cleared freeze notification",
                    None => continue,
                }),
            };
            self.push(line);
        }
    }

    /// Records that the next line is that of a call that is queued or served.
    fn record_call(&mut self, call: &Transaction) {
        // Of a oneway call that is queued there is none, and nobody waits for it.
        let Some(caller) = &call.caller else {
            return;
        };
        let key = self.key_of_call(caller, call.frame.serial);
        // There is room.
        let _ = self.calls.push_within_capacity((key, self.lines.len()));
    }

    /// Returns the name of a call, and keeps its caller. A line has one call at most.
    fn key_of_call(&mut self, caller: &Arc<ThreadName>, serial: u64) -> CallKey {
        // There is room.
        let _ = self.callers.push_within_capacity(caller.clone());
        (Arc::as_ptr(caller).addr(), serial)
    }

    /// Copies the handles of a process, and adds the dead nodes behind them.
    fn refs(&mut self, process: &Process) -> Result {
        let mut next = Some(0);
        while let Some(from) = next {
            self.make_room(FEW)?;
            self.dead.reserve(FEW, FLAGS)?;
            let handles = process.handles.lock();
            next = handles.table.visit_leaf(from, |handle, reference| {
                let node = &reference.node;
                let is_dead = node.is_dead();
                let death = reference.death.as_ref();
                self.push(Line::Ref {
                    id: handles.debug_id(reference),
                    handle,
                    node: node.debug_id,
                    is_dead,
                    strong: reference.strong,
                    weak: reference.weak,
                    death: death.map_or(0, |death| Arc::as_ptr(death).addr()),
                });
                if is_dead {
                    // There is room.
                    let _ = self.dead.push_within_capacity(node.clone());
                }
            });
            drop(handles);
        }
        Ok(())
    }

    /// Returns the keys of the nodes that are copied, in their order.
    fn node_keys(&self) -> Result<KVVec<NodeKey>> {
        let mut keys = KVVec::new();
        for line in Iterator::chain(self.head.iter(), self.lines.iter()) {
            if let Line::Node(node) = line {
                pause()?;
                keys.push(node.key, FLAGS)?;
            }
        }
        sort_by_key(&mut keys, |key| *key);
        Ok(keys)
    }

    /// Looks through the handles of all processes for those that hold the nodes that were copied.
    /// The driver has no list of them, because nothing but this needs one.
    pub(super) fn find_holders(&mut self) -> Result {
        let wanted = self.node_keys()?;
        if wanted.is_empty() {
            return Ok(());
        }
        let held = &mut self.holders;
        let mut few = KVVec::with_capacity(FEW, FLAGS)?;
        for process in opened() {
            let mut next = Some(0);
            while let Some(from) = next {
                pause()?;
                few.clear();
                let handles = process.handles.lock();
                next = handles.table.visit_leaf(from, |_, reference| {
                    // There is room.
                    let _ = few.push_within_capacity(key_of(&reference.node));
                });
                drop(handles);
                for key in &few {
                    if wanted.binary_search(key).is_ok() {
                        held.push((*key, process.pid), FLAGS)?;
                    }
                }
            }
        }
        sort_by_key(held, |holder| *holder);
        Ok(())
    }

    /// Finds the data of the calls that are served, whose lines are copied from `start` on, among
    /// the buffers of their process, which are in the order of their numbers. Returns whether all
    /// are found.
    fn find_data(&mut self, start: usize, buffers: &mut [LineOfBuffer]) -> bool {
        let mut are_found = true;
        for line in &mut self.lines[start..] {
            let Line::Incoming(call) = line else {
                continue;
            };
            let found = buffers.binary_search_by_key(&call.id, |buffer| buffer.id);
            match found.ok().and_then(|place| buffers.get_mut(place)) {
                Some(buffer) if buffer.data.node.is_some() => {
                    buffer.is_active = true;
                    call.data = Some(buffer.data);
                }
                _ => are_found &= call.data.is_some(),
            }
        }
        are_found
    }
}

/// Copies the buffers of a process, in the order of their numbers.
fn copy_buffers(process: &Process) -> Result<KVVec<LineOfBuffer>> {
    let mut buffers = KVVec::new();
    let mut next = Some(0);
    while let Some(mut from) = next {
        pause()?;
        buffers.reserve(FEW, FLAGS)?;
        let ranges = process.buffers.ranges.lock();
        for _ in 0..FEW {
            let range = (*ranges)
                .as_ref()
                .and_then(|ranges| ranges.first_behind(from));
            next = range.as_ref().map(|range| range.offset + range.size);
            let (Some(range), Some(behind)) = (range, next) else {
                break;
            };
            from = behind;
            let served = match range.state {
                State::Delivered(delivered) => delivered.node_of_call(),
                State::Reserved | State::Freeing => None,
            };
            // There is room. CAST: All of it is within a space.
            let _ = buffers.push_within_capacity(LineOfBuffer {
                id: range.label.id,
                data: PlaceOfData {
                    node: served.map(|node| node.debug_id),
                    data_size: range.label.data_size,
                    offsets_size: range.label.offsets_size,
                    offset: range.offset as u32,
                },
                extra_size: range.label.extra_size(range.size) as u32,
                is_active: matches!(range.state, State::Reserved),
            });
        }
        drop(ranges);
    }
    sort_by_key(&mut buffers, |buffer: &LineOfBuffer| buffer.id);
    Ok(buffers)
}
