// SPDX-License-Identifier: GPL-2.0
//! Follows calls through the events: from the caller to the thread that serves, and back with the reply.
//!
//! The call of an event follows from the number of the transaction, or from its thread's stack: each thread has a stack
//! of the calls that it makes and serves, the innermost last, as in the driver. A call that is made while its thread
//! serves another one is nested in that one. Calls that began before the trace are counted and left out. If events are
//! missing, the end of the calls that were open is unknown; they are dropped and counted, too.

use super::event::{Event, Id, Pid, Sent, Size, What};
use crate::tasks::Task;
use serde::Serialize;
use std::collections::hash_map::Entry;
use std::collections::HashMap;

/// As many calls may be open. More are so many that the oldest will hardly end: their processes may be gone.
const OPEN_MAX: usize = 1 << 16;

/// Of so many threads those are forgotten that do nothing.
const THREADS_MAX: usize = 2 * OPEN_MAX;

/// This many nested calls are kept until the outermost one ends. Further ones are reported when they end.
const NESTED_MAX: usize = 256;

/// The flag of a call without a reply.
pub const ONEWAY: u32 = binder_sys::TransactionFlags::ONE_WAY.bits();

/// The end of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Its caller has the reply.
    Replied,
    /// A thread has taken it; that is all there is of a oneway call.
    Taken,
    /// The caller was notified that it failed, by this `BR_*` code.
    Failed(u32),
    /// The call failed before the driver began to send it, so its target is unknown.
    Refused(u32),
    /// A newer one took the place of this oneway call.
    Superseded,
    /// Its caller ended first.
    CallerEnded,
    /// It had not ended when the trace did.
    #[default]
    Open,
}

impl End {
    /// Returns true if the call failed.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed(_) | Self::Refused(_) | Self::CallerEnded)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its number; 0 for one that was refused.
    pub id: Id,
    pub depth: usize,
    /// The call that it is nested in, right above; 0: none.
    pub parent: Id,
    pub caller: Task,
    /// The server. The thread is 0 until one has taken the call.
    pub server: Task,
    pub node: Id,
    pub code: u32,
    pub flags: u32,
    pub size: Option<Size>,
    pub reply_size: Option<Size>,
    pub sent: u64,
    pub received: Option<u64>,
    pub replied: Option<u64>,
    /// When it ended, or the trace.
    pub ended: u64,
    pub end: End,
}

impl Call {
    pub fn is_oneway(&self) -> bool {
        self.flags & ONEWAY != 0
    }

    /// Nanoseconds until a thread took it.
    pub fn queued(&self) -> Option<u64> {
        Some(self.received?.saturating_sub(self.sent))
    }

    /// Nanoseconds until there was a reply, from when a thread had taken it.
    pub fn served(&self) -> Option<u64> {
        Some(self.replied?.saturating_sub(self.received?))
    }

    pub fn total(&self) -> u64 {
        self.ended.saturating_sub(self.sent)
    }
}

/// Counts of calls and events that could not be followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gaps {
    /// Calls that had begun when the trace did.
    pub begun_before: u64,
    /// Events that are missing, at least.
    pub lost_events: u64,
    /// Calls that were open when events were missing, or that were too many.
    pub cut_off: u64,
}

/// Returns the process of a thread; 0 where that is not known.
type ProcessOf<'a> = &'a mut dyn FnMut(Pid) -> Pid;

/// A call that has ended, and before the next one those that were nested in it, in the order in which they ended.
pub type Ended = Vec<Call>;

/// The calls that are open, and what the threads do.
#[derive(Debug, Default)]
pub struct Calls {
    open: HashMap<Id, Open>,
    /// The call that a reply answers.
    replies: HashMap<Id, Id>,
    threads: HashMap<Pid, Thread>,
    /// The gaps until now.
    pub gaps: Gaps,
    /// The calls that this event has ended.
    ended: Vec<Ended>,
}

#[derive(Debug)]
struct Open {
    call: Call,
    nested: Vec<Call>,
    /// The number of its reply.
    reply: Option<Id>,
    /// True if the driver has undone the call.
    is_undone: bool,
}

#[derive(Debug, Default)]
struct Thread {
    stack: Vec<Frame>,
    /// The oneway call that it sent last.
    last_oneway: Option<Id>,
    /// It was given something that had begun before the trace.
    serves_unknown: bool,
}

/// A thread's role in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Makes(Id),
    Serves(Id),
}

impl Calls {
    /// Takes an event, and returns the calls that it ends.
    pub fn take(&mut self, event: &Event, process_of: ProcessOf) -> Vec<Ended> {
        let Event { time, thread, what } = *event;
        match what {
            What::Sent(sent) if sent.is_reply => self.reply_sent(time, thread, &sent),
            What::Sent(sent) => self.call_sent(time, thread, &sent, process_of),
            What::Received(id) => self.received(time, Task { process: 0, thread }, id),
            What::Buffer(id, size) => self.sized(id, size),
            What::Undone(id) => {
                if let Some(open) = self.open.get_mut(&id) {
                    open.is_undone = true;
                }
            }
            What::Superseded(id) => self.end(id, time, End::Superseded),
            What::Failed(code) => self.failed(time, thread, code, process_of),
            What::Ended => self.thread_ended(time, thread),
            What::Lost(count) => {
                self.gaps.lost_events += count;
                self.forget_all();
            }
        }
        std::mem::take(&mut self.ended)
    }

    /// Takes what is open out, outermost calls first, as it is at a time.
    pub fn finish(&mut self, time: u64) -> Ended {
        let mut left: Ended = self.open.drain().map(|(_, open)| open.call).collect();
        left.sort_by_key(|call| (call.sent, call.id));
        left.iter_mut().for_each(|call| call.ended = time);
        self.threads.clear();
        self.replies.clear();
        left
    }

    fn call_sent(&mut self, time: u64, thread: Pid, sent: &Sent, process_of: ProcessOf) {
        if self.open.len() >= OPEN_MAX {
            self.forget_all();
        }
        if self.threads.len() >= THREADS_MAX {
            self.threads.retain(|_, thread| !thread.stack.is_empty());
        }
        let state = self.threads.entry(thread).or_default();
        // A thread that waits for a reply makes only oneway calls: its earlier call has failed, without an event.
        let is_oneway = sent.flags & ONEWAY != 0;
        let has_failed = |frame: &mut Frame| !is_oneway && matches!(frame, Frame::Makes(_));
        if let Some(Frame::Makes(id)) = state.stack.pop_if(has_failed) {
            self.gaps.cut_off += u64::from(self.open.remove(&id).is_some());
        }
        let served = state.stack.iter().rev().find_map(|frame| match frame {
            Frame::Serves(id) => Some(*id),
            Frame::Makes(_) => None,
        });
        let outer = served.and_then(|id| self.open.get(&id));
        let call = Call {
            id: sent.id,
            depth: outer.map_or(0, |outer| outer.call.depth + 1),
            parent: outer.map_or(0, |outer| outer.call.id),
            caller: Task { process: process_of(thread), thread },
            server: Task { process: sent.to_process, thread: sent.to_thread },
            node: sent.node,
            code: sent.code,
            flags: sent.flags,
            sent: time,
            ended: time,
            ..Call::default()
        };
        match is_oneway {
            true => state.last_oneway = Some(sent.id),
            false => state.stack.push(Frame::Makes(sent.id)),
        }
        self.open.insert(sent.id, Open { call, nested: Vec::new(), reply: None, is_undone: false });
    }

    fn reply_sent(&mut self, time: u64, thread: Pid, sent: &Sent) {
        let state = self.threads.entry(thread).or_default();
        // The calls that it made while it served this one have ended; if not, their ends were missed.
        while let Some(Frame::Makes(id)) = state.stack.pop_if(|frame| matches!(frame, Frame::Makes(_))) {
            self.gaps.cut_off += u64::from(self.open.remove(&id).is_some());
        }
        match state.stack.pop() {
            Some(Frame::Serves(id)) => {
                if let Some(open) = self.open.get_mut(&id) {
                    open.call.replied = Some(time);
                    open.reply = Some(sent.id);
                    if open.call.caller.process == 0 {
                        open.call.caller.process = sent.to_process;
                    }
                    self.replies.insert(sent.id, id);
                }
            }
            _ => {
                let is_counted = std::mem::take(&mut state.serves_unknown);
                self.gaps.begun_before += u64::from(!is_counted);
                // The caller's receipt is about a call that is counted already.
                self.replies.insert(sent.id, 0);
            }
        }
    }

    fn received(&mut self, time: u64, by: Task, id: Id) {
        if let Some(call) = self.replies.remove(&id) {
            return self.end(call, time, End::Replied);
        }
        let state = self.threads.entry(by.thread).or_default();
        let Some(open) = self.open.get_mut(&id) else {
            // A call that it will answer, a oneway call, or a reply.
            state.serves_unknown = true;
            self.gaps.begun_before += 1;
            return;
        };
        open.call.received = Some(time);
        open.call.server.thread = by.thread;
        if open.call.is_oneway() {
            return self.end(id, time, End::Taken);
        }
        state.stack.push(Frame::Serves(id));
    }

    fn sized(&mut self, id: Id, size: Size) {
        if let Some(open) = self.open.get_mut(&id) {
            open.call.size = Some(size);
        } else if let Some(open) = self.replies.get(&id).and_then(|call| self.open.get_mut(call)) {
            open.call.reply_size = Some(size);
        }
    }

    fn failed(&mut self, time: u64, thread: Pid, code: u32, process_of: ProcessOf) {
        let state = self.threads.entry(thread).or_default();
        let innermost = state.stack.last().copied();
        let last_oneway = state.last_oneway;
        if let Some(Frame::Makes(id)) = innermost {
            return self.end(id, time, End::Failed(code));
        }
        if let Some(Frame::Serves(id)) = innermost {
            // The caller is gone; the thread gets this error for its reply.
            if !self.open.contains_key(&id) {
                state.stack.pop();
                return;
            }
        }
        let is_failed =
            |id: &Id| self.open.get(id).is_some_and(|open| open.is_undone || open.call.size.is_none());
        match last_oneway.filter(is_failed) {
            Some(id) => self.end(id, time, End::Failed(code)),
            None => {
                let caller = Task { process: process_of(thread), thread };
                let end = End::Refused(code);
                self.ended.push(vec![Call { caller, sent: time, ended: time, end, ..Call::default() }]);
            }
        }
    }

    fn thread_ended(&mut self, time: u64, thread: Pid) {
        let frames = self.threads.remove(&thread).map_or_else(Vec::new, |state| state.stack);
        for frame in frames.into_iter().rev() {
            if let Frame::Makes(id) = frame {
                self.end(id, time, End::CallerEnded);
            }
        }
    }

    /// Ends a call, which goes to the one that it is nested in if that is open.
    fn end(&mut self, id: Id, time: u64, how: End) {
        let Entry::Occupied(entry) = self.open.entry(id) else { return };
        let Open { mut call, nested, reply, .. } = entry.remove();
        reply.map(|reply| self.replies.remove(&reply));
        (call.ended, call.end) = (time, how);
        if let Some(state) = self.threads.get_mut(&call.caller.thread) {
            state.stack.retain(|frame| *frame != Frame::Makes(id));
            state.last_oneway = state.last_oneway.filter(|last| *last != id);
        }
        let outer = self.open.get_mut(&call.parent).filter(|_| !call.is_oneway());
        let mut all = nested;
        all.insert(0, call);
        match outer.filter(|outer| outer.nested.len() + all.len() <= NESTED_MAX) {
            Some(outer) => outer.nested.append(&mut all),
            None => self.ended.push(all),
        }
    }

    fn forget_all(&mut self) {
        self.gaps.cut_off += self.open.len() as u64;
        self.open.clear();
        self.replies.clear();
        self.threads.clear();
    }
}

#[cfg(test)]
mod tests;
